"""Store and controllers as actors of the world: hosts, faults of hosts and network, the trace."""

from kemu.actors.controller.controller import Controller
from kemu.actors.store.store import Store
from kemu.emulator.chance import Seeded
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain, run_trio
from kemu.emulator.engine.world import World
from kemu.emulator.trace.traces import TraceWriter
from kemu.protocol.commands import ExpireSession, FreezeSession, SeedNodes
from kemu.protocol.config import ControllerConfig
from kemu.protocol.nodes import ReplicaAssignment, read_state, state_path, topic_data, topic_path
from tests.actors.controller.control_world import ObedientBroker
from tests.emulator.engine.toys import HEADER, digest

SECOND = 1_000_000
CONFIG = ControllerConfig(zookeeper_session_timeout_ms=6_000)


def _cluster(seed: int) -> World:
    """The store on host zk, three brokers with their controller parts, a topic of six partitions."""
    world = World(Seeded(seed), TraceWriter(None, HEADER), latency_us=(200, 2_000))
    world.add_host("zk", {"zk": lambda life: Store("zk")})
    for broker in range(3):
        name = f"b{broker}"
        world.add_host(
            name,
            {
                name: lambda life, name=name, broker=broker: ObedientBroker(name, broker),
                f"{name}/controller": lambda life, name=name, broker=broker: Controller(
                    f"{name}/controller", broker, CONFIG
                ),
            },
        )
    for host in world.hosts.values():
        world.start(host)
    rows = {number: ReplicaAssignment((number % 3, (number + 1) % 3, (number + 2) % 3)) for number in range(6)}
    world.at(2 * SECOND, lambda: _tell(world, SeedNodes(nodes=((topic_path("t"), topic_data(rows)),))))
    return world


def _tell(world: World, command: object) -> None:
    world.tell("zk", command)


def _leaders(world: World) -> list[int]:
    store = world.hosts["zk"].actors["zk"].machine
    assert isinstance(store, Store)
    return [read_state(store.tree.nodes[state_path("t", number)].data).leader for number in range(6)]


def _active(world: World) -> list[int]:
    """Brokers whose controller part believes that it controls."""
    found = []
    for broker in range(3):
        actor = world.hosts[f"b{broker}"].actors.get(f"b{broker}/controller")
        if actor is not None and isinstance(actor.machine, Controller) and actor.machine.is_active:
            found.append(broker)
    return found


def _storm(world: World) -> None:
    """A power cut of the controller, a frozen session, an expiry, and everybody back."""
    run_plain(world, 3 * SECOND)
    (first,) = _active(world)
    host = world.hosts[f"b{first}"]
    world.take_down(host, Condition.SILENT)
    run_plain(world, 12 * SECOND)
    (second,) = _active(world)
    world.tell("zk", FreezeSession(client=f"b{second}/controller", for_us=8 * SECOND))
    run_plain(world, 20 * SECOND)
    world.start(host)
    world.tell("zk", ExpireSession(client=f"b{first}/controller"))


def test_the_control_plane_lives_in_the_world_and_gets_well_after_a_storm() -> None:
    """Power cut of the controller's host, a session that expires frozen, restarts: one controller, every leader."""
    world = _cluster(seed=3)
    _storm(world)
    run_plain(world, 60 * SECOND)

    assert len(_active(world)) == 1
    assert set(_leaders(world)) <= {0, 1, 2}
    for broker in range(3):
        machine = world.hosts[f"b{broker}"].actors[f"b{broker}"].machine
        assert isinstance(machine, ObedientBroker)
        assert [machine.metadata["t", number].leader for number in range(6)] == _leaders(world)
        assert len(machine.hosted) == 6


def test_the_same_seed_gives_the_same_trace_by_either_loop() -> None:
    """The law: events in, effects out."""
    digests = []
    for loop in (run_plain, run_plain, run_trio):
        world = _cluster(seed=5)
        loop(world, 30 * SECOND)
        digests.append(digest(world))

    assert digests[0] == digests[1] == digests[2]
