"""Creation of the offsets topic in a new cluster, by the first broker that receives a FindCoordinator.

FindCoordinator is answered COORDINATOR_NOT_AVAILABLE until the topic exists and this broker knows a leader of the
group's partition; the client retries. With fewer live brokers than ``offsets.topic.replication.factor`` the controller
refuses the topic. After a refusal, each FindCoordinator makes the broker request the topic again.

Source: ``KafkaApis.getCoordinator``, ``AutoTopicCreationManager`` 3.4.1. Before 2.8 a broker wrote the topic to the
store itself, under the same condition (``KafkaApis.createInternalTopic`` 2.6.3), with the same effect for groups.
"""

from kemu.actors.broker.control_requests import ControlRequests
from kemu.actors.client import Client
from kemu.actors.machine import US_PER_MS, Machine
from kemu.protocol.config import BrokerConfig, ReplicaConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import CreateTopics, CreateTopicsReply, NewTopic
from kemu.protocol.names import OFFSETS_TOPIC, broker_host, controller_on
from kemu.protocol.notes.replication import OffsetsTopicAsked

_VERSION = 7
CREATE_TIMEOUT_MS = 30_000
"""``request.timeout.ms`` of a broker."""


class OffsetsTopic:
    """The broker's requests to the controller for the offsets topic, one request at a time."""

    def __init__(
        self,
        machine: Machine,
        client: Client,
        control: ControlRequests,
        config: BrokerConfig,
        replication: ReplicaConfig,
    ) -> None:
        self._machine = machine
        self._client = client
        self._control = control
        self._asked = False
        """Whether a request is in flight (``inflightTopics``)."""
        self._request = CreateTopics(
            topics=(
                NewTopic(
                    name=OFFSETS_TOPIC,
                    num_partitions=config.offsets_topic_num_partitions,
                    replication_factor=replication.offsets_topic_replication_factor,
                ),
            ),
            timeout_ms=CREATE_TIMEOUT_MS,
        )

    def create(self) -> None:
        """Request the topic, after a FindCoordinator without such a topic in the metadata cache.

        Without a known controller the broker sends nothing; the client's next FindCoordinator causes another attempt.
        """
        controller = self._control.controller_id
        peer = controller_on(broker_host(controller))
        if self._asked or controller < 0 or self._machine.now_us < self._client.available_at(peer):
            return
        self._asked = True
        self._client.call(
            peer, self._request, _VERSION, self._answered, self._failed, timeout_us=CREATE_TIMEOUT_MS * US_PER_MS
        )

    def _answered(self, reply: CreateTopicsReply, _: None) -> None:
        self._asked = False
        (row,) = reply.topics
        self._machine.note(OffsetsTopicAsked(error=row.error_code, text=row.error_message or ""))

    def _failed(self, why: str, _: None) -> None:
        self._asked = False
        self._machine.note(OffsetsTopicAsked(error=ErrorCode.NETWORK_EXCEPTION, text=why))
