"""A controller's procedures against a bare store: no sessions, no network, no time. For tests of the state machines."""

from collections.abc import Callable
from typing import Any, TypeVar

from kemu.actors.controller.batch import ControlBatch
from kemu.actors.controller.context import Leadership, LiveBroker
from kemu.actors.controller.controller import Controller
from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.actors.controller.rules import RULES, ControllerRules
from kemu.actors.controller.transactions import Work
from kemu.actors.machine import Note
from kemu.actors.store.store import READS
from kemu.actors.store.tree import Tree
from kemu.protocol.config import ControllerConfig
from kemu.protocol.messages.control import LeaderAndIsr, StopReplica, UpdateMetadata
from kemu.protocol.messages.store import OpResult, StoreCode, Transaction, TransactionResult
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import (
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    TOPIC_CONFIGS,
    TOPICS,
    PartitionState,
    ReplicaAssignment,
    epoch_data,
    read_state,
    state_data,
    state_path,
    topic_data,
    topic_path,
)

T = TypeVar("T")
EPOCH = 50
SESSION = 1


class ControllerBench:
    """The active controller is broker 0, of epoch 50; ``brokers`` live (broker epoch 100 + id)."""

    def __init__(
        self,
        *brokers: int,
        config: ControllerConfig | None = None,
        rules: ControllerRules = RULES,
    ) -> None:
        self.tree = Tree()
        for root in (TOPICS, TOPIC_CONFIGS, DELETE_TOPICS):
            self.tree.make(root, b"")
        self.tree.make(CONTROLLER_EPOCH, epoch_data(EPOCH))
        self.controller = Controller("b0/controller", 0, config or ControllerConfig(), rules=rules)
        self.controller.active_id = 0
        self.context = self.controller.context
        self.context.epoch = EPOCH
        self.context.epoch_zk_version = self.tree.nodes[CONTROLLER_EPOCH].version
        self.context.add_brokers({broker: LiveBroker(100 + broker, f"b{broker}", None) for broker in brokers})
        self.sent: list[tuple[int, Any]] = []
        self.controller.batch = ControlBatch(
            0, self.context, rules, lambda broker, request, version: self.sent.append((broker, request))
        )
        self.before_write: Callable[[], None] = lambda: None
        """Called before each group of transactions reaches the store, for changes by another client."""
        self.fail: Callable[[Transaction], StoreCode] = lambda transaction: StoreCode.OK
        """Refuse a transaction with a code of the test's choice."""

    def do(self, work: Work[T]) -> T:
        """Run a procedure to its end."""
        results: Any = None
        while True:
            try:
                transactions = work.send(results)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            self.before_write()
            results = tuple(self._execute(each) for each in transactions)

    def _execute(self, transaction: Transaction) -> TransactionResult:
        code = self.fail(transaction)
        ops = transaction.ops
        if code is not StoreCode.OK:
            fine = [OpResult(code=StoreCode.OK)] * (len(ops) - 1)
            return TransactionResult(code=code, results=(*fine, OpResult(code=code)))
        if len(ops) == 1 and ops[0].kind in READS:
            result = self.tree.read(ops[0])
            return TransactionResult(code=result.code, results=(result,))
        return self.tree.write(SESSION, ops)[0]

    # --- what there is -----------------------------------------------------------------------------------------

    def topic(self, name: str, *rows: tuple[int, ...]) -> None:
        """A topic in the store and in the controller's state, without partition states."""
        assignments = {number: ReplicaAssignment(replicas) for number, replicas in enumerate(rows)}
        self.tree.make(topic_path(name), topic_data(assignments))
        for number, assignment in assignments.items():
            self.context.assign((name, number), assignment)

    def led(
        self, at: TopicPartition, leader: int, isr: tuple[int, ...], *, leader_epoch: int = 5, epoch: int = EPOCH
    ) -> None:
        """A partition with a state, Online; its replicas Online, too."""
        state = PartitionState(leader, leader_epoch, isr, epoch)
        path = state_path(*at)
        self.tree.make(path, state_data(state))
        self.context.leadership[at] = Leadership(state, self.tree.nodes[path].version)
        self.context.set_phase(at, PartitionPhase.ONLINE)
        for broker in self.context.replicas(at):
            self.context.set_replica_phase((*at, broker), ReplicaPhase.ONLINE)

    def write_state(self, at: TopicPartition, state: PartitionState) -> None:
        """Write a state as another client."""
        self.tree.make(state_path(*at), state_data(state))

    def state(self, at: TopicPartition) -> PartitionState:
        """The state in the store."""
        return read_state(self.tree.nodes[state_path(*at)].data)

    # --- what was sent -----------------------------------------------------------------------------------------

    def leader_and_isr(self) -> dict[int, dict[TopicPartition, Any]]:
        """Broker -> partition -> the last row it was sent."""
        return self._rows(LeaderAndIsr)

    def stops(self) -> dict[int, dict[TopicPartition, Any]]:
        """Broker -> partition -> the last row it was sent."""
        return self._rows(StopReplica)

    def metadata(self) -> dict[int, dict[TopicPartition, Any]]:
        """Broker -> partition -> the last row it was sent."""
        return self._rows(UpdateMetadata)

    def _rows(self, kind: type) -> dict[int, dict[TopicPartition, Any]]:
        found: dict[int, dict[TopicPartition, Any]] = {}
        for broker, request in self.sent:
            if isinstance(request, kind):
                for row in request.partition_states:  # type: ignore[attr-defined]
                    found.setdefault(broker, {})[row.topic_name, row.partition_index] = row
        return found

    def notes(self, kind: type) -> list[Any]:
        """The notes of this class, so far."""
        facts = [effect.fact for effect in self.controller._effects if isinstance(effect, Note)]
        return [fact for fact in facts if isinstance(fact, kind)]
