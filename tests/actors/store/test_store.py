"""The metadata store and its client: versions, transactions, sessions, watches, uncertain results, faults."""

from typing import Any

import pytest

from kemu.actors.controller.transactions import children, create, delete, exists, get, set_data
from kemu.actors.machine import Event, Hangup, LinkDown, Machine, Received, Send, StartTimer, TimerFired, Told
from kemu.actors.store.disk import TRANSACTIONS
from kemu.actors.store.session import SessionState, StoreSession
from kemu.actors.store.store import Store
from kemu.protocol.commands import (
    DelayWatches,
    EndStoreFault,
    ExpireSession,
    FreezeSession,
    LoseStoreAnswer,
    RemoveNode,
    SeedNodes,
    Start,
)
from kemu.protocol.messages.store import (
    CreateMode,
    OpenSessionReply,
    StoreCode,
    StoreEvents,
    StoreOp,
    StoreOpKind,
    StoreOps,
    Transaction,
    TransactionResult,
    WatchEvent,
    WatchEventKind,
)
from kemu.protocol.notes.replication import NodeWritten, SessionEnded, StoreFaultHit, StoreTookOver
from tests.actors.broker.data_world import DataWorld

OK, NO_NODE, BAD_VERSION, NODE_EXISTS = StoreCode.OK, StoreCode.NO_NODE, StoreCode.BAD_VERSION, StoreCode.NODE_EXISTS
EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.PERSISTENT_SEQUENTIAL
TIMEOUT_MS = 6_000


class Client(Machine):
    """A session and its results. It executes each operation separately; a tuple of them as one transaction."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.session = StoreSession(self, self, store="zk", timeout_ms=TIMEOUT_MS)
        self.story: list[Any] = []
        """Results and watch events, in order of arrival."""

    def handle(self, event: Event) -> None:
        if self.session.handle(event):
            return
        match event:
            case Told(command=Start()):
                self.session.open()
            case Told(command="close"):
                self.session.close(1_000_000)
            case Told(command=("attach", session_id)):
                self.session.attach(session_id)
            case Told(command=list(ops)):
                self.session.submit([_transaction(op) for op in ops], self._done)

    def _done(self, results: tuple[TransactionResult, ...]) -> None:
        self.story.extend(results)

    def session_opened(self, session_id: int) -> None:
        self.story.append(f"opened {session_id}")

    def session_expired(self) -> None:
        self.story.append("expired")
        self.session.open()

    def session_closed(self, code: StoreCode) -> None:
        self.story.append(f"closed {code.name}")

    def watch_fired(self, event: WatchEvent) -> None:
        self.story.append(event)


def _transaction(op: StoreOp | tuple[StoreOp, ...]) -> Transaction:
    return Transaction(ops=op if isinstance(op, tuple) else (op,))


class Stores(DataWorld):
    """The store and clients c1, c2, each with a session; /a exists."""

    def __init__(self) -> None:
        super().__init__()
        self.add("zk", lambda life: Store("zk"), SeedNodes(nodes=(("/a", b"0"),)))
        for name in ("c1", "c2"):
            self.add(name, lambda life, name=name: Client(name))
            self.run(100)
            self.client(name).story.clear()

    def client(self, name: str) -> Client:
        machine = self.machines[name]
        assert isinstance(machine, Client)
        return machine

    def ask(self, name: str, *ops: StoreOp | tuple[StoreOp, ...], for_ms: int = 100) -> list[TransactionResult]:
        """The results of a client's operations."""
        self.tell(name, list(ops))
        self.run(for_ms)
        return [item for item in self.take(name) if isinstance(item, TransactionResult)]

    def take(self, name: str) -> list[Any]:
        """New results and events of a client since the last call."""
        story = self.client(name).story
        taken, story[:] = story[:], []
        return taken

    @property
    def nodes(self) -> dict[str, bytes]:
        machine = self.machines["zk"]
        assert isinstance(machine, Store)
        return {path: node.data for path, node in machine.tree.nodes.items()}

    def store_dies(self) -> None:
        """All its servers fail at once, or its leader: every answered write is on its disks."""
        store = self.machines["zk"]
        assert isinstance(store, Store)
        self.disks["zk"][TRANSACTIONS] = list(store.on_disk())
        self.crash("zk")

    def changes(self) -> list[tuple[str, str]]:
        return [(fact.what, fact.path) for fact in self.facts(NodeWritten)]


