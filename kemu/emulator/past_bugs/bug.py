"""A past bug: a rule that Kafka once had, beside the right rule, and the run that shows the difference.

Everything here is a value. Machines never ask whether a bug is enabled: they are given its rules (``Past``).
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

    ``replica``: of ``ReplicaRules``; ``controller``: of ``ControllerRules``; ``coordinator``: of ``GroupRules``;
    ``consumer``: of ``MemberRules``; ``metadata``: of ``MetadataRules``, of consumers and producers; ``streams``: of
    ``StreamsRelease``. ``assignors``: replace those of the same name. ``of_releases``: pairs of a release's assignor
    with the bug and the same assignor without it.
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
        """A release's assignor without the bug; the same assignor if it does not have the bug."""
        return next((without for own, without in self.of_releases if own == assignor), assignor)

    @property
    def needs_replication(self) -> bool:
        """Whether only replicated brokers can have the bug."""
        return bool(self.replica or self.controller)


@frozen(kw_only=True)
class PastBug:
    """A past bug of Kafka.

    ``issue``: the JIRA issue of Kafka; ``rule``: name of the past rule; ``fixed_in``: first release without it.
        ``summary``: one line; ``story``: the failure and its cause; ``was``, ``today``: the two rules in words.
    ``caught_by`` and ``kind``: the checker that detects it, and the kind of its violation. ``scenarios/ISSUE.toml`` has
    its scenario, with a seed that shows the bug.
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
