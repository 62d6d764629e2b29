"""The store against a plain model, under any order of operations, sessions, lost connections and faults.

The model is a dictionary and a list of rules, without undo logs or tables: it executes a transaction on a copy.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kemu.actors.controller.transactions import children, create, delete, exists, get, set_data
from kemu.actors.store.session import SessionState
from kemu.protocol.commands import DelayWatches, ExpireSession, FreezeSession, LoseStoreAnswer
from kemu.protocol.messages.store import CreateMode, StoreCode, StoreOp, StoreOpKind
from kemu.protocol.notes.replication import NodeWritten
from tests.actors.store.test_store import Stores
from tests.examples import examples

PATHS = ("/a", "/b", "/a/x", "/a/y", "/b/x")
paths = st.sampled_from(PATHS)
clients = st.sampled_from(("c1", "c2"))
versions = st.sampled_from([-1, -1, 0, 1, 2])


class ModelNode:
    """Data, version, owner's session (0: none), and how many children were created."""

    def __init__(self, data: bytes, owner: int) -> None:
        self.data, self.version, self.owner, self.created = data, 0, owner, 0

    def copy(self) -> "ModelNode":
        """A copy of the node."""
        twin = ModelNode(self.data, self.owner)
        twin.version, twin.created = self.version, self.created
        return twin


Model = dict[str, ModelNode]


def _above(path: str) -> str:
    return path.rsplit("/", 1)[0] or "/"


def _apply(model: Model, op: StoreOp, session: int) -> StoreCode:
    node = model.get(op.path)
    if op.kind is StoreOpKind.CREATE:
        parent = model.get(_above(op.path))
        if parent is None:
            return StoreCode.NO_NODE
        if parent.owner:
            return StoreCode.NO_CHILDREN_FOR_EPHEMERALS
        path = op.path
        if op.mode is CreateMode.PERSISTENT_SEQUENTIAL:
            path += f"{parent.created:010d}"
        if path in model:
            return StoreCode.NODE_EXISTS
        model[path] = ModelNode(op.data, session if op.mode is CreateMode.EPHEMERAL else 0)
        parent.created += 1
        return StoreCode.OK
    if node is None:
        return StoreCode.NO_NODE
    if op.version not in (-1, node.version):
        return StoreCode.BAD_VERSION
    if op.kind is StoreOpKind.SET_DATA:
        node.data, node.version = op.data, node.version + 1
    elif op.kind is StoreOpKind.DELETE:
        if any(_above(path) == op.path for path in model if path != "/"):
            return StoreCode.NOT_EMPTY
        del model[op.path]
    return StoreCode.OK


@st.composite
def writes(draw: st.DrawFn) -> StoreOp:
    """Any write."""
    path, data, version = draw(paths), draw(st.binary(max_size=2)), draw(versions)
    kind = draw(st.sampled_from(["create", "ephemeral", "sequential", "set", "delete", "check"]))
    match kind:
        case "create":
            return create(path, data)
        case "ephemeral":
            return create(path, data, CreateMode.EPHEMERAL)
        case "sequential":
            return create(path, data, CreateMode.PERSISTENT_SEQUENTIAL)
        case "set":
            return set_data(path, data, version)
        case "delete":
            return delete(path, version)
        case _:
            return StoreOp(kind=StoreOpKind.CHECK, path=path, version=version)