def _changed(path: str, kind: WatchEventKind = WatchEventKind.NODE_DATA_CHANGED) -> WatchEvent:
    return WatchEvent(kind=kind, path=path)


# --- operations ----------------------------------------------------------------------------------------------------


def test_a_set_needs_the_version_it_names():
    """expected_version; -1 = any."""
    world = Stores()

    results = world.ask("c1", set_data("/a", b"1", 0), set_data("/a", b"2", 0), set_data("/a", b"3"), get("/a"))

    assert [result.code for result in results] == [OK, BAD_VERSION, OK, OK]
    assert (results[3].results[0].data, results[3].results[0].version) == (b"3", 2)


def test_a_transaction_happens_all_or_not_at_all():
    """Multi: the failing operation's code; earlier ones undone, later ones not tried."""
    world = Stores()
    before = world.nodes

    (result,) = world.ask("c1", (create("/b"), create("/b/x", b"", EPHEMERAL), set_data("/a", b"9", 7), create("/c")))

    assert result.code is BAD_VERSION
    assert [each.code for each in result.results] == [OK, OK, BAD_VERSION, StoreCode.RUNTIME_INCONSISTENCY]
    assert world.nodes == before
    assert world.ask("c1", get("/a"))[0].results[0].version == 0


def test_what_a_transaction_set_and_deleted_before_it_failed_is_as_it_was():
    """Multi: data, version, children and the session's nodes, all from before."""
    world = Stores()
    world.ask("c1", create("/e", b"1", EPHEMERAL), set_data("/a", b"1"))
    before, asked = world.nodes, (get("/a"), get("/e"), children("/"))
    had = [result.results for result in world.ask("c1", *asked)]

    (result,) = world.ask("c1", (set_data("/a", b"2"), delete("/e"), delete("/no")))

    assert result.code is NO_NODE
    assert world.nodes == before
    assert [result.results for result in world.ask("c1", *asked)] == had
    world.tell("c1", "close")
    world.run(100)
    assert "/e" not in world.nodes, "it is still its session's"


def test_operations_that_make_no_sense_are_refused():
    """ZooKeeper's codes."""
    world = Stores()
    world.ask("c1", create("/e", b"", EPHEMERAL), create("/a/x"))

    results = world.ask(
        "c1",
        create("/a"),
        create("/no/x"),
        create("/e/x"),
        delete("/a"),
        delete("/no"),
        get("/no"),
        (get("/a"), get("/a")),
    )

    assert [result.code for result in results] == [
        NODE_EXISTS,
        NO_NODE,
        StoreCode.NO_CHILDREN_FOR_EPHEMERALS,
        StoreCode.NOT_EMPTY,
        NO_NODE,
        NO_NODE,
        StoreCode.BAD_ARGUMENTS,
    ]


def test_sequential_nodes_are_numbered_by_their_parent_and_numbers_never_come_again():
    """Sequential creation, ten digits."""
    world = Stores()

    first = world.ask("c1", create("/a/n_", b"", SEQUENTIAL), create("/a/n_", b"", SEQUENTIAL))
    world.ask("c2", delete(first[1].results[0].path))
    (third,) = world.ask("c2", create("/a/n_", b"", SEQUENTIAL))

    assert [result.results[0].path for result in first] == ["/a/n_0000000000", "/a/n_0000000001"]
    assert third.results[0].path == "/a/n_0000000002"


def test_czxids_grow_with_every_creation():
    """The czxid of a broker's registration is its epoch (KIP-380)."""
    world = Stores()

    first = world.ask("c1", create("/b"))[0].results[0].czxid
    world.ask("c1", delete("/b"))
    second = world.ask("c2", create("/b"))[0].results[0].czxid

    assert second > first


