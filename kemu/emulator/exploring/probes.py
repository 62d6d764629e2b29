"""Probes: rare events in runs, by name. A sweep that never hits a probe has not tested the event of the probe.

A probe looks at one fact: a machine's note, or a fact of the world. A probe keeps no state. Only checkers judge.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kemu.actors.consumer.reasons import POLL_TIMEOUT
from kemu.actors.controller.elections import Strategy
from kemu.actors.coordinator.state import GroupState
from kemu.emulator import facts
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.group import JoinGroup, OffsetCommit, SyncGroup
from kemu.protocol.notes import groups, ranges, replication, streams


def _always(fact: Any) -> bool:
    return True


@frozen
class Probe:
    """A rare event. ``says`` describes the event, ``kind`` is its type of fact, ``shows`` tells whether a fact is the
    event.
    """

    name: str
    says: str
    kind: type
    shows: Callable[[Any], bool] = _always


def _refused(api: type, error: ErrorCode) -> Callable[[groups.RequestRefused], bool]:
    return lambda fact: fact.api == api.__name__ and fact.error is error


def _elected(strategy: Strategy) -> Callable[[replication.LeaderElectedForPartition], bool]:
    return lambda fact: fact.strategy == strategy.value


def _became(old: GroupState, new: GroupState) -> Callable[[groups.GroupBecame], bool]:
    return lambda fact: (fact.old, fact.new) == (old.value, new.value)


_E = ErrorCode
_ROWS = (
    # --- groups ---------------------------------------------------------------------------------------------------
    Probe(
        "join-phase-interrupts-assignment",
        "a rebalance began while the leader was still assigning",
        groups.GroupBecame,
        _became(GroupState.COMPLETING, GroupState.PREPARING),
    ),
    Probe(
        "group-becomes-empty",
        "a join phase ended without members",
        groups.GroupBecame,
        _became(GroupState.PREPARING, GroupState.EMPTY),
    ),
    Probe(
        "group-loaded-with-members",
        "a coordinator loaded a group with members from its log",
        groups.GroupLoaded,
        lambda fact: fact.state != GroupState.EMPTY.value,
    ),
    Probe("group-unloaded", "a coordinator unloaded a group that another broker takes over", groups.GroupUnloaded),
    Probe("offsets-load-fails", "a coordinator could not read its log", groups.OffsetsLoadFailed),
    Probe("offsets-expire", "committed offsets were removed", groups.OffsetRemoved),
    Probe(
        "member-did-not-rejoin",
        "a join phase ended without a former member",
        groups.MemberRemoved,
        lambda fact: fact.removal is groups.Removal.NOT_REJOINED,
    ),
    Probe(
        "member-did-not-sync",
        "a member joined and never sent SyncGroup (KAFKA-12890)",
        groups.MemberRemoved,
        lambda fact: fact.removal is groups.Removal.NOT_SYNCED,
    ),
    Probe(
        "static-member-replaced",
        "a static member rejoined under a new member id (KIP-345)",
        groups.MemberRemoved,
        lambda fact: fact.removal is groups.Removal.REPLACED,
    ),
    Probe(
        "replacement-reverted",
        "the new id of a static member could not be written",
        groups.MemberRemoved,
        lambda fact: fact.removal is groups.Removal.NOT_REPLACED,
    ),
    Probe(
        "instance-fenced",
        "the former owner of a group.instance.id was refused",
        groups.RequestRefused,
        lambda fact: fact.error is _E.FENCED_INSTANCE_ID,
    ),
    Probe(
        "commit-of-old-generation",
        "a coordinator refused a commit of a past generation",
        groups.RequestRefused,
        _refused(OffsetCommit, _E.ILLEGAL_GENERATION),
    ),
    Probe(
        "commit-of-stranger",
        "a coordinator refused a commit of a removed member",
        groups.RequestRefused,
        _refused(OffsetCommit, _E.UNKNOWN_MEMBER_ID),
    ),
    Probe(
        "commit-between-join-and-sync",
        "a coordinator refused a commit while the leader was assigning",
        groups.RequestRefused,
        _refused(OffsetCommit, _E.REBALANCE_IN_PROGRESS),
    ),
    Probe(
        "sync-of-old-generation",
        "a coordinator refused a SyncGroup of a past generation",
        groups.RequestRefused,
        _refused(SyncGroup, _E.ILLEGAL_GENERATION),
    ),
    Probe(
        "sync-in-next-join-phase",
        "a coordinator refused a SyncGroup after the next join phase had begun",
        groups.RequestRefused,
        _refused(SyncGroup, _E.REBALANCE_IN_PROGRESS),
    ),
    Probe(
        "join-with-lost-id",
        "a member joined with a member id that the group no longer has",
        groups.RequestRefused,
        _refused(JoinGroup, _E.UNKNOWN_MEMBER_ID),
    ),
    Probe(
        "group-is-full",
        "a coordinator refused a member because of group.max.size",
        groups.RequestRefused,
        _refused(JoinGroup, _E.GROUP_MAX_SIZE_REACHED),
    ),
    Probe(
        "join-while-loading",
        "a member joined while the coordinator was still reading its log",
        groups.RequestRefused,
        _refused(JoinGroup, _E.COORDINATOR_LOAD_IN_PROGRESS),
    ),
    Probe(
        "poll-too-late",
        "an application did not poll for max.poll.interval.ms",
        groups.MemberBecame,
        lambda fact: fact.why == POLL_TIMEOUT,
    ),
    Probe("partitions-lost", "a member lost its partitions", groups.PartitionsLost, lambda fact: bool(fact.lost)),
    Probe("member-fails", "a fatal error reached an application", groups.MemberFailed),
    Probe("listener-raises", "a callback of a rebalance listener raised", groups.ListenerFailed),
    Probe("assignment-refused", "a member refused its assignment", groups.AssignmentRefused),
    Probe("members-incompatible", "eager and cooperative members met (KIP-429's page)", groups.IncompatibleRebalance),
    Probe("produce-fails", "a producer gave up a batch", groups.ProduceFailed),
    # --- replication ----------------------------------------------------------------------------------------------
    Probe(
        "unclean-election",
        "a leader outside the ISR was elected",
        replication.LeaderElectedForPartition,
        lambda fact: fact.unclean,
    ),
    *(
        Probe(
            f"election-{strategy.value}",
            f"a leader was elected: {strategy.value}",
            replication.LeaderElectedForPartition,
            _elected(strategy),
        )
        for strategy in (Strategy.OFFLINE, Strategy.PREFERRED, Strategy.REASSIGN, Strategy.CONTROLLED_SHUTDOWN)
    ),
    Probe("isr-of-one", "an ISR shrank to the leader alone", replication.IsrChanged, lambda fact: len(fact.isr) == 1),
    Probe("isr-change-fails", "a leader could not change its ISR", replication.IsrChangeFailed),
    Probe(
        "isr-write-refused",
        "the controller's ISR differed from the store's",
        replication.IsrWriteRefused,
    ),
    Probe("log-truncated", "a replica truncated its log", replication.Truncated),
    Probe("log-start-moves", "the first records of a log were deleted", replication.LogStartMoved),
    Probe("replica-deleted", "a broker deleted a replica's log", replication.ReplicaStopped, lambda fact: fact.deleted),
    Probe("log-dir-fails", "a log directory failed (KIP-112)", replication.LogDirFailed),
    Probe("controller-resigns", "a controller resigned", replication.ControllerResigned),
    Probe("controller-write-refused", "the store fenced a controller's write", replication.ControllerWriteRefused),
    Probe("control-request-refused", "a broker refused an old controller's request", replication.ControlRequestRefused),
    Probe("state-change-refused", "a partition's or replica's state could not change", replication.StateChangeRefused),
    Probe(
        "session-expires",
        "the store ended a session that its client still used",
        replication.SessionEnded,
        lambda fact: fact.why == replication.EXPIRED,
    ),
    Probe("store-takes-over", "another leader of the store's ensemble took over", replication.StoreTookOver),
    Probe("reassignment-blocked", "a reassignment could not continue", replication.ReassignmentBlocked),
    Probe("topic-deletion-halted", "the deletion of a topic had to wait", replication.TopicDeletionHalted),
    # --- Streams, KIP-333 -----------------------------------------------------------------------------------------
    Probe("learner-ready", "a learner task had caught up", streams.LearnerReady),
    Probe(
        "thread-replaced",
        "a new thread replaced a dead stream thread (KIP-671)",
        streams.ThreadReplaced,
    ),
    Probe("range-opened", "a second consumer got a range to process (KIP-333)", ranges.RangeOpened),
    Probe("range-trimmed", "the first records of a second consumer's range were deleted", ranges.RangeTrimmed),
    Probe("child-consumer-dies", "the second consumer of a member died (KIP-333)", ranges.ChildConsumerDied),
    # --- the world ------------------------------------------------------------------------------------------------
    Probe("disk-tail-lost", "a disk lost the end of a log", facts.DiskTailLost),
    Probe("unflushed-lost", "a power cut removed unflushed records", facts.UnflushedLost),
    Probe("host-pauses", "a process was paused", facts.HostPaused),
)

PROBES: Mapping[str, Probe] = MappingProxyType({row.name: row for row in _ROWS})
"""Name of a probe -> the probe."""
