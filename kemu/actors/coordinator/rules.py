"""Where Kafka's coordinators differ: each difference is one decision here, none is an ``if`` elsewhere.

"java" is the ``group-coordinator`` module (default in 4.0), "scala" is ``GroupCoordinator.scala`` (3.2 through 3.9),
"scala-2.8", "scala-2.6" and "scala-2.4" are that of 2.8.1 to 3.1, of 2.6 to 2.7 and of 2.3 to 2.5.

One known difference has no row, because no request can show it: what OffsetDelete does when the subscriptions of a
group cannot be read (a non-empty group of another type is refused before, an empty one has no subscriptions).
"""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from kemu.actors.coordinator.hash_order import HashMaps
from kemu.protocol.errors import ErrorCode

_E = ErrorCode


@frozen(kw_only=True)
class GroupRules:
    """The decisions of one coordinator. Those with a default are alike in both: past bugs decide otherwise."""

    delay_extends_at_generation_zero_only: bool
    """A member added during the initial delay extends it: only in a group that never had a generation, or also in one
    that became empty before."""
    refusal_completes_join: bool
    """GROUP_MAX_SIZE_REACHED during a join phase checks at once whether everybody else has joined."""
    expiry_ends_initial_delay: bool
    """An expiry that leaves only joined members ends the initial delay early."""
    leave_acts_per_member: bool
    """A batch leave rebalances at its first removal, not after the whole batch."""
    pending_leave_rebalances: bool
    """The leave of an id that never joined rebalances a Stable or CompletingRebalance group."""
    leave_waits_for_record: bool
    """LeaveGroup by the last member is answered when the group's empty record is in the log."""
    waits_for_watermark: bool
    """Records are appended to the leader alone (acks=1: ``min.insync.replicas`` is not asked for), and what is answered
    waits for the high watermark, for ``offsets.commit.timeout.ms`` at most: heartbeats, leaves and fetches of stable
    offsets, too, behind what was appended before them. What took too long stands all the same (CoordinatorRuntime,
    CoordinatorPartitionWriter). Scala's coordinators ask for acks=all, nothing waits but for records of its own, and
    what took too long does not count until it is loaded again (GroupMetadataManager.storeOffsets)."""
    gathers_writes: bool
    """What is written to a partition is gathered, for ``group.coordinator.append.linger.ms`` from its first record on,
    and appended as one batch (CoordinatorContext.maybeAllocateNewBatch, flushCurrentBatch 4.0.0). Scala's coordinators
    append each write by itself, at once (GroupMetadataManager.appendForGroup 3.4.1)."""
    unknown_until_loading: bool
    """A partition whose load waits for those of others is none of this broker's yet: NOT_COORDINATOR, and not
    COORDINATOR_LOAD_IN_PROGRESS (GroupMetadataManager.loadGroupsAndOffsets marks it when its turn comes)."""
    sync_while_loading: ErrorCode
    sync_needs_vote: bool
    """A SyncGroup that names a protocol of a group that has voted for none yet is INCONSISTENT_GROUP_PROTOCOL
    (GroupCoordinator.validateSyncGroup 3.4.1); in 4.0 names are compared where there are two
    (GroupMetadataManager.isProtocolInconsistent)."""
    sync_timer: bool
    """Members that joined and do not sync are removed after the rebalance timeout (KAFKA-12890: 2.8.1, 3.0)."""
    answer_while_completing: ErrorCode
    """A heartbeat in CompletingRebalance: NONE, and a sign of life. Before 2.6 REBALANCE_IN_PROGRESS, and none
    (GroupCoordinator.handleHeartbeat 2.5.1, 2.6.3): whoever waits for its assignment is told to join again."""
    sync_rearms_session: bool
    """A SyncGroup to a Stable group counts as a sign of life."""
    lists_while_loading: bool
    """ListGroups during a load names the groups that are known already, beside the error."""
    commit_group_id_not_found_since: int | None
    """OffsetCommit (with a generation) to a missing group: from this version GROUP_ID_NOT_FOUND."""
    new_group_record: bool
    """A join that creates a group writes an empty record of it."""
    tombstone_at_generation_zero: bool
    """A group that never had a generation gets a tombstone when it goes."""
    unreplicated_is_unstable: bool
    """OffsetFetch with require_stable refuses offsets whose commit is being written."""
    revert_restores_protocols: bool
    """A static replacement whose record could not be written restores the old protocols (scala: keeps the new)."""
    failed_phase_is_over: bool
    """A join phase whose votes fail (``NoCommonProtocol``) never ends again: to 3.9 it is a DelayedOperation, completed
    before the votes are counted (DelayedOperation.forceComplete 3.4.1); in 4.0 the next join or leave counts them anew
    (GroupMetadataManager.maybeCompleteJoinPhase)."""
    replacement_stays_new: bool
    """A static member that is replaced before its first generation stays a new one, whose parked join its session ends
    (GroupMetadata.replaceStaticMember 3.4.1 keeps the object and isNew; ClassicGroup.replaceStaticMember 4.0 makes one
    that is not new)."""
    describes_assignments_always: bool
    """DescribeGroups shows the assignments that members still have in every state
    (ClassicGroupMember.describeNoMetadata 4.0), not in Stable alone (MemberMetadata.summaryNoMetadata 3.4.1)."""
    maps: HashMaps
    """In which order members are walked, and votes: who leads after a leader left, which protocol wins a tie."""
    scala_words: bool
    """Reasons of rebalances are worded as in Scala: instance ids are options, sentences have no stop."""
    tells_client_reasons: bool
    """Reasons of rebalances name what the member told of its own (KIP-800: since 3.2)."""
    group_append_errors: Mapping[ErrorCode, ErrorCode]
    """What a failed append of a group's record is answered as; others go through unchanged."""
    offset_append_errors: Mapping[ErrorCode, ErrorCode]
    """The same for offsets and tombstones."""
    replacement_rebalances_completing: bool = True
    """A static member that comes back while the leader assigns makes the group rebalance again. KAFKA-9801."""
    writes_replacements: bool = True
    """The new id of a static member that came back is written to the log. KAFKA-10284."""
    keeps_offsets_of_members: bool = True
    """Offsets of a group with members do not expire while its topics are subscribed to. KAFKA-4682 (KIP-211)."""
    keeps_offsets_while_rebalancing: bool = True
    """Nor do any while its subscriptions are not those of a Stable generation. KAFKA-13636."""