# --- sessions ------------------------------------------------------------------------------------------------------


def test_an_ephemeral_node_lives_as_long_as_its_session():
    """Expiry after the timeout, not before."""
    world = Stores()
    world.ask("c1", create("/e", b"", EPHEMERAL))
    world.run(30_000)
    assert "/e" in world.nodes, "pings keep the session"

    world.crash("c1")
    world.run(TIMEOUT_MS - 2_500)
    assert "/e" in world.nodes
    world.run(2_600)
    assert "/e" not in world.nodes
    assert [fact.why for fact in world.facts(SessionEnded)] == ["expired"]


def test_a_store_that_was_away_has_everything_and_each_session_its_whole_timeout():
    """``SessionTrackerImpl``: a new leader tracks all sessions anew; a dead client expires a timeout after its
    start.
    """
    world = Stores()
    for name in ("c1", "c2"):
        world.ask(name, create(f"/{name}", b"", EPHEMERAL), create("/a/s", b"", SEQUENTIAL))
    before = world.nodes
    last = world.ask("c1", set_data("/a", b"1", 0))[0].results[0]

    world.store_dies()
    world.crash("c2")
    world.run(10 * TIMEOUT_MS)
    world.start("zk")
    world.run(TIMEOUT_MS - 10)

    assert world.nodes == {**before, "/a": b"1"}
    assert [fact.sessions for fact in world.facts(StoreTookOver)] == [2]
    world.run(20)
    assert "/c2" not in world.nodes
    assert [fact.client for fact in world.facts(SessionEnded)] == ["c2"]
    (again,) = world.ask("c1", set_data("/a", b"2", last.version))
    assert (again.code, again.results[0].version) == (OK, 2)
    (made,) = world.ask("c1", create("/a/s", b"", SEQUENTIAL))
    assert made.results[0].path == "/a/s0000000002", "numbers of sequential nodes go on"
    assert made.results[0].czxid >> 32 == 1 > last.czxid >> 32, "a leader's zxids are above all before"


def test_a_new_session_has_an_id_that_none_before_had():
    """Nor an id that expired before the store failed."""
    world = Stores()
    world.crash("c2")
    world.run(2 * TIMEOUT_MS)
    old = world.client("c1").session.id

    world.store_dies()
    world.start("zk")
    world.start("c2")
    world.run(2_000)

    assert (old, world.client("c1").session.id, world.client("c2").session.id) == (1, 1, 3)


def test_a_client_submits_on_while_the_store_is_away_and_has_its_watches_again():
    """``ClientCnxn``: requests wait; on connecting the client sets its watches again, and gets the missed events."""
    world = Stores()
    world.ask("c1", get("/a", watch=True), exists("/b", watch=True), children("/", watch=True))

    world.store_dies()
    world.tell("c1", [create("/c1")])
    world.run(2 * TIMEOUT_MS)
    assert world.take("c1") == []
    world.start("zk")
    world.ask("c2", set_data("/a", b"1"), for_ms=2_000)

    story = world.take("c1")
    assert [item.code for item in story if isinstance(item, TransactionResult)] == [OK]
    assert _changed("/a") in story, "c2 may have written before c1 was back"
    assert _changed("/", WatchEventKind.NODE_CHILDREN_CHANGED) in story
    world.ask("c2", create("/b"))
    assert world.take("c1") == [_changed("/b", WatchEventKind.NODE_CREATED)]


def test_nodes_that_lingered_go_when_the_store_is_back():
    """``ZooKeeperServer.loadData`` removes nodes of expired sessions."""
    world = Stores()
    world.ask("c1", create("/e", b"", EPHEMERAL))
    world.tell("zk", ExpireSession(client="c1", linger_us=60_000_000))
    world.run(10)

    world.store_dies()
    world.start("zk")

    assert "/e" not in world.nodes
    assert world.changes()[-1] == ("deleted", "/e")


