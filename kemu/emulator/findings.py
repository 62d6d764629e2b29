"""What checkers find in a run: rules that were broken, and what no rule forbids: losses (Kafka's rules), and what did
not get well again.

Sources of LOSS_REASONS: Kafka's documentation of acks, ``unclean.leader.election.enable`` and flushing; KIP-966 ("last
replica standing").
"""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen


@frozen
class Violation:
    """A rule that was broken: when, by whom, and the entities it is about (for grouping and shrinking)."""

    checker: str
    at_us: int
    seq: int
    entities: tuple[str, ...]
    text: str
    liveness: bool = False
    """False: something bad happened. True: something good did not happen in time."""
    kind: str = ""
    """How the rule was broken, in a word of the checker's own: what ``expect`` names."""


MEMBER_FAILED = "member-failed"
KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "one-owner": ("two-owners",),
        "cooperative": ("assignment-refused", "handed-over-too-soon", "no-rejoin", "revoked-too-much"),
        "commits": (
            "ahead-of-work",
            "given-up-uncommitted",
            "not-kept",
            "not-truncated",
            "position-not-committed",
            "removed-too-early",
            "removed-too-late",
            "reset-in-range",
            "went-back",
            "wrong-reset",
        ),
        "no-lost-record": (
            "acknowledged-lost",
            "acknowledged-unwritten",
            "append-gap",
            "committed-unprocessed",
            "processed-unwritten",
        ),
        "group-progress": (
            "closed-early",
            "join-unfinished",
            "member-kept",
            "no-position",
            "not-rejoined",
            "not-taken",
            "offsets-uncommitted",
            "records-unread",
            "sync-unfinished",
        ),
        "clients": ("not-looked-up", "not-rejoined", "storm", "too-late", "too-soon", "undecided", "vanished"),
        "membership": (
            "accepted",
            "assignment",
            "evicted",
            "generation",
            "join-answer",
            "join-phase",
            "left-out",
            "loaded",
            "members",
            "no-cause",
            "not-divided",
            "not-ranged",
            "not-revoked",
            "not-sticky",
            "off-rack",
            "protocol",
            "refused",
            "transition",
            "unbalanced",
        ),
        "lifecycle": (
            "callback",
            "left-in-time",
            "not-owned",
            "out-of-order",
            "owned",
            "started-twice",
            "works-when-closed",
            "works-when-down",
            "works-when-failed",
        ),
        "liveness": (
            "forgotten-instance",
            "forgotten-rebalance",
            "member-failed",
            "not-at-rest",
            "unheard-isr",
            "untold-coordinator",
        ),
        "replicas": (
            "acknowledged-uncommitted",
            "another-record",
            "append-gap",
            "committed-lost",
            "cut-too-much",
            "failed-log-dir",
            "isr-without-committed",
            "logs-differ",
            "read-uncommitted",
            "start-behind",
            "unclean-forbidden",
            "watermark-back",
        ),
        "tasks": (
            "checkpoint-lost",
            "checkpoint-without-state",
            "copies-misplaced",
            "early-follow-up",
            "given-up-uncommitted",
            "moved-while-running",
            "no-follow-up",
            "not-at-rest",
            "not-one-owner",
            "not-restored",
            "open-state-kept",
            "runs-twice",
            "runs-unowned",
            "runs-without-state",
            "shut-down-early",
            "state-passed-over",
            "uncommitted",
        ),
        "leadership": (
            "controller-epoch",
            "deposed-controller-writes",
            "isr-not-counted",
            "old-epoch-obeyed",
            "state-written",
            "two-leaders",
        ),
        "useless-work": ("rejoin-without-cause",),
        "duties": (
            "dead-in-isr",
            "epoch-of-another-topic",
            "fetch-stalled",
            "former-leader",
            "left-over",
            "log-of-another-topic",
            "moved-early",
            "never-shrunk",
            "no-controller",
            "no-leader",
            "not-balanced",
            "not-registered",
            "order-not-obeyed",
            "out-of-isr",
            "replica-kept",
            "session-cut",
            "session-kept",
            "stale-metadata",
            "step-kept",
            "unanswered",
            "watermark-waits",
        ),
        "isr": (
            "acknowledged-by-too-few",
            "joined-while-closing",
            "leadership-kept",
            "shrunk-in-sync",
            "watermark-at-start",
        ),
        "idempotence": ("appended-twice",),
        "reassignment": (
            "deleted-assigned",
            "dropped-in-sync",
            "not-of-the-step",
            "not-the-step",
            "order-lost",
            "refused",
            "step-from-elsewhere",
            "too-many-leaders",
            "too-many-partitions",
            "too-many-replicas",
            "unfinished",
            "unnamed",
            "unused",
        ),
        "catch-up": (
            "commit-not-rising",
            "committed-unprocessed",
            "delivered-twice",
            "not-jumped",
            "outside-range",
            "range-left-open",
            "range-misplaced",
            "second-uncommitted",
        ),
        "answers": ("untrue",),
        "fields": ("wrong",),
        "pace": ("overdue", "too-late", "too-many", "too-soon"),
        "requests": (
            "answered-unasked",
            "gave-up-early",
            "out-of-order",
            "timed-out-early",
            "two-sessions",
            "unanswered",
            "waits-for-ever",
        ),
    }
)
"""Checker -> the ways its rule can be broken."""

