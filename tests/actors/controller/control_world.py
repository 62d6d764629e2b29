"""A small control plane for tests: the store, a controller part per broker, and brokers that obey as Kafka's do.

The brokers (``ObedientBroker``) have no logs: they check the fences, store the leaders of their partitions, and can be
told to fail. Time, links and crashes are those of ``DataWorld``.
"""

from collections.abc import Callable
from typing import Any

from kemu.actors.controller.controller import Controller
from kemu.actors.controller.rules import RULES, ControllerRules
from kemu.actors.machine import Event, LinkDown, Machine, Received, TimerFired, Told
from kemu.actors.store.store import Store
from kemu.protocol.commands import SeedNodes, Start
from kemu.protocol.config import ControllerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrReply,
    PartitionOutcome,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataPartition,
    UpdateMetadataReply,
)
from kemu.protocol.messages.local import BrokerConfigs, BrokerConfigsReply, BrokerSession, BrokerSessionReply
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import (
    PartitionState,
    ReplicaAssignment,
    config_data,
    read_state,
    state_path,
    topic_config_path,
    topic_data,
)
from tests.actors.broker.data_world import DataWorld

CONFIG = ControllerConfig(zookeeper_session_timeout_ms=6_000)
STORE = "zk"


class ObedientBroker(Machine):
    """Executes controllers' requests, within Kafka's fences. ``disobey`` may answer a partition with an error
    instead.
    """

    def __init__(self, name: str, broker_id: int) -> None:
        super().__init__(name)
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.controller_epoch = 0
        self.hosted: dict[TopicPartition, LeaderAndIsrPartition] = {}
        """Its partitions, as leader or follower."""
        self.stopped: dict[TopicPartition, bool] = {}
        """Replicas stopped since they last served; True: deleted."""
        self.metadata: dict[TopicPartition, UpdateMetadataPartition] = {}
        self.live: tuple[int, ...] = ()
        self.was_out = False
        """Whether its session has expired since its start."""
        self.heard: list[Any] = []
        """Every control request, in order, including refused ones."""
        self.refused: list[ErrorCode] = []
        self.disobey: Callable[[TopicPartition, Any], ErrorCode] = lambda at, request: ErrorCode.NONE
        self.answers: list[Any] = []
        self.configs: list[BrokerConfigs] = []

    def handle(self, event: Event) -> None:
        """Handle control requests, and messages of its own controller part."""
        match event:
            case Received(message=LeaderAndIsr() | StopReplica() | UpdateMetadata() as request):
                self.heard.append(request)
                error = self._fence(request)
                if error is not ErrorCode.NONE:
                    self.refused.append(error)
                    self.reply(event, _refuse(request, error))
                else:
                    self.controller_epoch = request.controller_epoch
                    self.reply(event, self._obey(request))
            case Received(message=BrokerSession() as told):
                if told.session_id:
                    self.broker_epoch = told.broker_epoch
                else:
                    self.was_out = True
                self.reply(event, BrokerSessionReply())
            case Received(message=BrokerConfigs() as settings):
                self.configs.append(settings)
                self.reply(event, BrokerConfigsReply())
            case Received(message=answer):
                self.answers.append(answer)
            case Told(command=Start()) | LinkDown() | TimerFired():
                pass
            case Told(command=(to, message, version)):
                self.request(to, message, version)
            case _:
                raise AssertionError(event)

    def _fence(self, request: Any) -> ErrorCode:
        if request.broker_epoch != UNKNOWN_BROKER_EPOCH and request.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _obey(self, request: Any) -> Any:
        if isinstance(request, UpdateMetadata):
            self.live = tuple(broker.id for broker in request.live_brokers)
            for row in request.partition_states:
                at = (row.topic_name, row.partition_index)
                if row.leader == -2:
                    self.metadata.pop(at, None)
                else:
                    self.metadata[at] = row
            return UpdateMetadataReply(error_code=ErrorCode.NONE)
        act = self._lead_or_follow if isinstance(request, LeaderAndIsr) else self._stop
        rows = []
        for row in request.partition_states:
            at = (row.topic_name, row.partition_index)
            error = self.disobey(at, request)
            if error is ErrorCode.NONE:
                error = act(at, row, request)
            rows.append(PartitionOutcome(topic_name=at[0], partition_index=at[1], error_code=error))
        reply = LeaderAndIsrReply if isinstance(request, LeaderAndIsr) else StopReplicaReply
        return reply(error_code=ErrorCode.NONE, partition_errors=tuple(rows))

    def _lead_or_follow(self, at: TopicPartition, row: LeaderAndIsrPartition, _: Any) -> ErrorCode:
        mine = self.hosted.get(at)
        if mine is not None and row.leader_epoch <= mine.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self.broker_id not in row.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if row.leader not in (self.broker_id, -1) and row.leader not in self.live:
            return ErrorCode.NONE  # It keeps its role: it does not know that leader (KAFKA-1647).
        self.hosted[at] = row
        self.stopped.pop(at, None)
        return ErrorCode.NONE

    def _stop(self, at: TopicPartition, row: Any, request: StopReplica) -> ErrorCode:
        mine = self.hosted.get(at)
        fenced = row.leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE)
        if mine is not None and fenced and row.leader_epoch < mine.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self.hosted.pop(at, None)
        self.stopped[at] = row.delete_partition or request.delete_partitions
        return ErrorCode.NONE


