"""The controller's access to the store: procedures that wait for the store, and the fence of its writes.

Kafka's controller is one thread that blocks on ZooKeeper in the middle of its procedures. Here a procedure is a
generator that yields transactions and receives their results. The machine keeps the running procedure, and runs no
other task meanwhile, like Kafka's blocked thread. At every ``yield`` the state of the cluster may change.

A procedure ends early when the fence refuses a write (``ControllerMoved``: another controller was elected). A procedure
also ends early when an answer of the store prevents its continuation (``StoreRefused``). When the session expires, the
machine closes the waiting procedure.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from kemu.actors.controller.context import ControllerContext, Leadership
from kemu.actors.controller.rules import ControllerRules
from kemu.protocol.messages.store import (
    ANY_VERSION,
    CreateMode,
    OpResult,
    StoreCode,
    StoreOp,
    StoreOpKind,
    Transaction,
    TransactionResult,
)
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import read_state, state_data, state_path

T = TypeVar("T")


class ThreadBusy(NamedTuple):
    """Time in which the controller's thread is busy without the store."""

    us: int


Work: TypeAlias = Generator[Sequence[Transaction] | ThreadBusy, tuple[TransactionResult, ...], T]
"""A procedure that waits for the store, or for its own work."""


class ControllerMoved(Exception):
    """The error after the store refused a write because another controller was elected."""


class StoreRefused(Exception):
    """The error after an answer of the store, or without a state, that prevents the procedure from continuing."""


# --- operations ----------------------------------------------------------------------------------------------------


def get(path: str, *, watch: bool = False) -> StoreOp:
    """An operation that reads a node."""
    return StoreOp(kind=StoreOpKind.GET_DATA, path=path, watch=watch)


def exists(path: str, *, watch: bool = False) -> StoreOp:
    """An operation that checks whether a node exists; the watch also fires on its creation."""
    return StoreOp(kind=StoreOpKind.EXISTS, path=path, watch=watch)


def children(path: str, *, watch: bool = False) -> StoreOp:
    """An operation that reads the names below a node."""
    return StoreOp(kind=StoreOpKind.GET_CHILDREN, path=path, watch=watch)


def create(path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> StoreOp:
    """An operation that creates a node."""
    return StoreOp(kind=StoreOpKind.CREATE, path=path, data=data, mode=mode)


def set_data(path: str, data: bytes, version: int = ANY_VERSION) -> StoreOp:
    """An operation that writes a node if the node has this version."""
    return StoreOp(kind=StoreOpKind.SET_DATA, path=path, data=data, version=version)


def delete(path: str, version: int = ANY_VERSION) -> StoreOp:
    """An operation that removes a node without children."""
    return StoreOp(kind=StoreOpKind.DELETE, path=path, version=version)


def alone(ops: Iterable[StoreOp]) -> list[Transaction]:
    """One transaction per operation."""
    return [Transaction(ops=(op,)) for op in ops]


def ask(ops: Sequence[StoreOp]) -> Work[list[OpResult]]:
    """Execute each operation in a separate transaction without a fence; returns a result per operation."""
    if not ops:
        return []
    answers = yield alone(ops)
    return [answer.results[0] for answer in answers]


def ask_one(op: StoreOp) -> Work[OpResult]:
    """Execute one operation."""
    results = yield from ask((op,))
    return results[0]


def expect(result: OpResult, *codes: StoreCode) -> OpResult:
    """Return the result if it is OK or one of these codes; raises StoreRefused otherwise."""
    if result.code is not StoreCode.OK and result.code not in codes:
        raise StoreRefused(f"the store answered {result.code.name}")
    return result


# --- the controller's reads and writes -----------------------------------------------------------------------------


class ControllerStore:
    """The controller's access to the store: writes with the fence of its epoch, and reads of partition states."""

    def __init__(self, context: ControllerContext, rules: ControllerRules) -> None:
        self._context = context
        self._rules = rules

    def write(self, ops: Sequence[StoreOp]) -> Work[list[OpResult]]:
        """Execute each write in a separate transaction with the fence; returns a result per write.

        Raises:
            ControllerMoved: the fence refused a write.
        """
        if not ops:
            return []
        version = self._context.epoch_zk_version
        fenced = [Transaction(ops=self._rules.fence((op,), version)) for op in ops]
        answers = yield fenced
        for answer in answers:
            if len(answer.results) == 2 and answer.results[0].code is StoreCode.BAD_VERSION:
                raise ControllerMoved
        return [answer.results[-1] for answer in answers]

    def read_states(self, partitions: Sequence[TopicPartition]) -> Work[dict[TopicPartition, Leadership]]:
        """The state nodes of these partitions; partitions without a state node are omitted."""
        results = yield from ask([get(state_path(*at)) for at in partitions])
        found = {}
        for at, result in zip(partitions, results, strict=True):
            expect(result, StoreCode.NO_NODE)
            if result.code is StoreCode.OK:
                found[at] = Leadership(read_state(result.data), result.version)
        return found

    def update_states(
        self, updates: dict[TopicPartition, Leadership]
    ) -> Work[tuple[dict[TopicPartition, Leadership], list[TopicPartition], dict[TopicPartition, StoreCode]]]:
        """Write each state whose version is unchanged; returns (written, version conflicts, failed)."""
        ops = [set_data(state_path(*at), state_data(update.state), update.zk_version) for at, update in updates.items()]
        results = yield from self.write(ops)
        written: dict[TopicPartition, Leadership] = {}
        conflicts: list[TopicPartition] = []
        failed: dict[TopicPartition, StoreCode] = {}
        for (at, update), result in zip(updates.items(), results, strict=True):
            if result.code is StoreCode.OK:
                written[at] = Leadership(update.state, result.version)
            elif result.code is StoreCode.BAD_VERSION:
                conflicts.append(at)
            else:
                failed[at] = result.code
        return written, conflicts, failed