def test_a_closed_session_takes_its_nodes_with_it_at_once():
    """closeSession."""
    world = Stores()
    world.ask("c1", create("/e", b"", EPHEMERAL))

    world.tell("c1", "close")
    world.run(10)

    assert world.take("c1") == ["closed OK"]
    assert "/e" not in world.nodes


def test_a_client_learns_of_its_expiry_only_from_the_store():
    """ZooKeeper programmer's guide: an expired client learns of it only from the server."""
    world = Stores()
    world.tell("zk", ExpireSession(client="c1"))
    world.run(100)
    assert world.take("c1") == []

    results = world.ask("c1", set_data("/a", b"1"))

    assert results == [], "what was submitted died with the session"
    assert world.nodes["/a"] == b"0"
    world.run(2_000)
    assert world.client("c1").session.state is SessionState.CONNECTED


def test_two_actors_of_a_process_share_a_session():
    """A Kafka broker has one session for its replicas and its controller."""
    world = Stores()
    world.tell("c2", ("attach", world.client("c1").session.id))
    world.run(100)
    world.take("c2")
    world.ask("c2", create("/e", b"", EPHEMERAL))
    world.ask("c1", get("/e", watch=True))

    world.tell("zk", ExpireSession(client="c1"))
    world.run(10)

    assert "/e" not in world.nodes
    assert world.take("c1") == [], "an expired session is told nothing, not even of its own watches"


# --- watches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watch", "change", "fired"),
    [
        (get("/a", watch=True), set_data("/a", b"1"), [_changed("/a")]),
        (exists("/a", watch=True), delete("/a"), [_changed("/a", WatchEventKind.NODE_DELETED)]),
        (exists("/b", watch=True), create("/b"), [_changed("/b", WatchEventKind.NODE_CREATED)]),
        (children("/a", watch=True), create("/a/x"), [_changed("/a", WatchEventKind.NODE_CHILDREN_CHANGED)]),
        (children("/a", watch=True), delete("/a"), [_changed("/a", WatchEventKind.NODE_DELETED)]),
        (children("/a", watch=True), set_data("/a", b"1"), []),
        (get("/b", watch=True), create("/b"), []),
        (get("/a", watch=True), create("/a/x"), []),
    ],
)
def test_what_fires_which_watch(watch: StoreOp, change: StoreOp, fired: list[WatchEvent]):
    """Data watches (get, exists), watches for a node's creation (exists), child watches."""
    world = Stores()
    world.ask("c1", watch)

    world.ask("c2", change)

    assert world.take("c1") == fired


def test_a_watch_fires_once():
    """One-shot: changes between the event and the next registration are not signalled."""
    world = Stores()
    world.ask("c1", get("/a", watch=True))

    world.ask("c2", set_data("/a", b"1"), set_data("/a", b"2"))

    assert world.take("c1") == [_changed("/a")]


def test_one_who_watches_a_nodes_data_and_children_hears_of_its_deletion_once():
    """DataTree.deleteNode sends each client one event."""
    world = Stores()
    world.ask("c1", get("/a", watch=True), children("/a", watch=True))

    world.ask("c2", delete("/a"))

    assert world.take("c1") == [_changed("/a", WatchEventKind.NODE_DELETED)]


def test_an_event_comes_before_the_new_state_can_be_read():
    """Also when the watch is delayed: the reads wait behind it."""
    for delay_ms in (0, 3_000):
        world = Stores()
        world.ask("c1", get("/a", watch=True))
        if delay_ms:
            world.tell("zk", DelayWatches(client="c1", for_us=delay_ms * 1_000))
        world.ask("c2", set_data("/a", b"1"))
        world.tell("c1", [get("/a")])
        world.run(100)
        assert len(world.take("c2")) == 0
        world.run(delay_ms)

        event, read = world.take("c1")

        assert event == _changed("/a")
        assert read.results[0].data == b"1"


