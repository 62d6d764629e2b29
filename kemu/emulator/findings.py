"""The findings of checkers: violations, allowed losses, and conditions that Kafka itself never ends.

Sources of LOSS_REASONS: Kafka's documentation of acks, ``unclean.leader.election.enable`` and flushing; KIP-966 ("last
replica standing").
"""

import importlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from kemu.protocol.frozen import frozen


@frozen
class Violation:
    """A broken rule: time, step, text, and the entities it is about (for grouping and shrinking)."""

    checker: str
    at_us: int
    seq: int
    entities: tuple[str, ...]
    text: str
    liveness: bool = False
    """False: a forbidden event happened. True: a required event did not happen in time."""
    kind: str = ""
    """The broken part of the rule, in a word of the checker: scenarios name it in ``expect``."""


MEMBER_FAILED = "member-failed"


@cache
def kinds_by_checker() -> Mapping[str, tuple[str, ...]]:
    """Checker -> the kinds of its violations.

    A scenario names checkers, and checkers read scenarios. The first call therefore loads the checkers by the name of
    their package.
    """
    checkers = importlib.import_module("kemu.emulator.checkers").CHECKERS
    return MappingProxyType({name: checker.kinds for name, checker in checkers.items()})


UNCLEAN = "unclean-election"
UNFLUSHED = "unflushed"
EMPTY_DISK = "lost-disk"
LOST_TAIL = "lost-tail"
LEADER_ONLY = "acks"
READ_PAST = "read-past"
DIVERGED = "diverged"

LOSS_REASONS: Mapping[str, str] = MappingProxyType(
    {
        UNCLEAN: "no in-sync replica was left, and the topic allows unclean elections: the new leader lacks them",
        UNFLUSHED: "the last in-sync replica had not flushed them when its power was cut (log.flush.interval.*)",
        EMPTY_DISK: "the last in-sync replica restarted with an empty disk",
        LOST_TAIL: "the disk of the last in-sync replica lost the end of its log",
        READ_PAST: "the log lost the records that the group processed at these offsets, and no leader reported it:"
        " the next leader has no later epoch there (KIP-320)",
        DIVERGED: "a leader's disk lost the end of its log, and the leader wrote them in the same epoch, unnoticed by"
        " its followers; a follower with the earlier records leads now",
        LEADER_ONLY: "only their leader had them (the producer asked for acks=0 or 1), and another broker leads now",
    }
)
"""Reason -> why Kafka allows the loss."""


@frozen
class Loss:
    """Lost records ``first .. last`` of a partition, for a reason in LOSS_REASONS."""

    at_us: int
    partition: str
    first: int
    last: int
    why: str

    @property
    def records(self) -> int:
        """Number of lost records."""
        return self.last - self.first + 1


LEFT_OVER_LOG = "left-over-log"
LOG_OF_ANOTHER_TOPIC = "log-of-another-topic"
EPOCH_OF_ANOTHER_TOPIC = "epoch-of-another-topic"
UNTOLD_COORDINATOR = "untold-coordinator"
UNHEARD_ISR = "unheard-isr"
FORGOTTEN_INSTANCE = "forgotten-instance"
FORGOTTEN_REBALANCE = "forgotten-rebalance"

STAYS_DEGRADED: Mapping[str, str] = MappingProxyType(
    {
        LEFT_OVER_LOG: "the order to delete the log was lost with its controller or its broker's registration, and no"
        " controller asks which logs a broker has",
        LOG_OF_ANOTHER_TOPIC: "the broker has the log of a deleted topic of that name (INCONSISTENT_TOPIC_ID,"
        " KIP-516); an operator must remove it",
        EPOCH_OF_ANOTHER_TOPIC: "the broker is in a later leader epoch of a deleted topic of that name, and ignores"
        " older epochs: without topic ids (KIP-516) it cannot tell the two topics apart",
        UNHEARD_ISR: "the leader waits for another leader epoch: the controller does not know the ISR that it wrote",
    }
)
"""Reason -> why a condition lasts for good, with less redundancy than configured while the rest works."""

STAYS_BLOCKED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("liveness", UNTOLD_COORDINATOR): (
            "the order to stop the coordinator's replica was lost with the controller: the broker still leads its copy"
            " of the group's log, without followers, and its members ask for another coordinator only if it refuses"
            " them or stops; a restart of that broker ends this"
        ),
        ("liveness", UNHEARD_ISR): (
            "the leader of the group's log waits for another leader epoch, with an ISR below min.insync.replicas: the"
            " controller wrote a larger ISR, lost the answer, and does not know the ISR; a restart of that leader, or"
            " another election, ends this"
        ),
        ("duties", LOG_OF_ANOTHER_TOPIC): (
            "the store's leader of the partition has the log of a deleted topic of that name, and refuses to lead"
            " (INCONSISTENT_TOPIC_ID, KIP-516): the partition has no leader until an operator removes that log"
        ),
        ("liveness", FORGOTTEN_INSTANCE): (
            "the group's log has no record with the new id of a static member: the log lost the record, or the"
            " coordinator changed before the member's rebalance was over; the next coordinator knows the former id and"
            " fences the member (FENCED_INSTANCE_ID), which is fatal"
        ),
        ("liveness", FORGOTTEN_REBALANCE): (
            "a static member revoked partitions, or led without knowing them, and rejoined (after a restart, or without"
            " its member id) before the rebalance that would have assigned them was over: it gets the present"
            " generation, and asks for no rebalance; any rebalance of the group ends this"
        ),
        ("duties", EPOCH_OF_ANOTHER_TOPIC): (
            "the store's leader of the partition is in a later leader epoch of a deleted topic of that name, and"
            " ignores older epochs (before topic ids, KIP-516)"
        ),
    }
)
"""(checker, kind) -> why a group or a partition stays blocked for good, as it would in Kafka.

A run with such a violation does not hold unless the scenario expects it. Sweeps over random faults expect it
(``expectations.of_kafkas_own``).
"""


@frozen
class Unmended:
    """A condition that did not end after the faults, for a reason in ``STAYS_DEGRADED``, and the text with its
    duration.
    """

    at_us: int
    what: str
    why: str
    text: str