def _refuse(request: Any, error: ErrorCode) -> Any:
    match request:
        case LeaderAndIsr():
            return LeaderAndIsrReply(error_code=error, partition_errors=())
        case StopReplica():
            return StopReplicaReply(error_code=error, partition_errors=())
        case _:
            return UpdateMetadataReply(error_code=error)


class ControlWorld(DataWorld):
    """Brokers, b0 first (so it wins the first election); then topics, {name: replicas per partition}, are created."""

    def __init__(
        self,
        brokers: int = 3,
        topics: dict[str, tuple[tuple[int, ...], ...]] | None = None,
        *,
        config: ControllerConfig = CONFIG,
        rules: ControllerRules = RULES,
        settings: dict[str, dict[str, str]] | None = None,
        racks: dict[int, str] | None = None,
    ) -> None:
        super().__init__()
        self.ids = tuple(range(brokers))
        self.config = config
        self.rules = rules
        self.racks = racks or {}
        nodes = tuple((topic_config_path(name), config_data(each.items())) for name, each in (settings or {}).items())
        self.add(STORE, lambda life: Store(STORE), SeedNodes(nodes=nodes))
        for broker in self.ids:
            self.add_broker(broker)
            self.run(50)
        for name, rows in (topics or {}).items():
            self.put_topic(name, *rows)
        self.run(200)

    def add_broker(self, broker: int) -> None:
        """The first start of a broker process."""
        self.add(f"b{broker}", lambda life: ObedientBroker(f"b{broker}", broker))
        self.add(
            f"b{broker}/controller",
            lambda life: Controller(
                f"b{broker}/controller", broker, self.config, rack=self.racks.get(broker), rules=self.rules
            ),
        )

    # --- processes ---------------------------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """End both actors of a broker process; its session lasts until it expires."""
        self.crash(f"b{broker}/controller")
        self.crash(f"b{broker}")

    def revive(self, broker: int) -> None:
        """Restart a broker process."""
        self.start(f"b{broker}")
        self.start(f"b{broker}/controller")

    def is_up(self, broker: int) -> bool:
        """Whether its process runs."""
        return f"b{broker}" in self.machines

    def broker(self, broker: int) -> ObedientBroker:
        """A broker."""
        machine = self.machines[f"b{broker}"]
        assert isinstance(machine, ObedientBroker)
        return machine

    def part(self, broker: int) -> Controller:
        """A broker's controller part."""
        machine = self.machines[f"b{broker}/controller"]
        assert isinstance(machine, Controller)
        return machine

    @property
    def zk(self) -> Store:
        """The store."""
        machine = self.machines[STORE]
        assert isinstance(machine, Store)
        return machine

    @property
    def active(self) -> Controller:
        """The one controller that believes it is active."""
        (found,) = [self.part(each) for each in self.ids if self.is_up(each) and self.part(each).is_active]
        return found

    # --- what stands in the store ------------------------------------------------------------------------------

    def node(self, path: str) -> bytes | None:
        """A node's data."""
        found = self.zk.tree.nodes.get(path)
        return found.data if found is not None else None

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """A partition's state."""
        data = self.node(state_path(topic, partition))
        assert data is not None, f"{topic}-{partition} has no state"
        return read_state(data)

    def put(self, path: str, data: bytes = b"") -> None:
        """Write a node, as a tool with its own session would."""
        self.tell(STORE, SeedNodes(nodes=((path, data),)))

    def put_topic(self, name: str, *rows: tuple[int, ...]) -> None:
        """Write a topic's node."""
        self.put(f"/brokers/topics/{name}", topic_data(_assignments(rows), f"{name}-0"))

    # --- requests ----------------------------------------------------------------------------------------------

    def ask(self, request: object, version: int, *, sender: int = 0, to: int | None = None) -> Any:
        """Send a request from a broker to a controller part (the active one), and wait for the answer."""
        target = self.active.name if to is None else f"b{to}/controller"
        self.tell(f"b{sender}", (target, request, version))
        before = len(self.broker(sender).answers)
        for _ in range(100):
            self.run(50)
            if len(self.broker(sender).answers) > before:
                return self.broker(sender).answers[-1]
        raise AssertionError(f"no answer to {request}")


def _assignments(rows: tuple[tuple[int, ...], ...]) -> dict[int, ReplicaAssignment]:
    return {number: ReplicaAssignment(replicas) for number, replicas in enumerate(rows)}
