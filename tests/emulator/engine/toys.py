"""Toy machines and a small world, to test the world without Kafka."""

from collections.abc import Callable

from kemu.actors.machine import Append, Appended, Event, LinkDown, Machine, Received, TimerFired, Told
from kemu.emulator.chance import Seeded
from kemu.emulator.engine.world import World
from kemu.emulator.facts import Seen
from kemu.emulator.trace.traces import Header, TraceWriter
from kemu.protocol.commands import SetRate, Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import Heartbeat, HeartbeatReply

HEADER = Header(scenario={}, plan=[], seed=0, profile="", loop="", package="")


class Caller(Machine):
    """Sends a heartbeat whenever told a rate (its generation is the rate); remembers all it saw."""

    def __init__(self, name: str, server: str = "b0", beat_us: int = 0) -> None:
        super().__init__(name)
        self.server = server
        self.beat_us = beat_us
        self.seen: list[Event] = []
        self.answers: list[tuple[int, int]] = []
        """(local time, request id)"""
        self.downs: list[int] = []

    def handle(self, event: Event) -> None:
        self.seen.append(event)
        match event:
            case Told(command=Start()) if self.beat_us:
                self.start_timer(("beat",), self.beat_us)
            case TimerFired(key=("beat",)):
                self.call(0)
                self.start_timer(("beat",), self.beat_us)
            case Told(command=SetRate(records_per_s=number)):
                self.call(number)
            case Received():
                self.answers.append((self.now_us, event.request_id))
            case LinkDown():
                self.downs.append(self.now_us)
            case _:
                pass

    def call(self, number: int) -> None:
        self.request(self.server, Heartbeat(group="g", generation=number, member_id=self.name), 4)


class Echo(Machine):
    """Answers heartbeats; keeps their generations in the order they came; answers those >= 1000 after an append."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.got: list[tuple[str, int]] = []
        self.parked: dict[int, Received] = {}
        self.downs: list[str] = []
        self.times: list[int] = []

    def handle(self, event: Event) -> None:
        self.times.append(self.now_us)
        match event:
            case Received(message=Heartbeat(generation=number)):
                self.got.append((event.peer, number))
                if number >= 1000:
                    self.parked[number] = event
                    self._effects.append(Append("log", ((b"k", str(number).encode()),), number))
                else:
                    self.reply(event, HeartbeatReply(error=ErrorCode.NONE))
            case Appended(token=token):
                self.reply(self.parked.pop(token), HeartbeatReply(error=ErrorCode.NONE))
            case LinkDown(peer=peer):
                self.downs.append(peer)
            case _:
                pass


class Watcher:
    """An observer that keeps every fact."""

    def __init__(self) -> None:
        self.facts: list[Seen] = []

    def see(self, seen: Seen) -> None:
        self.facts.append(seen)


def small_world(
    callers: int = 1, *, seed: int = 1, beat_us: int = 0, start: bool = True, latency_us: tuple[int, int] = (200, 2000)
) -> World:
    """One server b0 and callers c1, c2, ...; everything runs."""
    world = World(Seeded(seed), TraceWriter(None, HEADER), latency_us=latency_us)
    world.add_host("b0", {"b0": lambda life: Echo("b0")})
    for number in range(1, callers + 1):
        world.add_host(f"c{number}", {f"c{number}": _caller(f"c{number}", beat_us)})
    if start:
        for host in list(world.hosts.values()):
            world.start(host)
    return world


def _caller(name: str, beat_us: int) -> Callable[[int], Machine]:
    return lambda life: Caller(name, beat_us=beat_us)


def digest(world: World) -> str:
    """Of all that its trace writer was told so far."""
    assert isinstance(world.recorder, TraceWriter)
    return world.recorder.digest()


def caller(world: World, name: str = "c1") -> Caller:
    machine = world.hosts[name].actors[name].machine
    assert isinstance(machine, Caller)
    return machine


def echo(world: World) -> Echo:
    machine = world.hosts["b0"].actors["b0"].machine
    assert isinstance(machine, Echo)
    return machine


def call(world: World, number: int, name: str = "c1") -> None:
    """Tell a caller to send a request."""
    assert world.tell(name, SetRate(records_per_s=number))