def test_a_delayed_watch_does_not_delay_others():
    """A delayed watch event does not affect other sessions."""
    world = Stores()
    for name in ("c1", "c2"):
        world.ask(name, get("/a", watch=True))
    world.tell("zk", DelayWatches(client="c1", for_us=3_000_000))

    world.tell("c2", [set_data("/a", b"1")])
    world.run(100)

    assert world.take("c2")[0] == _changed("/a")
    assert world.take("c1") == []
    world.run(3_000)
    assert world.take("c1") == [_changed("/a")]


def test_a_client_that_reconnects_hears_of_what_it_missed():
    """setWatches: watches whose node changed meanwhile fire at once, the others stay."""
    world = Stores()
    world.ask("c1", get("/a", watch=True), exists("/b", watch=True), children("/", watch=True))

    world.break_link("c1", "zk")
    world.ask("c2", set_data("/a", b"1"))
    world.run(2_000)

    assert world.take("c1") == [_changed("/a")]
    world.ask("c2", create("/b"))
    fired = world.take("c1")
    assert fired == [_changed("/b", WatchEventKind.NODE_CREATED), _changed("/", WatchEventKind.NODE_CHILDREN_CHANGED)]


# --- what goes wrong -----------------------------------------------------------------------------------------------


def test_a_write_whose_answer_is_lost_is_sent_again_and_finds_itself():
    """Uncertain result: the conditional write happened, its retry answers BAD_VERSION (KAFKA-1382)."""
    world = Stores()
    world.tell("zk", LoseStoreAnswer(client="c1"))

    results = world.ask("c1", set_data("/a", b"1", 0), for_ms=TIMEOUT_MS)

    assert [result.code for result in results] == [BAD_VERSION]
    assert world.nodes["/a"] == b"1"
    assert [fact.fault for fact in world.facts(StoreFaultHit)] == ["LoseStoreAnswer"]
    assert world.client("c1").session.state is SessionState.CONNECTED, "the session outlived it"


def test_a_connection_that_breaks_before_the_write_arrived_repeats_it():
    """The other result: nothing had happened."""
    world = Stores()
    world.tell("c1", [set_data("/a", b"1", 0)])
    world.break_link("c1", "zk")
    world.run(2_000)

    assert [result.code for result in world.take("c1") if isinstance(result, TransactionResult)] == [OK]


def test_a_frozen_session_hears_and_says_nothing_and_may_go_on():
    """A frozen session has no events and no writes; it survives if the freeze is short enough."""
    world = Stores()
    world.ask("c1", get("/a", watch=True))
    world.tell("zk", FreezeSession(client="c1", for_us=3_000_000))
    world.tell("c1", [set_data("/a", b"mine", 0)])
    world.ask("c2", set_data("/a", b"2", 0))
    assert world.nodes["/a"] == b"2"
    assert world.take("c1") == []

    world.run(3_000)

    event, result = world.take("c1")
    assert event == _changed("/a")
    assert result.code is BAD_VERSION


def test_a_session_frozen_for_too_long_expires_and_what_it_wrote_is_not_done():
    """The former owner learns of the expiry with its next request."""
    world = Stores()
    world.ask("c1", create("/e", b"", EPHEMERAL))
    world.tell("zk", FreezeSession(client="c1", for_us=8_000_000))
    world.run(6_100)
    assert "/e" not in world.nodes
    assert "expired" not in world.take("c1")

    world.tell("c1", [set_data("/a", b"1")])
    world.run(4_000)

    assert "expired" in world.take("c1")
    assert world.nodes["/a"] == b"0"


def test_an_expired_sessions_nodes_may_linger():
    """ExpireSession(linger): an ensemble slow to remove nodes, the cause of KAFKA-7165."""
    world = Stores()
    world.ask("c1", create("/e", b"", EPHEMERAL))
    world.tell("zk", ExpireSession(client="c1", linger_us=2_000_000))
    world.run(500)
    assert "/e" in world.nodes
    world.run(2_000)
    assert "/e" not in world.nodes


