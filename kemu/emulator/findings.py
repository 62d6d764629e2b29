"""The findings of checkers: violations, allowed losses, and conditions that Kafka itself never ends.

Sources of LOSS_REASONS: Kafka's documentation of acks, ``unclean.leader.election.enable`` and flushing; KIP-966 ("last
replica standing").
"""

import importlib
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from kemu.protocol.frozen import frozen


@frozen
class Violation:
    """A broken rule: time, step, text, and the affected entities (for grouping and shrinking)."""

    checker: str
    at_us: int
    seq: int
    entities: tuple[str, ...]
    text: str
    liveness: bool = False
    """False: a forbidden event happened. True: a required event did not happen in time."""
    kind: str = ""
    """The kind of the violation, a word that the checker defines; ``expect`` of a scenario names kinds."""


NOUNS = ("group", "member", "partition", "topic", "broker", "producer", "host")
"""An expected subject may begin with one of these nouns: "group billing" equals "billing"."""


def expected_among(violations: Iterable[Violation], checker: str, kind: str = "", subject: str = "") -> list[Violation]:
    """Return the violations that an expectation covers; without a kind, those of the first kind that is found."""
    noun, _, name = subject.partition(" ")
    wanted = name if name and noun in NOUNS else subject
    found = [
        each
        for each in violations
        if each.checker == checker and kind in ("", each.kind) and (not wanted or wanted in each.entities)
    ]
    return found if kind else [each for each in found if each.kind == found[0].kind]


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
        UNCLEAN: "no in-sync replica was left, and an unclean election chose a leader without the records",
        UNFLUSHED: "the last in-sync replica had not flushed the records at its power cut (log.flush.interval.*)",
        EMPTY_DISK: "the last in-sync replica restarted with an empty disk",
        LOST_TAIL: "the disk of the last in-sync replica lost the end of its log",
        READ_PAST: "the log lost the records that the group processed at these offsets. No leader reported the loss:"
        " the next leader has no later epoch at these offsets (KIP-320)",
        DIVERGED: "a leader's disk lost the end of its log, and the leader wrote new records in the same epoch,"
        " unnoticed by its followers. A follower with the earlier records leads now",
        LEADER_ONLY: "only the former leader had the records (acks=0 or 1), and another broker leads now",
    }
)
"""Reason of a loss -> explanation why Kafka allows the loss."""


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
UNHEARD_EPOCH = "unheard-epoch"
UNHEARD_ISR = "unheard-isr"
UNHEARD_STATE = "unheard-state"
FORGOTTEN_INSTANCE = "forgotten-instance"
FORGOTTEN_REBALANCE = "forgotten-rebalance"
FORGOTTEN_GROUP = "forgotten-group"
INCONSISTENT_MEMBERS = "inconsistent-members"
UNCONVERTED_GROUP = "unconverted-group"
DOWNGRADED_GROUP = "downgraded-group"
UNRELEASED_INSTANCE = "unreleased-instance"
UNHEARD_REMOVAL = "unheard-removal"
SYNC_WHILE_LOADING = "sync-while-loading"

STAYS_DEGRADED: Mapping[str, str] = MappingProxyType(
    {
        LEFT_OVER_LOG: "the request to delete the log was lost with the controller or the broker's registration. No"
        " controller asks a broker for its logs",
        LOG_OF_ANOTHER_TOPIC: "the broker has the log of a deleted topic of the same name"
        " (INCONSISTENT_TOPIC_ID, KIP-516); an operator must remove the log",
        EPOCH_OF_ANOTHER_TOPIC: "the broker is in a later leader epoch of a deleted topic of the same name, and"
        " ignores older epochs: without topic ids (KIP-516) the two topics are indistinguishable",
        UNHEARD_ISR: "the leader waits for another leader epoch: the controller does not know its own last ISR",
    }
)
"""Reason -> explanation why a condition lasts permanently. The condition only reduces redundancy."""