class AnyOrder(RuleBasedStateMachine):
    """Two clients and the faults of the store."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Stores()
        self.model: Model = {}
        self.noted = 0

    @initialize()
    def begin(self) -> None:
        """The store with /a."""
        self.model = {"/": ModelNode(b"", 0), "/a": ModelNode(b"0", 0)}
        self.model["/"].created = 1
        self.noted = len(self.world.facts(NodeWritten))

    def _is_calm(self, name: str) -> bool:
        return self.world.client(name).session.state is SessionState.CONNECTED

    @rule(name=clients, ops=st.lists(writes(), min_size=1, max_size=4))
    def writes_together(self, name: str, ops: list[StoreOp]) -> None:
        """A transaction of a client with a healthy session: its result is the model's."""
        self._settle()
        client = self.world.client(name)
        draft = {path: node.copy() for path, node in self.model.items()}
        code = StoreCode.OK
        for op in ops:
            code = _apply(draft, op, client.session.id)
            if code is not StoreCode.OK:
                break
        (result,) = self.world.ask(name, tuple(ops))
        assert result.code is code
        if code is StoreCode.OK:
            self.model = draft

    @rule(name=clients, path=paths, watch=st.booleans(), kind=st.sampled_from([exists, get, children]))
    def reads(self, name: str, path: str, watch: bool, kind: Any) -> None:
        """A read shows the model's node."""
        self._settle()
        (answer,) = self.world.ask(name, kind(path, watch=watch))
        node, result = self.model.get(path), answer.results[0]
        assert (result.code is StoreCode.OK) is (node is not None)
        if node is not None:
            assert (result.version, result.ephemeral_owner) == (node.version, node.owner)
            if kind is children:
                names = [each.rsplit("/", 1)[1] for each in self.model if each != "/" and _above(each) == path]
                assert result.children == tuple(sorted(names))

    @rule(name=clients)
    def a_connection_breaks(self, name: str) -> None:
        """It reconnects by itself, with its session."""
        self.world.break_link(name, "zk")
        self.world.run(10)

    @rule(name=clients)
    def a_session_expires(self, name: str) -> None:
        """Its ephemeral nodes are removed."""
        self._settle()
        session = self.world.client(name).session.id
        self.world.tell("zk", ExpireSession(client=name))
        self._drop(session)

    @rule(name=clients, op=writes())
    def an_answer_is_lost(self, name: str, op: StoreOp) -> None:
        """The write happened once; its retry may find this. The model follows the store here."""
        self._settle()
        self.world.tell("zk", LoseStoreAnswer(client=name))
        _apply(self.model, op, self.world.client(name).session.id)
        self.world.tell(name, [op])
        self.world.run(6_000)
        _apply(self.model, op, self.world.client(name).session.id)
        self.world.take(name)

    @rule(name=clients, for_ms=st.sampled_from([500, 3_000]))
    def a_session_is_frozen(self, name: str, for_ms: int) -> None:
        """For a time short enough to survive."""
        self._settle()
        self.world.tell("zk", FreezeSession(client=name, for_us=for_ms * 1_000))
        self.world.run(for_ms + 10)

    @rule(name=clients)
    def watches_are_delayed(self, name: str) -> None:
        """The next one, for a while."""
        self._settle()
        self.world.tell("zk", DelayWatches(client=name, for_us=50_000))

    @rule(away_ms=st.sampled_from([0, 1_000, 30_000]))
    def the_store_dies(self, away_ms: int) -> None:
        """It restarts with all nodes of the model, and with every session."""
        self._settle()
        sessions = [self.world.client(name).session.id for name in ("c1", "c2")]
        self.world.store_dies()
        self.world.run(away_ms)
        self.world.start("zk")
        self.world.run(3_000)
        assert [self.world.client(name).session.id for name in ("c1", "c2")] == sessions

    def _drop(self, session: int) -> None:
        for path in [path for path, node in self.model.items() if node.owner == session]:
            del self.model[path]

    def _settle(self) -> None:
        for _ in range(40):
            if self._is_calm("c1") and self._is_calm("c2"):
                break
            # A silent client does not learn that its session is over until it asks.
            self.world.run(500)
        assert self._is_calm("c1") and self._is_calm("c2")
        for name in ("c1", "c2"):
            if self.world.client(name).session.id not in self.world.machines["zk"].sessions:  # type: ignore[attr-defined]
                self.world.run(8_000)
        self.world.take("c1"), self.world.take("c2")

    @invariant()
    def the_nodes_are_the_models(self) -> None:
        """All nodes, with their data."""
        if self.model:
            assert self.world.nodes == {path: node.data for path, node in self.model.items()}

    @invariant()
    def every_write_is_noted_and_zxids_never_go_back(self) -> None:
        """The notes contain the same changes."""
        facts = self.world.facts(NodeWritten)[self.noted :]
        assert [fact.zxid for fact in facts] == sorted(fact.zxid for fact in facts)

    @invariant()
    def every_watch_has_a_client(self) -> None:
        """The two tables of watches agree."""
        watches = self.world.machines["zk"].watches  # type: ignore[attr-defined]
        listed = {(client, child, path) for client, rows in watches._of.items() for child, path in rows}
        tables = ((True, watches._child), (False, watches._data))
        assert listed == {(c, child, path) for child, table in tables for path, them in table.items() for c in them}


def test_the_store_is_its_model_under_any_order():
    """Every operation has the model's result."""
    run_state_machine_as_test(
        AnyOrder,
        settings=settings(
            max_examples=examples(60),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )


@pytest.mark.soak
def test_the_store_is_its_model_under_any_order_for_long():
    """The same, longer."""
    run_state_machine_as_test(
        AnyOrder,
        settings=settings(
            max_examples=1_000,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