def test_a_write_that_was_not_executed_and_whose_answer_is_lost_is_sent_again():
    """The other uncertain result: the client reconnects and its write happens once, with its version."""
    world = Stores()
    world.tell("zk", LoseStoreAnswer(client="c1", executed=False, number=7))
    world.tell("c1", [set_data("/a", b"1", 0)])
    world.run(100)
    assert world.nodes["/a"] == b"0"

    world.run(TIMEOUT_MS)

    assert [result.code for result in world.take("c1") if isinstance(result, TransactionResult)] == [OK]
    assert [(fact.client, fact.number) for fact in world.facts(StoreFaultHit)] == [("c1", 7)]


def test_only_writes_are_counted_when_only_a_write_is_to_lose_its_answer():
    """Reads do not count; of two writes the second is affected."""
    world = Stores()
    world.tell("zk", LoseStoreAnswer(client="c1", nth=2, writes_only=True))

    assert [result.code for result in world.ask("c1", get("/a"))] == [OK]
    assert [result.code for result in world.ask("c1", set_data("/a", b"1"))] == [OK]
    assert [result.code for result in world.ask("c1", get("/a"))] == [OK]
    assert world.facts(StoreFaultHit) == []
    assert world.ask("c1", set_data("/a", b"2")) == []
    assert [fact.fault for fact in world.facts(StoreFaultHit)] == ["LoseStoreAnswer"]


def test_a_fault_that_ends_before_it_hits_never_hits():
    """EndStoreFault cancels a waiting loss or delay of its number, and no other."""
    world = Stores()
    world.ask("c1", get("/a", watch=True))
    world.tell("zk", LoseStoreAnswer(client="c1", number=1))
    world.tell("zk", DelayWatches(client="c1", for_us=0, number=2))
    for number in (1, 2, 3):
        world.tell("zk", EndStoreFault(number=number))

    world.ask("c2", set_data("/a", b"1"))

    assert world.take("c1") == [_changed("/a")]
    assert [result.code for result in world.ask("c1", get("/a"))] == [OK]
    assert world.facts(StoreFaultHit) == []


def test_what_a_fault_does_until_it_is_ended_is_over_when_it_ends():
    """A delayed watch is sent, a frozen session is served, remaining nodes are removed: each by its own number only."""
    world = Stores()
    world.ask("c1", get("/a", watch=True), create("/e", b"", EPHEMERAL))
    world.tell("zk", DelayWatches(client="c1", for_us=0, number=1))
    world.ask("c2", set_data("/a", b"1"))
    assert world.take("c1") == []
    world.tell("zk", EndStoreFault(number=2))
    world.run(10)
    assert world.take("c1") == []
    world.tell("zk", EndStoreFault(number=1))
    world.run(10)
    assert world.take("c1") == [_changed("/a")]

    for number in (3, 4):
        world.tell("zk", FreezeSession(client="c1", for_us=0, number=number))
    world.tell("zk", EndStoreFault(number=3))
    assert world.ask("c1", set_data("/a", b"2")) == []
    assert world.nodes["/a"] == b"1", "the other fault freezes it still"
    world.tell("zk", EndStoreFault(number=4))
    world.run(10)
    assert world.nodes["/a"] == b"2"

    world.tell("zk", ExpireSession(client="c1", linger_us=60_000_000, number=5))
    world.run(10)
    assert "/e" in world.nodes
    world.tell("zk", EndStoreFault(number=5))
    world.run(10)
    assert "/e" not in world.nodes


def test_a_watch_delayed_while_its_session_is_frozen_waits_for_both():
    """The event is sent when both have ended."""
    for frozen_ms, delayed_ms in ((2_000, 1_000), (1_000, 2_000)):
        world = Stores()
        world.ask("c1", get("/a", watch=True))
        world.tell("zk", DelayWatches(client="c1", for_us=delayed_ms * 1_000, number=1))
        world.tell("zk", FreezeSession(client="c1", for_us=frozen_ms * 1_000, number=2))
        world.tell("c2", [set_data("/a", b"1")])
        world.run(1_500)
        assert world.take("c1") == []
        world.run(1_000)
        assert world.take("c1") == [_changed("/a")]