STAYS_BLOCKED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("liveness", UNTOLD_COORDINATOR): (
            "the request to stop the coordinator's replica was lost with the controller. The broker still leads its"
            " copy of the group's log, without followers. Its members ask for another coordinator only if the broker"
            " refuses them or stops; a restart of the broker ends the condition"
        ),
        ("liveness", UNHEARD_ISR): (
            "the leader of the group's log waits for another leader epoch, with an ISR below min.insync.replicas. The"
            " controller wrote a larger ISR, lost the answer, and does not know the ISR. A restart of the leader, or"
            " another election, ends the condition"
        ),
        ("liveness", UNHEARD_STATE): (
            "the group's log has no leader. The controller created the state of the partition, lost the answer, and was"
            " refused when it created the state again (NODE_EXISTS). It does not know the state. Another controller"
            " ends the condition"
        ),
        ("duties", UNHEARD_STATE): (
            "the partition has no leader. The controller created the state of the partition, lost the answer, and was"
            " refused when it created the state again (NODE_EXISTS). It does not know the state. Another controller"
            " ends the condition"
        ),
        ("duties", LOG_OF_ANOTHER_TOPIC): (
            "the store's leader of the partition has the log of a deleted topic of the same name, and refuses to lead"
            " (INCONSISTENT_TOPIC_ID, KIP-516). The partition has no leader until an operator removes the log"
        ),
        ("liveness", FORGOTTEN_INSTANCE): (
            "the group's log has no record with the new id of a static member: the log lost the record, or the"
            " coordinator changed before the end of the member's rebalance. The next coordinator knows the former id,"
            " and fences the member (FENCED_INSTANCE_ID), which is fatal"
        ),
        ("liveness", INCONSISTENT_MEMBERS): (
            "the plan changed the assignors of the group's members while the coordinator still had members with the"
            " former assignors. A member that shares no assignor with all of these members gets"
            " INCONSISTENT_GROUP_PROTOCOL, which is fatal. Operators wait until each former member has left"
        ),
        ("liveness", FORGOTTEN_GROUP): (
            "the group's log lost the records of the group, or an admin deleted the group after the coordinator had"
            " removed the member. The coordinator does not know the group. It answers GROUP_ID_NOT_FOUND to the"
            " heartbeats of the consumer protocol, which is fatal (KIP-848). Members of a classic group would rejoin"
        ),
        ("liveness", UNCONVERTED_GROUP): (
            "a member of the consumer protocol joined during the first join phase of a classic group. The group has no"
            " assignor yet, so that the coordinator cannot convert the group, and answers UNKNOWN_SERVER_ERROR. The"
            " error is fatal (Kafka 4.0 to 4.3 ConsumerGroup.fromClassicGroup)"
        ),
        ("liveness", DOWNGRADED_GROUP): (
            "the coordinator removed the last members of the consumer protocol, and so converted the group to a classic"
            " group, or a classic member joined the empty group. A removed member that returns gets"
            " GROUP_ID_NOT_FOUND, which is fatal (Kafka 4.0 to 4.3"
            " GroupMetadataManager.getOrMaybeCreateConsumerGroup)"
        ),
        ("liveness", UNRELEASED_INSTANCE): (
            "a static member of the consumer protocol restarted before its former process left or its session ended, or"
            " repeated a join without an answer. The coordinator answers UNRELEASED_INSTANCE_ID, which is fatal"
            " (KIP-848)"
        ),
        ("liveness", UNHEARD_EPOCH): (
            "all members of a group of the consumer protocol are classic, because the group is larger than"
            " group.max.size or group.consumer.migration.policy forbids to convert it. The group's epoch rose when a"
            " member was removed, and no heartbeat asks a classic member to rejoin before the target has this epoch"
            " (Kafka 4.3 GroupMetadataManager.classicGroupHeartbeatToConsumerGroup). The next join ends the condition"
        ),
        ("liveness", SYNC_WHILE_LOADING): (
            "a classic member sent a SyncGroup while the coordinator loaded the group's log. Since Kafka 4.0 the answer"
            " is COORDINATOR_LOAD_IN_PROGRESS (GroupCoordinatorService.syncGroup), which the client does not expect:"
            " poll() raises an exception (AbstractCoordinator.SyncGroupResponseHandler, Kafka 4.0 to 4.3). Earlier"
            " coordinators answer REBALANCE_IN_PROGRESS, and the member rejoins"
        ),
        ("liveness", UNHEARD_REMOVAL): (
            "the coordinator has removed a member of the consumer protocol, or its log lost the member. The member"
            " asked for committed offsets before a heartbeat told it so. The answer is UNKNOWN_MEMBER_ID, which"
            " poll() raises (Kafka 4.0 to 4.3 CommitRequestManager). After a heartbeat, the member would rejoin"
        ),
        ("liveness", FORGOTTEN_REBALANCE): (
            "a static member revoked partitions, led the group without knowing them, or subscribed to their topics"
            " later. The member rejoined (after a restart, or without its member id) before the rebalance that would"
            " have assigned the partitions was over. So the member got the present generation and asks for no"
            " rebalance. Or the join of a static member"
            " converted the group to the other protocol in the middle of a rebalance, without another rebalance. Any"
            " rebalance ends the condition"
        ),
        ("duties", EPOCH_OF_ANOTHER_TOPIC): (
            "the store's leader of the partition is in a later leader epoch of a deleted topic of the same name, and"
            " ignores older epochs (before topic ids, KIP-516)"
        ),
    }
)
"""(checker, kind) -> explanation why a group or a partition stays blocked permanently, as in Kafka.

A run with such a violation holds only if the scenario expects the violation. Sweeps over random faults expect these
violations (``expectations.of_kafkas_own``).
"""


@frozen
class Unmended:
    """A condition that did not end after the faults. ``why``: a reason in ``STAYS_DEGRADED``. ``text``: a description
    with the duration.
    """

    at_us: int
    what: str
    why: str
    text: str
