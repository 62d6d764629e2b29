"""Machines inside a machine, on a network and a disk: each with connections, timers, ids and logs of its own."""

from kemu.actors.consumer.consumer import Consumer
from kemu.actors.hosting import HostingMachine
from kemu.actors.machine import (
    Appended,
    Event,
    LinkDown,
    Loaded,
    Machine,
    TimerFired,
    Told,
)
from kemu.emulator.chance import Seeded
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.world import World
from kemu.emulator.runner import Run
from kemu.emulator.trace.recorder import MemoryRecorder
from kemu.emulator.trace.rows import Packets, event_from_row, same_effects
from kemu.emulator.trace.traces import PacketRecord, Step, TraceWriter
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.commands import Close, SetRate, Start
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import part_on
from kemu.protocol.notes.groups import AssignmentReceived
from lab.bench.engine import steady
from tests.emulator.engine.toys import HEADER, Caller, Echo, call

SECOND = 1_000_000
PARTS = ("one", "two")
THREADS = ("thread-1", "thread-2")


class Toy(Caller):
    """As a caller; 1000 and more it also writes to its log, 2000 ends it, 3000 closes its connection."""

    def call(self, number: int) -> None:
        if number == 2000:
            self.finished = True
        elif number == 3000:
            self.hang_up("b0")
        else:
            super().call(number)
            if number >= 1000:
                self.append("log", ((b"", str(number).encode()),), 1)


