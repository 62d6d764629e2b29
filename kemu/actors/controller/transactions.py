"""The controller's access to the store: procedures that wait for it, and the fence of its writes.

Kafka's controller is one thread that blocks on ZooKeeper in the middle of its procedures. Here a procedure is a
generator that yields transactions and receives their results. The machine keeps the running one and handles no other
event meanwhile, as that thread would. At every ``yield`` the state of the cluster may change.

A procedure ends early when the fence refuses a write (``ControllerMoved``: another controller was elected) or when an
answer of the store makes it impossible to continue (``StoreRefused``). When the session expires, the procedure is
closed where it waits.
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
    """The controller's thread does something that takes this long, without the store."""

    us: int


Work: TypeAlias = Generator[Sequence[Transaction] | ThreadBusy, tuple[TransactionResult, ...], T]
"""A procedure that waits for the store, or for its own work."""


class ControllerMoved(Exception):
    """The store refused a write because another controller was elected."""


class StoreRefused(Exception):
    """The store's answer makes it impossible to continue."""


# --- operations ----------------------------------------------------------------------------------------------------


def get(path: str, *, watch: bool = False) -> StoreOp:
    """Read a node."""
    return StoreOp(kind=StoreOpKind.GET_DATA, path=path, watch=watch)


def exists(path: str, *, watch: bool = False) -> StoreOp:
    """Check whether a node exists; the watch also fires on its creation."""
    return StoreOp(kind=StoreOpKind.EXISTS, path=path, watch=watch)


def children(path: str, *, watch: bool = False) -> StoreOp:
    """Read the names below a node."""
    return StoreOp(kind=StoreOpKind.GET_CHILDREN, path=path, watch=watch)


def create(path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> StoreOp:
    """Create a node."""
    return StoreOp(kind=StoreOpKind.CREATE, path=path, data=data, mode=mode)


def set_data(path: str, data: bytes, version: int = ANY_VERSION) -> StoreOp:
    """Write a node if it has this version."""
    return StoreOp(kind=StoreOpKind.SET_DATA, path=path, data=data, version=version)


def delete(path: str, version: int = ANY_VERSION) -> StoreOp:
    """Remove a node without children."""
    return StoreOp(kind=StoreOpKind.DELETE, path=path, version=version)


def alone(ops: Iterable[StoreOp]) -> list[Transaction]:
    """Each operation in a transaction of its own."""
    return [Transaction(ops=(op,)) for op in ops]


def ask(ops: Sequence[StoreOp]) -> Work[list[OpResult]]:
    """Execute operations, each in a transaction of its own without a fence; returns a result per operation."""
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
    """Writes fenced by the controller's epoch; reads of partition states."""

    def __init__(self, context: ControllerContext, rules: ControllerRules) -> None:
        self._context = context
        self._rules = rules

    def write(self, ops: Sequence[StoreOp]) -> Work[list[OpResult]]:
        """Execute writes, each in a transaction of its own with the fence; returns a result per write.

        Raises:
            ControllerMoved: the fence refused one of them.
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
        """The state nodes of these partitions; those without one are omitted."""
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
        """Write states whose version is unchanged; returns (written, version conflicts, failed)."""
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
