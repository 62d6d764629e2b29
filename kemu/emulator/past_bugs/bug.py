"""A past bug: a rule that Kafka once had, today's rule, and a scenario that shows the difference.

Machines never ask whether a bug is enabled. The emulator builds a machine with the rules of the enabled bugs
(``Past``).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from attrs import field

from kemu.protocol.assign.base import Assignor
from kemu.protocol.frozen import frozen


class Where(StrEnum):
    """The component that had the rule."""

    COORDINATOR = "coordinator"
    CONSUMER = "consumer"
    ASSIGNORS = "assignors"
    STREAMS = "streams"
    CONTROLLER = "controller"
    REPLICATION = "replication"


@frozen(kw_only=True)
class Past:
    """The rules of a bug that differ from today's: field -> the old value.

    ``replica`` has fields of ``ReplicaRules``, ``controller`` of ``ControllerRules``, ``coordinator`` of
    ``GroupRules``, ``consumer`` of ``MemberRules``, ``streams`` of ``StreamsRelease``. ``metadata`` has fields of
    ``MetadataRules``, for consumers and producers. ``assignors`` replace the assignors of the same names.
    ``of_releases``: pairs of a release's assignor with the bug and the same assignor without the bug.
    """

    replica: Mapping[str, Any] = field(factory=dict)
    controller: Mapping[str, Any] = field(factory=dict)
    coordinator: Mapping[str, Any] = field(factory=dict)
    consumer: Mapping[str, Any] = field(factory=dict)
    metadata: Mapping[str, Any] = field(factory=dict)
    streams: Mapping[str, Any] = field(factory=dict)
    assignors: Mapping[str, Assignor] = field(factory=dict)
    of_releases: tuple[tuple[Assignor, Assignor], ...] = ()

    def mended(self, assignor: Assignor) -> Assignor:
        """A release's assignor without the bug; the given assignor itself if the assignor lacks the bug."""
        return next((without for own, without in self.of_releases if own == assignor), assignor)

    @property
    def needs_replication(self) -> bool:
        """Whether only replicated brokers can have the bug."""
        return bool(self.replica or self.controller)


@frozen(kw_only=True)
class PastBug:
    """A past bug of Kafka.

    ``issue``: the JIRA issue of Kafka; ``rule``: name of the past rule; ``fixed_in``: first release without the bug.
        ``summary``: one line; ``story``: the failure and its cause; ``was``, ``today``: the two rules in words.
        ``caught_by`` and ``kind``: the checker that detects the bug, and the kind of the checker's violation.
        ``scenarios/ISSUE.toml`` has a scenario and a seed that show the bug.
    """

    issue: str
    rule: str
    where: Where
    fixed_in: str
    summary: str
    story: str
    was: str
    today: str
    past: Past
    caught_by: str
    kind: str