class Shell(HostingMachine):
    """Two toys; what it is told it tells the first, a hundred thousand more it tells the second."""

    def __init__(self, name: str, beat_us: int = 0) -> None:
        super().__init__(name)
        self.finished_parts: list[str] = []
        self.own: list[Event] = []
        for part in PARTS:
            self.admit(part, Toy(part_on(name, part), beat_us=beat_us))

    def handle(self, event: Event) -> None:
        if self.passed_on(event):
            return
        match event:
            case Told(command=Start() as start):
                for part in PARTS:
                    self.tell_part(part, start)
                self.start_timer(("beat",), 1)
            case Told(command=SetRate(records_per_s=number)):
                part = PARTS[number // 100_000]
                if self.part(part) is not None:
                    self.tell_part(part, SetRate(records_per_s=number % 100_000))
            case _:
                self.own.append(event)

    def part_finished(self, part: str) -> None:
        self.finished_parts.append(part)


def _world(recorder: MemoryRecorder | TraceWriter, beat_us: int = 0) -> World:
    world = World(Seeded(1), recorder, latency_us=(200, 2_000))
    world.add_host("b0", {"b0": lambda life: Echo("b0")})
    world.add_host("c1", {"c1": lambda life: Shell("c1", beat_us)})
    for host in world.hosts.values():
        world.start(host)
    return world


def _shell(world: World) -> Shell:
    machine = world.hosts["c1"].actors["c1"].machine
    assert isinstance(machine, Shell)
    return machine


def _toy(world: World, part: str) -> Toy:
    machine = _shell(world).part(part)
    assert isinstance(machine, Toy)
    return machine


def _server(world: World) -> Echo:
    machine = world.hosts["b0"].actors["b0"].machine
    assert isinstance(machine, Echo)
    return machine


def _tell(world: World, *numbers: int) -> None:
    for number in numbers:
        call(world, number)
    run_plain(world, world.now_us + 100_000)


def test_each_part_is_a_client_of_its_own_with_its_own_request_ids() -> None:
    recorder = MemoryRecorder()
    world = _world(recorder)
    _tell(world, 7, 100_008, 9)

    assert sorted(_server(world).got) == [("c1/one", 7), ("c1/one", 9), ("c1/two", 8)]
    assert [number for _, number in _toy(world, "one").answers] == [1, 2]
    assert [number for _, number in _toy(world, "two").answers] == [1]
    packets = [record for record in recorder.records if isinstance(record, PacketRecord)]
    assert len({packet.connection for packet in packets}) == 2
    assert {(packet.sender, packet.to) for packet in packets} == {
        ("c1/one", "b0"), ("c1/two", "b0"), ("b0", "c1/one"), ("b0", "c1/two"),
    }  # fmt: skip


def test_timers_of_one_name_run_apart() -> None:
    """Both parts and the outer machine have a timer called "beat"."""
    world = _world(TraceWriter(None, HEADER), beat_us=30_000)
    run_plain(world, 100_000)

    for part in PARTS:
        assert [event for event in _toy(world, part).seen if isinstance(event, TimerFired)] == [
            TimerFired(("beat",))
        ] * 3
    assert _shell(world).own == [TimerFired(("beat",))]


def test_a_broken_connection_is_told_to_the_part_it_belongs_to() -> None:
    world = _world(TraceWriter(None, HEADER))
    _tell(world, 1, 100_001)
    _tell(world, 3000)
    assert _server(world).downs == ["c1/one"], "the server learns who hung up"

    _tell(world, 1)
    world.network.break_between("c1", "b0")
    run_plain(world, world.now_us + 100_000)

    assert [len(_toy(world, part).downs) for part in PARTS] == [1, 1]
    assert _toy(world, "one").seen[-1] == LinkDown("b0")


def test_each_part_is_told_what_it_wrote_in_its_last_life() -> None:
    world = _world(TraceWriter(None, HEADER))
    _tell(world, 1001, 101_002)
    for part in PARTS:
        assert Appended(1, ErrorCode.NONE, 0) in _toy(world, part).seen
    world.take_down(world.hosts["c1"], Condition.CRASHED)
    world.start(world.hosts["c1"])
    run_plain(world, world.now_us + 100_000)

    for part, written in zip(PARTS, (b"1001", b"1002"), strict=True):
        assert _toy(world, part).seen == [Loaded("log", ((b"", written),)), Told(Start())]


def test_a_part_that_comes_later_is_told_its_logs_when_it_comes() -> None:
    outer = HostingMachine("c1")
    assert outer.passed_on(Loaded("late>log", ((b"k", b"v"),)))
    late = Toy("c1/late")
    outer.admit("late", late)

    assert late.seen == [Loaded("log", ((b"k", b"v"),))]


def test_a_part_that_ends_takes_its_connections_timers_and_answers_with_it() -> None:
    world = _world(TraceWriter(None, HEADER), beat_us=30_000)
    run_plain(world, 50_000)
    call(world, 1001)
    _tell(world, 2000)
    answered = len(_toy(world, "two").answers)
    run_plain(world, world.now_us + 500_000)

    assert _shell(world).finished_parts == ["one"]
    assert _shell(world).part("one") is None
    assert _server(world).downs == ["c1/one"]
    assert len(_toy(world, "two").answers) > answered + 10, "the other goes on"
    assert _shell(world).own == [TimerFired(("beat",))], "nothing of the gone part comes to the outer machine"


def test_parts_of_parts_are_named_one_inside_the_other() -> None:
    class Outer(HostingMachine):
        def handle(self, event: Event) -> None:
            if not self.passed_on(event) and isinstance(event, Told):
                self.tell_part("in", event.command)

    recorder = MemoryRecorder()
    world = World(Seeded(1), recorder, latency_us=(200, 2_000))
    world.add_host("b0", {"b0": lambda life: Echo("b0")})

    def build(life: int) -> Machine:
        outer = Outer("c1")
        outer.admit("in", Shell("c1/in", beat_us=30_000))
        return outer

    world.add_host("c1", {"c1": build})
    for host in world.hosts.values():
        world.start(host)
    run_plain(world, 80_000)

    assert sorted(_server(world).got) == [("c1/in/one", 0)] * 2 + [("c1/in/two", 0)] * 2
    steps = [record for record in recorder.records if isinstance(record, Step) and record.actor == "c1"]
    assert any(row[1] == ("in>one>beat",) for step in steps for row in step.effects if len(row) == 3)
    assert _agrees_when_replayed(recorder, "c1", build(1))
    assert _agrees_when_replayed(recorder, "b0", Echo("b0"))


class Instance(HostingMachine):
    """Two consumers of one group in one process, as a Streams instance has them; closes both when told."""

    def __init__(self, name: str, consumers: dict[str, Consumer]) -> None:
        super().__init__(name)
        self._names = tuple(consumers)
        for part, consumer in consumers.items():
            self.admit(part, consumer)

    def handle(self, event: Event) -> None:
        if not self.passed_on(event):
            assert isinstance(event, Told), event
            for part in self._names:
                self.tell_part(part, event.command)

    def part_finished(self, part: str) -> None:
        self.finished = not any(self.part(each) for each in self._names)


def test_two_real_consumers_in_one_process_are_two_members_of_their_group() -> None:
    """They join, share the partitions, heartbeat and fetch each over its own connections; a close ends the process."""

    def build(life: int) -> Instance:
        return Instance("c1", {
            part: Consumer(
                part_on("c1", part), ConsumerConfig(group_id="g", client_id=part), ("t",), bootstrap=("b0",),
                assignors=ASSIGNORS, chance=Seeded(1).stream(f"{part} {life}"),
            )
            for part in THREADS
        })  # fmt: skip

    recorder = MemoryRecorder()
    one = Run(steady(1, 4, 40, rate=10), seed=1, recorder=recorder, checkers=())
    one.world.hosts["c1"].factories = {"c1": build}
    one.world.at(30 * SECOND, lambda: one.world.tell("c1", Close()))
    broke = one.run_with(run_plain)

    assert broke == ""
    assert _held(recorder) == {"thread-1": 2, "thread-2": 2}
    asked = {(record.sender, record.api) for record in recorder.records if isinstance(record, PacketRecord)}
    for part in ("c1/thread-1", "c1/thread-2"):
        assert {(part, "JoinGroup"), (part, "Heartbeat"), (part, "Fetch"), (part, "LeaveGroup")} <= asked
    assert one.world.hosts["c1"].condition is Condition.CLOSED
    assert _agrees_when_replayed(recorder, "c1", build(1))


def _held(recorder: MemoryRecorder) -> dict[str, int]:
    """Thread -> how many partitions its consumer was last assigned."""
    held: dict[str, int] = {}
    for seen in recorder.facts():
        if isinstance(seen.fact, AssignmentReceived):
            host, _, thread = seen.actor.partition("/")
            assert host == "c1" and thread in seen.fact.member_id
            held[thread] = len(seen.fact.partitions)
    return held


def _agrees_when_replayed(recorder: MemoryRecorder, actor: str, machine: Machine) -> bool:
    """Whether a fresh machine makes the same effects of what was recorded; at least a few steps are compared."""
    packets, compared = Packets(), 0
    for record in recorder.records:
        if isinstance(record, Step):
            event = event_from_row(record.event, packets)
            packets.sent(record.actor, record.effects)
            if record.actor == actor:
                compared += 1
                if not same_effects(machine.step(record.local_us, event), record.effects):
                    return False
        elif isinstance(record, PacketRecord):
            packets.routed(record.packet_id, record.connection)
    return compared > 3
