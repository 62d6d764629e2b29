"""The differences between Kafka's coordinators: each is one decision here, and no other module tests for a kind.

"java" is the ``group-coordinator`` module of 4.0; "java-4.1" to "java-4.3" are its later versions. "scala" is
``GroupCoordinator.scala`` (3.2 through 3.9); "scala-2.8", "scala-2.6" and "scala-2.4" are its versions of 2.8.1 to 3.1,
of 2.6 to 2.7 and of 2.3 to 2.5.

One known difference is omitted because no request can show it: OffsetDelete for a group whose subscriptions cannot be
decoded. A non-empty group of another type is refused earlier, and an empty group has no subscriptions.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kemu.actors.coordinator.hash_order import HashMaps
from kemu.protocol.consumer_group.rules import RULES_4_0, RULES_4_1, RULES_4_2, RULES_4_3, ConsumerGroupRules
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve, frozen

_E = ErrorCode


@frozen(kw_only=True)
class GroupRules:
    """The decisions of one coordinator. A field with a default has this value in both kinds: only past bugs differ."""

    delay_extends_at_generation_zero_only: bool
    """A new member extends the initial delay only at generation 0, not in a group that became empty later."""
    refusal_completes_join: bool
    """GROUP_MAX_SIZE_REACHED during a join phase checks at once whether all other members have joined."""
    expiry_ends_initial_delay: bool
    """The initial delay ends early if an expired session leaves only joined members."""
    leave_acts_per_member: bool
    """A batch of LeaveGroup starts the rebalance at its first removal, not after the whole batch."""
    pending_leave_rebalances: bool
    """The leave of an id that never joined makes a Stable or CompletingRebalance group rebalance."""
    leave_waits_for_record: bool
    """The last member's LeaveGroup is answered when the group's empty record is in the log."""
    waits_for_watermark: bool
    """Appends use acks=1, without ``min.insync.replicas``; answers wait for the high watermark.

    Heartbeats, leaves and fetches of stable offsets also wait for earlier appends. The limit is
    ``offsets.commit.timeout.ms``; a record that is written after that timeout is still valid (CoordinatorRuntime,
    CoordinatorPartitionWriter). Scala's coordinators append with acks=all, and each request waits only for its own
    records. In Scala, a record written after the timeout is valid only after the partition is loaded again
    (GroupMetadataManager.storeOffsets).
    """
    gathers_writes: bool
    """Writes to a partition share one batch for ``group.coordinator.append.linger.ms`` after the first record.

    Source: CoordinatorContext.maybeAllocateNewBatch, flushCurrentBatch 4.0.0. Scala's coordinators append each write at
    once (GroupMetadataManager.appendForGroup 3.4.1).
    """
    unknown_until_loading: bool
    """NOT_COORDINATOR is the answer while a partition's load waits for other loads, not COORDINATOR_LOAD_IN_PROGRESS.

    Source: GroupMetadataManager.loadGroupsAndOffsets, which marks the partition only when its load begins.
    """
    sync_while_loading: ErrorCode
    sync_needs_vote: bool
    """A SyncGroup that names a protocol is INCONSISTENT_GROUP_PROTOCOL while the group has no protocol yet.

    Source: GroupCoordinator.validateSyncGroup 3.4.1. In 4.0 the protocol names are compared only if both names exist
    (GroupMetadataManager.isProtocolInconsistent).
    """
    sync_timer: bool
    """Members that joined and do not sync are removed after the rebalance timeout (KAFKA-12890: 2.8.1, 3.0)."""
    answer_while_completing: ErrorCode
    """The answer to a heartbeat in CompletingRebalance: NONE, which also restarts the member's session timeout.

    Before 2.6 the answer is REBALANCE_IN_PROGRESS, and the session timeout continues. So waiting members rejoin
    (GroupCoordinator.handleHeartbeat 2.5.1, 2.6.3).
    """
    sync_rearms_session: bool
    """A SyncGroup to a Stable group restarts the member's session timeout."""
    lists_while_loading: bool
    """ListGroups during a load returns the groups known so far with the error."""
    commit_group_id_not_found_since: int | None
    """The first version whose OffsetCommit with a generation to a missing group gets GROUP_ID_NOT_FOUND."""
    new_group_record: bool
    """A join that creates a group writes an empty record of the group."""
    tombstone_at_generation_zero: bool
    """A removed group that never had a generation gets a tombstone."""
    unreplicated_is_unstable: bool
    """OffsetFetch with require_stable refuses offsets whose commit is being written."""
    revert_restores_protocols: bool
    """If a static replacement's record cannot be written, the old protocols are restored (Scala keeps the new
    protocols).
    """
    failed_phase_is_over: bool
    """A join phase whose votes fail (``NoCommonProtocol``) never ends.

    Through 3.9 the phase is a DelayedOperation, completed before the votes are counted (DelayedOperation.forceComplete
    3.4.1). In 4.0 the next join or leave counts the votes anew (GroupMetadataManager.maybeCompleteJoinPhase).
    """
    replacement_stays_new: bool
    """A static member that is replaced before its first generation remains new. The end of its session also ends its
    parked join.

    Source: GroupMetadata.replaceStaticMember 3.4.1 keeps the object and isNew; ClassicGroup.replaceStaticMember 4.0
    makes an object that is not new.
    """
    describes_assignments_always: bool
    """DescribeGroups shows the members' present assignments in every state (ClassicGroupMember.describeNoMetadata 4.0).

    False: only in Stable (MemberMetadata.summaryNoMetadata 3.4.1).
    """
    consumer_protocol: bool
    """The coordinator serves groups with the consumer protocol (KIP-848). Only 4.0 enables it by default; in 3.7 to 3.9
    it is a preview."""
    maps: HashMaps
    """The hash maps whose order determines the next leader after a leave, and the winner of a tied vote."""
    scala_words: bool
    """Reasons of rebalances are in Scala's words: instance ids as options, no full stop."""
    tells_client_reasons: bool
    """Reasons of rebalances include the client's own reason (KIP-800: since 3.2)."""
    group_append_errors: Mapping[ErrorCode, ErrorCode]
    """Error of a failed append of a group's record -> error of the answer; other errors are unchanged."""
    offset_append_errors: Mapping[ErrorCode, ErrorCode]
    """Error of a failed append of offsets or tombstones -> error of the answer; other errors are unchanged."""
    consumer_groups: ConsumerGroupRules = RULES_4_0
    """The decisions about groups of the consumer protocol."""
    keeps_topic_ids: bool = False
    """A committed offset keeps the topic id of its request (since 4.1), so that it is no offset of a later topic of the
    same name.

    Source: ``OffsetMetadataManager.commitOffset``, ``fetchOffsets`` 4.0.2, 4.1.2; ``OffsetCommitValue`` 4.1.2.
    """
    finds_topic_ids: bool = False
    """An offset that was committed by the topic's name keeps the id of the topic (since 4.3). The end of a topic
    removes only its own offsets, and offsets without an id.

    Source: ``KafkaApis.handleOffsetCommitRequest``, ``OffsetMetadataManager.onTopicsDeleted`` 4.2.1, 4.3.0.
    """
    replacement_rebalances_completing: bool = True
    """A static member that returns while the leader computes the assignment makes the group rebalance. KAFKA-9801."""
    writes_replacements: bool = True
    """The new id of a returning static member is written to the log. KAFKA-10284."""
    keeps_offsets_of_members: bool = True
    """Offsets of a group with members do not expire while its topics are subscribed. KAFKA-4682 (KIP-211)."""
    keeps_offsets_while_rebalancing: bool = True
    """Offsets do not expire during a rebalance, when the subscriptions are not final. KAFKA-13636."""
    holds_returned_partitions: bool = True
    """A partition that a member of the consumer protocol gets back after it gave it up is held. KAFKA-16147."""


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
    consumer_protocol=True,
    maps=HashMaps.JAVA,
    scala_words=False,
    tells_client_reasons=True,
    group_append_errors=MappingProxyType({**_MOVED, **_TOO_LARGE, **_TIMED_OUT_JAVA}),
    offset_append_errors=MappingProxyType({**_MOVED, **_TOO_LARGE, **_TIMED_OUT_JAVA}),
)

JAVA_4_1 = evolve(JAVA, consumer_groups=RULES_4_1, keeps_topic_ids=True)
JAVA_4_2 = evolve(JAVA_4_1, consumer_groups=RULES_4_2)
JAVA_4_3 = evolve(JAVA_4_2, consumer_groups=RULES_4_3, finds_topic_ids=True)

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
    consumer_protocol=False,
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
    {
        "java": JAVA,
        "java-4.1": JAVA_4_1,
        "java-4.2": JAVA_4_2,
        "java-4.3": JAVA_4_3,
        "scala": SCALA,
        "scala-2.8": SCALA_2_8,
        "scala-2.6": SCALA_2_6,
        "scala-2.4": SCALA_2_4,
    }
)
"""The rules of each kind of coordinator (``coordinator.kind``)."""


def rules_of_kind(kind: str) -> GroupRules:
    """The rules of a kind of coordinator."""
    assert kind in GROUP_RULES, f"coordinator.kind {kind!r} is unknown"
    return GROUP_RULES[kind]
