"""The APIs of Kafka's protocol that real clients can use, each with the declaration of its request and its reply.

The grammar of the declarations is in ``declare.py``. Fields are in the order of Kafka's schemas (3.9). Fields that
kemu's messages lack have Kafka's names.

A spoken version has a meaning in kemu. Fetch below 13 names topics, later versions use topic ids. OffsetCommit and
OffsetFetch have topic ids since 10. FindCoordinator below 4 is about one group. CreateTopics below 5 has a reply
without settings, and DeleteTopics below 6 names topics. The lowest spoken versions are those of Kafka 4 where clients
have newer ones.
"""

from collections.abc import Container, Mapping

from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.kafka_wire.declare import WireMessage, declared
from kemu.protocol.messages import consumer_group, control, data, group
from kemu.protocol.messages.negotiation import ApiVersionRange, ApiVersions, ApiVersionsReply
from kemu.protocol.wire.schema import SPECS


@frozen
class Api:
    """One API: its lowest and highest spoken version, and its messages."""

    key: int
    name: str
    lowest: int
    highest: int
    flexible_since: int
    """The first version with compact lengths and tagged fields, also in the headers (KIP-482)."""
    request: WireMessage
    reply: WireMessage


_NEVER = 1 << 15
_THROTTLE = "~throttle_time_ms:int32"


def _api(request: type, reply: type, spoken: tuple[int, int], *, flexible: int, asks: str, answers: str) -> Api:
    spec = SPECS[request]
    return Api(
        key=spec.api_key,
        name=spec.name,
        lowest=spoken[0],
        highest=spoken[1],
        flexible_since=flexible,
        request=declared(request, f"{spec.name} request", flexible, asks),
        reply=declared(reply, f"{spec.name} reply", flexible, answers),
    )


