"""Requests of real clients for the machines of brokers, and the machines' answers for real clients."""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from kemu.emulator.serving.payloads import Payloads, limited, with_values
from kemu.protocol.dynamic_configs import WITHOUT_EFFECT
from kemu.protocol.kafka_wire.apis import api_versions
from kemu.protocol.kafka_wire.frames import UnsupportedWireVersion, WireRequest, unsupported_reply, write_reply
from kemu.protocol.messages import consumer_group, control, data, group
from kemu.protocol.messages.negotiation import ApiVersions, ApiVersionsReply
from kemu.protocol.names import ActorName, TopicPartition, controller_on, coordinator_on, host_of
from kemu.protocol.wire.schema import SPECS

BY_BROKER = (
    data.Produce, data.Fetch, data.ListOffsets, data.Metadata, data.InitProducerId, group.FindCoordinator,
    control.OffsetForLeaderEpoch, control.DescribeConfigs, control.DescribeCluster, ApiVersions,
)  # fmt: skip
"""Requests that a broker answers."""
BY_COORDINATOR = (
    group.JoinGroup, group.SyncGroup, group.Heartbeat, group.LeaveGroup, group.OffsetCommit, group.OffsetFetch,
    group.DescribeGroups, group.ListGroups, group.DeleteGroups, group.OffsetDelete,
    consumer_group.ConsumerGroupHeartbeat, consumer_group.ConsumerGroupDescribe,
)  # fmt: skip
"""Requests that the coordinator of a broker's process answers."""
BY_CONTROLLER = (control.CreateTopics, control.DeleteTopics)
"""Requests that the controller part of a broker's process answers. Brokers without replication have no controller."""
OFFERED = frozenset(SPECS[cls].api_key for cls in (*BY_BROKER, *BY_COORDINATOR, *BY_CONTROLLER))
"""Keys of the APIs that a served cluster with replication offers."""
OFFERED_WITHOUT_CONTROLLER = OFFERED - {SPECS[cls].api_key for cls in BY_CONTROLLER}
"""Keys of the APIs that a served cluster without replication offers."""
CLUSTER_ID = "kemu"


class RealRequest:
    """A request of a real client on its way: the frame, or a refused ApiVersions, and the emulated request.

    ``answers``: the answers to the emulated requests of the same frame (OffsetFetch about several groups).
    """

    __slots__ = ("answers", "message", "refused", "to", "version", "wire")

    def __init__(
        self, broker: ActorName, request: WireRequest | UnsupportedWireVersion, message: Any, answers: list[Any]
    ) -> None:
        self.wire = request if isinstance(request, WireRequest) else None
        self.refused = request if isinstance(request, UnsupportedWireVersion) else None
        self.message = message
        self.answers = answers
        self.version = 0 if isinstance(request, UnsupportedWireVersion) else request.codec_version
        if isinstance(self.message, ApiVersions):
            self.version = min(self.version, SPECS[ApiVersions].versions[-1])
        self.to = broker
        if isinstance(self.message, BY_COORDINATOR):
            self.to = coordinator_on(broker)
        elif isinstance(self.message, BY_CONTROLLER):
            self.to = controller_on(broker)

    @property
    def is_answered(self) -> bool:
        """Whether the broker will answer."""
        return not (isinstance(self.message, data.Produce) and self.message.acks == 0)


def requests_of(broker: ActorName, request: WireRequest | UnsupportedWireVersion) -> list[RealRequest]:
    """The emulated requests of one frame to a broker."""
    messages = (ApiVersions(),) if isinstance(request, UnsupportedWireVersion) else request.messages
    answers: list[Any] = []
    return [RealRequest(broker, request, message, answers) for message in messages]


def frame_of(
    asked: RealRequest,
    address: Callable[[str], str],
    payloads: Payloads,
    fetch_bytes: Mapping[TopicPartition, int],
    offered: Container[int],
) -> bytes | None:
    """The frame that answers a request; None if the connection must be closed.

    Args:
        asked: a request of the frame, with all answers.
        address: host of a broker -> HOST:PORT for this client.
        fetch_bytes: partition -> ``max_bytes`` of the partition in the client's last fetch that named it.
        offered: keys of the APIs that the cluster offers.

    Raises:
        WireError: the answer cannot be written in the version of the request.
    """
    answer, *further = asked.answers
    if isinstance(answer, ApiVersionsReply):
        versions = api_versions(answer, offered)
        refused = asked.refused or _refused_by(versions, asked.wire)
        if refused is not None:
            return unsupported_reply(refused, answer, offered)
        answer = versions
    assert asked.wire is not None
    beside: Mapping[str, Any] = {}
    records: Mapping[TopicPartition, bytes] = {}
    match answer:
        case data.MetadataReply():
            brokers = tuple(with_values(each, host=address(each.host)) for each in answer.brokers)
            controller = _controller(answer.controller_id, [each.node_id for each in brokers], offered)
            answer = with_values(answer, brokers=brokers, controller_id=controller)
            beside = {"cluster_id": CLUSTER_ID}
        case control.DescribeClusterReply():
            described = tuple(with_values(each, host=address(each.host)) for each in answer.brokers)
            controller = _controller(answer.controller_id, [each.broker_id for each in described], offered)
            answer = with_values(answer, brokers=described, controller_id=controller, cluster_id=CLUSTER_ID)
        case group.FindCoordinatorReply(host=host) if host:
            answer = with_values(answer, host=address(host_of(host)))
        case data.FetchReply():
            rows = [((row.topic, row.partition), payloads.batches_of(row)) for row in answer.partitions]
            real = [(at, batches) for at, batches in rows if batches is not None]
            records = limited(real, asked.message.max_bytes, fetch_bytes)
        case data.ProduceReply():
            payloads.decided(asked.message)
        case group.OffsetFetchReply():
            beside = {"group": tuple([each.group for each in asked.wire.messages])}
        case _:
            pass
    return write_reply(asked.wire, answer, beside=beside, records=records, further=tuple(further))


def ineffective(request: control.CreateTopics) -> list[str]:
    """A line for each setting of the new topics that kemu does not emulate."""
    return [
        f"{entry.name} of topic {topic.name} has no effect: kemu does not emulate this setting"
        for topic in request.topics
        for entry in topic.configs
        if entry.name in WITHOUT_EFFECT
    ]


def _controller(known: int, live: Sequence[int], offered: Container[int]) -> int:
    """The node id of the controller for a real client; without replication, a live broker.

    A client waits for a controller before it learns that no broker offers the API. Source:
    ``KRaftMetadataCache.getRandomAliveBrokerId`` (3.4) is a broker in place of the controller, too.
    """
    has_controller = SPECS[control.CreateTopics].api_key in offered
    return known if has_controller or not live else live[0]


def _refused_by(versions: ApiVersionsReply, request: WireRequest | None) -> UnsupportedWireVersion | None:
    """The refusal of an ApiVersions request by a broker whose release lacks the version."""
    assert request is not None
    highest = [row.max_version for row in versions.api_keys if row.api_key == request.api_key]
    if not highest or request.version <= highest[0]:
        return None
    text = f"ApiVersions v{request.version} is not spoken by this broker"
    return UnsupportedWireVersion(text, request.api_key, request.version, request.correlation_id, request.client_id)