def test_a_fault_at_a_client_without_a_session_does_not_hit():
    """Nothing is frozen, nothing expires, and there is no note."""
    world = Stores()
    world.tell("zk", FreezeSession(client="c9", for_us=1_000))
    world.tell("zk", ExpireSession(client="c9"))
    world.run(10)

    assert world.facts(StoreFaultHit) == []


def test_operators_write_and_remove_nodes_and_watches_fire():
    """SeedNodes, RemoveNode."""
    world = Stores()
    world.ask("c1", exists("/b/c", watch=True))

    world.tell("zk", SeedNodes(nodes=(("/b/c", b"x"),)))
    world.tell("zk", RemoveNode(path="/b/c"))
    world.run(10)

    assert world.take("c1") == [_changed("/b/c", WatchEventKind.NODE_CREATED)]
    assert world.changes()[-3:] == [("created", "/b"), ("created", "/b/c"), ("deleted", "/b/c")]


def test_no_more_than_ten_transactions_are_in_flight():
    """zookeeper.max.in.flight.requests; order is kept."""
    world = Stores()

    results = world.ask("c1", *[set_data("/a", b"%d" % n, n) for n in range(25)])

    assert [result.code for result in results] == [OK] * 25
    flights = [len(send.message.transactions) for name, send in world.sent if isinstance(send.message, StoreOps)]
    assert max(flights) == 10


# --- the connection ------------------------------------------------------------------------------------------------


def _connected() -> Client:
    """A client whose session 7 was opened at 0."""
    client = Client("c1")
    client.step(0, Told(Start()))
    client.step(0, Received("zk", 0, 1, 0, OpenSessionReply(code=StoreCode.OK, session_id=7, timeout_ms=TIMEOUT_MS)))
    return client


def test_a_connection_is_given_up_two_thirds_of_the_session_after_the_store_was_heard_last():
    """ClientCnxn: readTimeout = sessionTimeout * 2 / 3 since the last message, whenever the requests were sent."""
    client = _connected()
    client.step(2_000_000, TimerFired(("store", "ping")))
    client.step(3_000_000, Received("zk", 0, 0, 0, StoreEvents(zxid=1, events=())))

    early = client.step(4_000_000, TimerFired(("store", "read")))
    assert Hangup("zk") not in early, "an event is a sign of life, too"
    assert StartTimer(("store", "read"), 3_000_000) in early
    assert Hangup("zk") in client.step(7_000_000, TimerFired(("store", "read")))


def test_a_session_goes_on_under_its_id_when_its_connection_was_lost():
    """ZooKeeper: a client that reconnects in time keeps its session; unanswered requests are resent, in order."""
    client = _connected()
    client.step(1_000_000, Told([StoreOp(kind=StoreOpKind.SET_DATA, path="/a", data=b"1")]))
    client.step(1_000_000, Told([StoreOp(kind=StoreOpKind.SET_DATA, path="/a", data=b"2")]))

    lost = client.step(1_500_000, LinkDown("zk"))
    assert StartTimer(("store", "reconnect"), 500_000) in lost
    (opening,) = [each for each in client.step(2_000_000, TimerFired(("store", "reconnect"))) if type(each) is Send]
    assert opening.message.session_id == 7
    again = client.step(
        2_100_000,
        Received(
            "zk", 0, opening.request_id, 0, OpenSessionReply(code=StoreCode.OK, session_id=7, timeout_ms=TIMEOUT_MS)
        ),
    )

    sent = [each.message for each in again if type(each) is Send]
    assert [each.ops[0].data for message in sent for each in message.transactions] == [b"1", b"2"]


def test_a_close_that_is_not_answered_in_its_time_is_over():
    """A closing client does not wait for a silent store."""
    client = _connected()
    closing = client.step(1_000_000, Told("close"))

    assert StartTimer(("store", "read"), 1_000_000) in closing
    client.step(2_000_000, TimerFired(("store", "read")))
    assert client.story[-1] == "closed CONNECTION_LOSS"