_MOVED = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
    _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
}
_TOO_LARGE = {
    _E.MESSAGE_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.RECORD_LIST_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
}
_COMMIT_TOO_LARGE = {
    _E.MESSAGE_TOO_LARGE: _E.INVALID_COMMIT_OFFSET_SIZE,
    _E.RECORD_LIST_TOO_LARGE: _E.INVALID_COMMIT_OFFSET_SIZE,
}
_TIMED_OUT_JAVA = {_E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE}
_TIMED_OUT_SCALA = {_E.REQUEST_TIMED_OUT: _E.REBALANCE_IN_PROGRESS}
_TOO_FEW_SCALA = {_E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _E.COORDINATOR_NOT_AVAILABLE}

JAVA = GroupRules(
    delay_extends_at_generation_zero_only=False,
    refusal_completes_join=False,
    expiry_ends_initial_delay=True,
    leave_acts_per_member=False,
    pending_leave_rebalances=True,
    leave_waits_for_record=True,
    waits_for_watermark=True,
    gathers_writes=True,
    unknown_until_loading=False,
    sync_while_loading=_E.COORDINATOR_LOAD_IN_PROGRESS,
    sync_needs_vote=False,
    sync_timer=True,
    answer_while_completing=_E.NONE,
    sync_rearms_session=False,
    lists_while_loading=False,
    commit_group_id_not_found_since=9,
    new_group_record=True,
    tombstone_at_generation_zero=True,
    unreplicated_is_unstable=False,
    revert_restores_protocols=True,
    failed_phase_is_over=False,
    replacement_stays_new=False,
    describes_assignments_always=True,
    maps=HashMaps.JAVA,
    scala_words=False,
    tells_client_reasons=True,
    group_append_errors=MappingProxyType({**_MOVED, **_TOO_LARGE, **_TIMED_OUT_JAVA}),
    offset_append_errors=MappingProxyType({**_MOVED, **_TOO_LARGE, **_TIMED_OUT_JAVA}),
)

SCALA = GroupRules(
    delay_extends_at_generation_zero_only=True,
    refusal_completes_join=True,
    expiry_ends_initial_delay=False,
    leave_acts_per_member=True,
    pending_leave_rebalances=False,
    leave_waits_for_record=False,
    waits_for_watermark=False,
    gathers_writes=False,
    unknown_until_loading=True,
    sync_while_loading=_E.REBALANCE_IN_PROGRESS,
    sync_needs_vote=True,
    sync_timer=True,
    answer_while_completing=_E.NONE,
    sync_rearms_session=True,
    lists_while_loading=True,
    commit_group_id_not_found_since=None,
    new_group_record=False,
    tombstone_at_generation_zero=False,
    unreplicated_is_unstable=True,
    revert_restores_protocols=False,
    failed_phase_is_over=True,
    replacement_stays_new=True,
    describes_assignments_always=False,
    maps=HashMaps.SCALA,
    scala_words=True,
    tells_client_reasons=True,
    group_append_errors=MappingProxyType({**_MOVED, **_TOO_LARGE, **_TIMED_OUT_SCALA, **_TOO_FEW_SCALA}),
    offset_append_errors=MappingProxyType({**_MOVED, **_COMMIT_TOO_LARGE, **_TOO_FEW_SCALA}),
)

SCALA_2_8 = evolve(SCALA, tells_client_reasons=False)
SCALA_2_6 = evolve(SCALA_2_8, sync_timer=False)
SCALA_2_4 = evolve(
    SCALA_2_6,
    answer_while_completing=_E.REBALANCE_IN_PROGRESS,
    replacement_rebalances_completing=False,
    writes_replacements=False,
)

GROUP_RULES: Mapping[str, GroupRules] = MappingProxyType(
    {"java": JAVA, "scala": SCALA, "scala-2.8": SCALA_2_8, "scala-2.6": SCALA_2_6, "scala-2.4": SCALA_2_4}
)
"""By ``coordinator.kind``."""


def rules_of_kind(kind: str) -> GroupRules:
    """The rules of a kind of coordinator."""
    assert kind in GROUP_RULES, f"coordinator.kind {kind!r} is unknown"
    return GROUP_RULES[kind]
