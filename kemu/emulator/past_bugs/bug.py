"""What a past bug is: a rule that Kafka once had, beside the right one, and the run that shows what it did.

Everything here is a value: machines never ask whether a bug is on, they are given its rules (``Past``).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from attrs import field, frozen

from kemu.protocol.assign.base import Assignor


class Where(StrEnum):
    """Whose rule it was."""

    COORDINATOR = "coordinator"
    CONSUMER = "consumer"
    ASSIGNORS = "assignors"
    STREAMS = "streams"
    CONTROLLER = "controller"
    REPLICATION = "replication"


@frozen(kw_only=True)
class Past:
    """What a bug decides otherwise than today, by whose rules these are: field -> the old value.

    ``replica``: of ``ReplicaRules``; ``controller``: of ``ControllerRules``; ``coordinator``: of ``GroupRules``;
    ``consumer``: of ``MemberRules``; ``metadata``: of ``MetadataRules``, of consumers and producers; ``streams``: of
    ``StreamsRelease``. ``assignors``: in place of those of the same name.
    ``of_releases``: assignors of releases that have the bug by themselves, each with the same one without it.
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
        """A release's assignor without the bug; the same if it has not."""
        return next((without for own, without in self.of_releases if own == assignor), assignor)

    @property
    def needs_replication(self) -> bool:
        """Whether only brokers that replicate can have it."""
        return bool(self.replica or self.controller)


@frozen(kw_only=True)
class PastBug:
    """One exhibit.

    ``issue``: Kafka's; ``rule``: the past rule's name; ``fixed_in``: the release that had it no more. ``summary``: a
    line; ``story``: what happened, and why; ``was``, ``today``: the two rules in words. ``caught_by`` and ``kind``: the
    checker that notices, and how it calls what it finds. Its scenario, with the seed that shows it, is
    ``scenarios/ISSUE.toml``; ``plan``: what that does, in a line.
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