_ALL = (
    _api(
        data.Produce, data.ProduceReply, (3, 9), flexible=9,
        asks="~transactional_id:string? acks:int16 timeout_ms:int32 batches(topic)[partition:int32 records:batch]",
        answers=f"""batches(topic)[partition:int32 error base_offset:int64 append_time_ms:int64
            ~log_start_offset:int64@5=-1 ~record_errors@8[~batch_index:int32 ~batch_index_error_message:string?]
            ~error_message:string?@8] {_THROTTLE}""",
    ),
    _api(
        data.Fetch, data.FetchReply, (4, 12), flexible=12,
        asks="""replica_id:int32 max_wait_ms:int32 min_bytes:int32 max_bytes:int32 ~isolation_level:int8
            session_id:int32 session_epoch:int32
            partitions(topic)[partition:int32 current_leader_epoch:int32 fetch_offset:int64 last_fetched_epoch:int32
                log_start_offset:int64 max_bytes:int32]
            forgotten:topic_partitions ~rack_id:string@11""",
        answers=f"""{_THROTTLE} error session_id:int32
            partitions(topic)[partition:int32 error high_watermark:int64 ~last_stable_offset:int64=high_watermark
                log_start_offset:int64 ~aborted_transactions[~producer_id:int64 ~first_offset:int64]
                ~preferred_read_replica:int32@11=-1 batches:records diverging#0[epoch:int32 end_offset:int64]]""",
    ),
    _api(
        data.ListOffsets, data.ListOffsetsReply, (1, 7), flexible=6,
        asks="""replica_id:int32 ~isolation_level:int8@2
            questions(topic)[partition:int32 current_leader_epoch:int32 timestamp_ms:int64]""",
        answers=f"""{_THROTTLE}@2
            answers(topic)[partition:int32 error timestamp_ms:int64 offset:int64 leader_epoch:int32]""",
    ),
    _api(
        data.Metadata, data.MetadataReply, (0, 12), flexible=9,
        asks="""topics:names?1@0-9 topics:names_or_ids?10@10 allow_auto_topic_creation
            ~include_cluster_authorized_operations:bool@8-10 ~include_topic_authorized_operations:bool@8""",
        answers=f"""{_THROTTLE}@3 brokers[node_id:int32 host:address rack] ~cluster_id:string?@2 controller_id:int32
            topics[error topic:optional?12 topic_id:uuid ~is_internal:internal@1
                partitions[error partition:int32 leader:int32 leader_epoch:int32 replicas:int32 isr:int32
                    ~offline_replicas@5[~broker:int32]]
                ~topic_authorized_operations:int32@8=-2147483648]
            ~cluster_authorized_operations:int32@8-10=-2147483648""",
    ),
    _api(
        group.OffsetCommit, group.OffsetCommitReply, (2, 10), flexible=8,
        asks="""group generation:int32 member_id instance_id retention_time_ms:int64
            offsets(topic)[partition:int32 offset:int64 leader_epoch:int32 metadata]""",
        answers=f"{_THROTTLE}@3 outcomes(topic)[partition:int32 error]",
    ),
    _api(
        group.OffsetFetch, group.OffsetFetchReply, (1, 10), flexible=6,
        asks="""group@0-7 topics?2@0-7[topic partitions:int32]
            each@8[group member_id member_epoch:int32 topics?[topic topic_id:uuid partitions:int32]] require_stable""",
        answers=f"""{_THROTTLE}@3
            offsets(topic)@0-7[partition:int32 offset:int64 leader_epoch:int32 metadata error] error@0-7
            each@8[~group:string offsets(topic)[partition:int32 offset:int64 leader_epoch:int32 metadata error]
                error]""",
    ),
    _api(
        group.FindCoordinator, group.FindCoordinatorReply, (0, 3), flexible=3,
        asks="key key_type:int8",
        answers=f"{_THROTTLE}@1 error error_message node_id:int32 host:address",
    ),
    _api(
        group.JoinGroup, group.JoinGroupReply, (0, 9), flexible=6,
        asks="""group session_timeout_ms:int32 rebalance_timeout_ms:int32 member_id instance_id protocol_type
            protocols[name metadata] reason""",
        answers=f"""{_THROTTLE}@2 error generation:int32 protocol_type protocol_name?7 leader skip_assignment member_id
            members[member_id instance_id metadata]""",
    ),
    _api(
        group.Heartbeat, group.HeartbeatReply, (0, 4), flexible=4,
        asks="group generation:int32 member_id instance_id",
        answers=f"{_THROTTLE}@1 error",
    ),
    _api(
        group.LeaveGroup, group.LeaveGroupReply, (0, 5), flexible=4,
        asks="group member_id members[member_id instance_id reason]",
        answers=f"{_THROTTLE}@1 error members[member_id instance_id error]",
    ),
    _api(
        group.SyncGroup, group.SyncGroupReply, (0, 5), flexible=4,
        asks="""group generation:int32 member_id instance_id protocol_type protocol_name
            assignments[member_id assignment]""",
        answers=f"{_THROTTLE}@1 error protocol_type protocol_name assignment",
    ),
    _api(
        group.DescribeGroups, group.DescribeGroupsReply, (0, 6), flexible=5,
        asks="groups include_authorized_operations",
        answers=f"""{_THROTTLE}@1 groups[error error_message group state protocol_type protocol
            members[member_id instance_id client_id client_host metadata assignment]
            ~authorized_operations:int32@3=-2147483648]""",
    ),
    _api(
        group.ListGroups, group.ListGroupsReply, (0, 5), flexible=3,
        asks="states_filter types_filter",
        answers=f"{_THROTTLE}@1 error groups[group protocol_type state group_type]",
    ),
    _api(
        ApiVersions, ApiVersionsReply, (0, 3), flexible=3,
        asks="~client_software_name:string@3 ~client_software_version:string@3",
        answers=f"error api_keys[api_key:int16 min_version:int16 max_version:int16] {_THROTTLE}@1",
    ),
    _api(
        control.CreateTopics, control.CreateTopicsReply, (2, 4), flexible=5,
        asks="""topics[name num_partitions:int32 replication_factor:int16 assignments:replicas configs[name value]]
            timeout_ms:int32 validate_only:bool""",
        answers=f"{_THROTTLE} topics[name error_code error_message]",
    ),
    _api(
        control.DeleteTopics, control.DeleteTopicsReply, (1, 5), flexible=4,
        asks="topic_names timeout_ms:int32",
        answers=f"{_THROTTLE} topics[name error_code error_message@5]",
    ),
    _api(
        data.InitProducerId, data.InitProducerIdReply, (0, 4), flexible=2,
        asks="transactional_id transaction_timeout_ms:int32 producer_id:int64 producer_epoch:int16",
        answers=f"{_THROTTLE} error producer_id:int64 producer_epoch:int16",
    ),
    _api(
        control.OffsetForLeaderEpoch, control.OffsetForLeaderEpochReply, (2, 4), flexible=4,
        asks="replica_id:int32 questions(topic)[partition:int32 current_leader_epoch:int32 leader_epoch:int32]",
        answers=f"{_THROTTLE} answers(topic)[error_code partition:int32 leader_epoch:int32 end_offset:int64]",
    ),
    _api(
        control.DescribeConfigs, control.DescribeConfigsReply, (1, 4), flexible=4,
        asks="""resources[resource_type:int8 resource_name names] include_synonyms include_documentation""",
        answers=f"""{_THROTTLE} results[error_code error_message resource_type:int8 resource_name
            configs[name value read_only source:int8 is_sensitive
                ~synonyms[~name:string ~value:string? ~source:int8] ~config_type:int8@3 ~documentation:string?@3]]""",
    ),
    _api(
        group.DeleteGroups, group.DeleteGroupsReply, (0, 2), flexible=2,
        asks="groups",
        answers=f"{_THROTTLE} outcomes[group error]",
    ),
    _api(
        group.OffsetDelete, group.OffsetDeleteReply, (0, 0), flexible=_NEVER,
        asks="group topics[topic partitions:int32]",
        answers=f"error {_THROTTLE} outcomes(topic)[partition:int32 error]",
    ),
    _api(
        control.DescribeCluster, control.DescribeClusterReply, (0, 0), flexible=0,
        asks="~include_cluster_authorized_operations:bool",
        answers=f"""{_THROTTLE} error_code error_message cluster_id controller_id:int32
            brokers[broker_id:int32 host:address rack] ~cluster_authorized_operations:int32=-2147483648""",
    ),
    _api(
        consumer_group.ConsumerGroupHeartbeat, consumer_group.ConsumerGroupHeartbeatReply, (0, 1), flexible=0,
        asks="""group member_id member_epoch:int32 instance_id rack rebalance_timeout_ms:int32 topics regex assignor
            owned[topic_id:uuid partitions:int32]""",
        answers=f"""{_THROTTLE} error error_message member_id member_epoch:int32 heartbeat_interval_ms:int32
            assignment:boxed[topic_id:uuid partitions:int32]""",
    ),
    _api(
        consumer_group.ConsumerGroupDescribe, consumer_group.ConsumerGroupDescribeReply, (0, 1), flexible=0,
        asks="groups include_authorized_operations",
        answers=f"""{_THROTTLE} groups[error error_message group state epoch:int32 target_epoch:int32 assignor
            members[member_id instance_id rack member_epoch:int32 client_id client_host topics regex
                assigned:boxed[topic_id:uuid topic partitions:int32] target:boxed[topic_id:uuid topic partitions:int32]
                member_type:int8]
            ~authorized_operations:int32=-2147483648]""",
    ),
)  # fmt: skip

