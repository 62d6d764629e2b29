"""Probes: rare things that a run may come to, by name. A sweep in which one is never hit has not been there.

A probe looks at one fact (a machine's note or the world's) and says whether this is it. It holds nothing and finds no
fault: what must not happen is a checker's business.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from kemu.actors.consumer.reasons import POLL_TIMEOUT
from kemu.actors.controller.elections import Strategy
from kemu.actors.coordinator.state import GroupState
from kemu.emulator import facts
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinGroup, OffsetCommit, SyncGroup
from kemu.protocol.notes import groups, ranges, replication, streams


def _always(fact: Any) -> bool:
    return True


@frozen
class Probe:
    """``says``: what happened, in words; ``kind``: the facts it looks at; ``shows``: whether one of them is it."""

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
        "a join phase ended with nobody in it",
        groups.GroupBecame,
        _became(GroupState.PREPARING, GroupState.EMPTY),
    ),
    Probe(
        "group-loaded-with-members",
        "a coordinator took over a group with members from its log",
        groups.GroupLoaded,
        lambda fact: fact.state != GroupState.EMPTY.value,
    ),
    Probe("group-unloaded", "a coordinator gave a group up to another broker", groups.GroupUnloaded),
    Probe("offsets-load-fails", "a coordinator could not read its log", groups.OffsetsLoadFailed),
    Probe("offsets-expire", "committed offsets were removed", groups.OffsetRemoved),
    Probe(
        "member-did-not-rejoin",
        "a join phase ended without a member that had been there",
        groups.MemberRemoved,
        lambda fact: fact.removal is groups.Removal.NOT_REJOINED,
    ),
    Probe(
        "member-did-not-sync",
        "a member joined and never synced (KAFKA-12890)",
        groups.MemberRemoved,
        lambda fact: fact.removal is groups.Removal.NOT_SYNCED,
    ),
    Probe(
        "static-member-replaced",
        "a static member came back under a new member id (KIP-345)",
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
        "a commit came too late",
        groups.RequestRefused,
        _refused(OffsetCommit, _E.ILLEGAL_GENERATION),
    ),
    Probe(
        "commit-of-stranger",
        "a commit of a member that is none any more",
        groups.RequestRefused,
        _refused(OffsetCommit, _E.UNKNOWN_MEMBER_ID),
    ),
    Probe(
        "commit-between-join-and-sync",
        "a commit came while the leader was assigning",
        groups.RequestRefused,
        _refused(OffsetCommit, _E.REBALANCE_IN_PROGRESS),
    ),
    Probe(
        "sync-of-old-generation",
        "a sync came too late",
        groups.RequestRefused,
        _refused(SyncGroup, _E.ILLEGAL_GENERATION),
    ),
    Probe(
        "sync-in-next-join-phase",
        "a sync came when the next join phase had begun",
        groups.RequestRefused,
        _refused(SyncGroup, _E.REBALANCE_IN_PROGRESS),
    ),
    Probe(
        "join-with-lost-id",
        "a member joined with an id that its group has forgotten",
        groups.RequestRefused,
        _refused(JoinGroup, _E.UNKNOWN_MEMBER_ID),
    ),
    Probe(
        "group-is-full",
        "a member was refused for group.max.size",
        groups.RequestRefused,
        _refused(JoinGroup, _E.GROUP_MAX_SIZE_REACHED),
    ),
    Probe(
        "join-while-loading",
        "a member asked a coordinator that was still reading its log",
        groups.RequestRefused,
        _refused(JoinGroup, _E.COORDINATOR_LOAD_IN_PROGRESS),
    ),
    Probe(
        "poll-too-late",
        "an application was away for longer than max.poll.interval.ms",
        groups.MemberBecame,
        lambda fact: fact.why == POLL_TIMEOUT,
    ),
    Probe("partitions-lost", "a member lost what it owned", groups.PartitionsLost, lambda fact: bool(fact.lost)),
    Probe("member-fails", "a fatal error reached an application", groups.MemberFailed),
    Probe("listener-raises", "a callback of a rebalance listener raised", groups.ListenerFailed),
    Probe("assignment-refused", "a member refused what the leader gave it", groups.AssignmentRefused),
    Probe("members-incompatible", "eager and cooperative members met (KIP-429's page)", groups.IncompatibleRebalance),
    Probe("produce-fails", "a producer gave a batch up", groups.ProduceFailed),
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
    Probe("isr-of-one", "an ISR shrank to its leader", replication.IsrChanged, lambda fact: len(fact.isr) == 1),
    Probe("isr-change-fails", "a leader could not change its ISR", replication.IsrChangeFailed),
    Probe("isr-write-refused", "the store knew another ISR than the controller", replication.IsrWriteRefused),
    Probe("log-truncated", "a replica cut its log", replication.Truncated),
    Probe("log-start-moves", "a log lost its beginning", replication.LogStartMoved),
    Probe("replica-deleted", "a broker removed a replica's log", replication.ReplicaStopped, lambda fact: fact.deleted),
    Probe("log-dir-fails", "a log directory failed (KIP-112)", replication.LogDirFailed),
    Probe("controller-resigns", "a controller stepped down", replication.ControllerResigned),
    Probe("controller-write-refused", "the store fenced a controller's write", replication.ControllerWriteRefused),
    Probe("control-request-refused", "a broker refused a controller of old", replication.ControlRequestRefused),
    Probe("state-change-refused", "a controller could not move a partition or replica", replication.StateChangeRefused),
    Probe(
        "session-expires",
        "the store ended a session that its client still wanted",
        replication.SessionEnded,
        lambda fact: fact.why == replication.EXPIRED,
    ),
    Probe("store-takes-over", "another leader of the store's ensemble served", replication.StoreTookOver),
    Probe("reassignment-blocked", "a reassignment could not go on", replication.ReassignmentBlocked),
    Probe("topic-deletion-halted", "the deletion of a topic had to wait", replication.TopicDeletionHalted),
    # --- Streams, KIP-333 -----------------------------------------------------------------------------------------
    Probe("learner-ready", "a learner task had caught up", streams.LearnerReady),
    Probe("thread-replaced", "a stream thread died and another took its place (KIP-671)", streams.ThreadReplaced),
    Probe("range-opened", "a member began to catch up beside its work (KIP-333)", ranges.RangeOpened),
    Probe("range-trimmed", "a range to catch up lost its beginning", ranges.RangeTrimmed),
    Probe("child-consumer-dies", "the second consumer of a member died (KIP-333)", ranges.ChildConsumerDied),
    # --- the world ------------------------------------------------------------------------------------------------
    Probe("disk-tail-lost", "a disk lost the end of a log", facts.DiskTailLost),
    Probe("unflushed-lost", "a power cut took what was not flushed", facts.UnflushedLost),
    Probe("host-pauses", "a process stood still", facts.HostPaused),
)

PROBES: Mapping[str, Probe] = MappingProxyType({row.name: row for row in _ROWS})
"""By name."""