UNCLEAN = "unclean-election"
UNFLUSHED = "unflushed"
EMPTY_DISK = "lost-disk"
LOST_TAIL = "lost-tail"
LEADER_ONLY = "acks"
READ_PAST = "read-past"
DIVERGED = "diverged"

LOSS_REASONS: Mapping[str, str] = MappingProxyType(
    {
        UNCLEAN: "no in-sync replica was left, and the topic allows unclean elections: a replica without them leads",
        UNFLUSHED: "the last in-sync replica had not flushed them when its power was cut (log.flush.interval.*)",
        EMPTY_DISK: "the last in-sync replica came back with an empty disk",
        LOST_TAIL: "the last in-sync replica's disk lost the end of what it was asked to keep",
        READ_PAST: "the log lost what the group had passed at their offsets, and nobody told the group: the next leader"
        " knows no later epoch there (KIP-320)",
        DIVERGED: "they came where a leader had lost its log's end that led on in its epoch, so that nothing told its"
        " followers; one that still had what was there before leads now",
        LEADER_ONLY: "only their leader had them: the producer asked for no more (acks=0 or 1), and another leads now",
    }
)
"""Reason -> why that is allowed."""


@frozen
class Loss:
    """Records ``first .. last`` of a partition are gone, for a reason in LOSS_REASONS."""

    at_us: int
    partition: str
    first: int
    last: int
    why: str

    @property
    def records(self) -> int:
        """How many."""
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
        LEFT_OVER_LOG: "the order to delete it was lost with its controller or its broker's registration, and no"
        " controller asks what is on a broker's disk",
        LOG_OF_ANOTHER_TOPIC: "its log was left over of a deleted topic of that name (INCONSISTENT_TOPIC_ID, KIP-516):"
        " it is for an operator to remove",
        EPOCH_OF_ANOTHER_TOPIC: "it takes part in a later leader epoch of a deleted topic of that name, and heeds"
        " nothing older: before topic ids (KIP-516) nothing else tells one from the other",
        UNHEARD_ISR: "its leader waits for another leader epoch: the controller does not know the ISR it wrote itself",
    }
)
"""Reason -> why something is not well for good, and no controller sees to it: all works, with less than it should."""

STAYS_BLOCKED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("liveness", UNTOLD_COORDINATOR): "the order to stop its replica was lost with the controller: the broker still"
        " takes itself for the leader of the group's log, where nobody follows it, and members ask for another"
        " coordinator only when theirs says so or goes; restarting that broker ends it",
        (
            "liveness",
            UNHEARD_ISR,
        ): "the leader of the group's log waits for another leader epoch, with too few in its"
        " ISR for min.insync.replicas: the controller wrote a larger one, lost the answer, and does not know of it; a"
        " restart of that leader ends it, or another election",
        (
            "duties",
            LOG_OF_ANOTHER_TOPIC,
        ): "who is to lead the partition has a log of a deleted topic of that name, and"
        " refuses (INCONSISTENT_TOPIC_ID, KIP-516): nobody leads it until an operator removes that log",
        (
            "liveness",
            FORGOTTEN_INSTANCE,
        ): "the group's log has no record with the new id of a static member: it lost that,"
        " or another broker took the group over before the rebalance was over in which the member got it; the"
        " coordinator knows the former id and fences the member (FENCED_INSTANCE_ID), which is fatal",
        (
            "liveness",
            FORGOTTEN_REBALANCE,
        ): "a static member gave partitions up, or led and did not know of them, and came back (started again, or"
        " without its member id) before the rebalance that would have given them out was over: it is answered the"
        " generation that stands, and asks for no other; any rebalance of the group ends it",
        ("duties", EPOCH_OF_ANOTHER_TOPIC): "who is to lead the partition takes part in a later leader epoch of a"
        " deleted topic of that name, and heeds nothing older (before topic ids, KIP-516)",
    }
)
"""(checker, kind) -> why something stands still for good as it would in Kafka: a group, a partition.

No run holds in which that is, unless it is expected; sweeps over random faults do (``expectations.OF_KAFKAS_OWN``).
"""


@frozen
class Unmended:
    """Something did not get well after the faults, for a reason of ``STAYS_DEGRADED``: what, and for how long it was so."""

    at_us: int
    what: str
    why: str
    text: str