APIS: Mapping[int, Api] = {api.key: api for api in sorted(_ALL, key=lambda api: api.key)}
"""API key -> the API."""

SPOKEN: Mapping[int, tuple[int, int]] = {key: (api.lowest, api.highest) for key, api in APIS.items()}
"""API key -> the lowest and the highest spoken version."""

_BEFORE: tuple[tuple[int, int, Mapping[int, int]], ...] = (
    (11, 6, {15: 3, 16: 2, 18: 2, 19: 3, 20: 3, 22: 1, 32: 2, 42: 1, 47: -1, 60: -1}),  # before 2.4
    (11, 7, {16: 3, 20: 4, 22: 2, 32: 2, 60: -1}),  # before 2.5
    (0, 9, {20: 4, 22: 3, 32: 3, 60: -1}),  # before 2.8
    (2, 7, {9: 7}),  # before 3.0
    (8, 9, {9: 8}),  # before 3.7
    (0, 11, {16: 4}),  # before 3.8
    (68, 0, {15: 5, 68: -1, 69: -1}),  # before 4.0
)
"""(API key, version, highest versions): the highest versions of releases whose brokers lack this version of this API.

-1: the release lacks the API. kemu's answer omits these APIs, because all its machines speak their newest versions.
"""
_CONSUMER_PROTOCOL = 68
"""The API that only the answer of a release with the consumer protocol has (ConsumerGroupHeartbeat)."""
_OFFSET_FETCH, _LAST_OF_ONE_GROUP = 9, 7
"""kemu's clients before 4.0 send no later version of OffsetFetch, so a broker's answer with this version has a limit
only before the first version with topic ids.
"""


def api_versions(answer: ApiVersionsReply, offered: Container[int] = SPOKEN) -> ApiVersionsReply:
    """A broker's answer to ApiVersions for a real client: the versions that the broker supports and that are spoken.

    ``offered``: the API keys that the brokers can answer.

    The emulated broker's answer has only the APIs whose versions differ between releases in kemu. The versions of the
    other APIs follow from the release, which the answer shows. An answer with an error has no versions.
    """
    if answer.error is not ErrorCode.NONE:
        return answer
    known = {row.api_key: row for row in answer.api_keys}
    highest_known = {_CONSUMER_PROTOCOL: -1, **{key: row.max_version for key, row in known.items()}}
    older = [most for key, version, most in _BEFORE if highest_known.get(key, version) < version]
    rows = []
    for key, (lowest, highest) in SPOKEN.items():
        row = known.get(key)
        if row is not None:
            most = row.max_version
            if (key, most) == (_OFFSET_FETCH, _LAST_OF_ONE_GROUP):
                most = group.OFFSET_TOPIC_IDS_SINCE - 1
            lowest, highest = max(lowest, row.min_version), min(highest, most)
        highest = min([highest, *(limits[key] for limits in older if key in limits)])
        if lowest <= highest and key in offered:
            rows.append(ApiVersionRange(api_key=key, min_version=lowest, max_version=highest))
    return ApiVersionsReply(error=answer.error, api_keys=tuple(rows))
