"""Hosts, clocks, disks and timers, with toy machines."""

import pytest

from kemu.actors.machine import EARLY_THREAD, Appended, Event, Loaded, Machine, TimerFired, Told
from kemu.emulator.chance import Seeded
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain, run_trio
from kemu.emulator.engine.world import MachineBroke, World
from kemu.emulator.facts import HostDown, HostStarted
from kemu.emulator.trace.traces import TraceWriter
from kemu.protocol.commands import Close, SetRate, Start
from kemu.protocol.errors import ErrorCode
from tests.emulator.engine.toys import HEADER, Caller, Watcher, call, caller, echo, small_world

SECOND = 1_000_000


class Sleeper(Machine):
    """Follows a script of timers; remembers when which fired."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.fired: list[tuple[str, int]] = []
        self.loaded: list[Event] = []

    def handle(self, event: Event) -> None:
        match event:
            case TimerFired(key=key):
                self.fired.append((key[0], self.now_us))
            case Loaded():
                self.loaded.append(event)
            case Told(command=Close()):
                self.finished = True
            case Told(command=SetRate(records_per_s=milliseconds)):
                self.start_timer(("t",), milliseconds * 1000)
            case _:
                pass


def sleeper_world(seed: int = 1) -> tuple[World, Sleeper]:
    world = World(Seeded(seed), TraceWriter(None, HEADER), latency_us=(200, 2_000))
    world.add_host("s", {"s": lambda life: Sleeper("s")})
    world.start(world.hosts["s"])
    return world, sleeper(world)


def sleeper(world: World) -> Sleeper:
    machine = world.hosts["s"].actors["s"].machine
    assert isinstance(machine, Sleeper)
    return machine


def test_a_timer_started_again_fires_once_at_the_later_time() -> None:
    world, machine = sleeper_world()
    world.tell("s", SetRate(records_per_s=100))
    run_plain(world, 50_000)
    world.tell("s", SetRate(records_per_s=100))
    run_plain(world, SECOND)

    assert machine.fired == [("t", 150_000)]


def test_a_timer_started_again_for_earlier_fires_once_at_the_earlier_time() -> None:
    world, machine = sleeper_world()
    world.tell("s", SetRate(records_per_s=500))
    run_plain(world, 50_000)
    world.tell("s", SetRate(records_per_s=100))
    run_plain(world, SECOND)

    assert machine.fired == [("t", 150_000)]


def test_timers_follow_the_hosts_own_clock() -> None:
    world, machine = sleeper_world()
    world.hosts["s"].drift(0, 1_000_000)  # twice as fast
    world.tell("s", SetRate(records_per_s=1000))
    run_plain(world, SECOND)

    ((_, local_us),) = machine.fired
    assert local_us == 1_000_000
    assert world.hosts["s"].local_us(500_000) == 1_000_000


def test_a_clock_never_runs_back_when_its_drift_ends() -> None:
    host = small_world(start=False).hosts["c1"]
    host.drift(1000, 500_000)
    fast = host.local_us(3000)
    host.drift(3000, 0)

    assert fast == 4000
    assert host.local_us(3000) == 4000
    assert host.local_us(3500) == 4500


def test_a_paused_host_keeps_mail_and_timers_and_takes_them_in_order_when_it_goes_on() -> None:
    world = small_world(2, beat_us=0)
    call(world, 1, "c1")
    run_plain(world, SECOND)
    world.pause(world.hosts["b0"])
    for number in (2, 3):
        call(world, number, "c1")
    run_plain(world, 10 * SECOND)
    assert echo(world).got == [("c1", 1)]

    world.resume(world.hosts["b0"])
    run_plain(world, 11 * SECOND)

    assert echo(world).got == [("c1", 1), ("c1", 2), ("c1", 3)]
    assert echo(world).times[-1] == 10 * SECOND
    assert caller(world, "c1").downs == []


def test_a_timer_due_in_a_pause_fires_at_its_end() -> None:
    world, machine = sleeper_world()
    world.tell("s", SetRate(records_per_s=100))
    run_plain(world, 10)
    world.pause(world.hosts["s"])
    run_plain(world, 3 * SECOND)
    world.resume(world.hosts["s"])
    run_plain(world, 4 * SECOND)

    assert machine.fired == [("t", 3 * SECOND)]


# --- the threads of a process that was paused ----------------------------------------------------------------------


class TwoThreads(Sleeper):
    """Two threads, a and b, with two timers each."""

    def handle(self, event: Event) -> None:
        if event == Told(Start()):
            for at_ms, name in enumerate(("a1", "b1", "a2", "b2"), 1):
                self.start_timer((name,), at_ms * 1000)
        super().handle(event)

    def thread_of(self, what: str) -> str:
        return what[:1]


def two_threads(seed: int, wakes_us: list[int] | None) -> tuple[World, TwoThreads]:
    machine = TwoThreads("s")
    return paused_world(seed, wakes_us, machine), machine


def paused_world(seed: int, wakes_us: list[int] | None, machine: TwoThreads) -> World:
    """A process that was paused while its timers fell due; ``wakes_us``: draws of the time to wake, last one first."""
    wake = None if wakes_us is None else wakes_us.pop
    world = World(Seeded(seed), TraceWriter(None, HEADER), latency_us=(200, 2_000), wake_us=wake)
    world.add_host("s", {"s": lambda life: machine})
    world.start(world.hosts["s"])
    run_plain(world, 10)
    world.pause(world.hosts["s"])
    run_plain(world, SECOND)
    return world


def test_threads_of_a_resumed_process_go_on_in_a_drawn_order_and_each_keeps_its_own() -> None:
    """SIGCONT makes all threads runnable; no thread's own events change places."""
    orders = set()
    for seed in range(1, 21):
        world, machine = two_threads(seed, [700])
        world.resume(world.hosts["s"])
        run_plain(world, 2 * SECOND)
        orders.add(" ".join(name for name, _ in machine.fired))
        assert {at_us for _, at_us in machine.fired} == {SECOND + 700}

    assert orders == {"a1 a2 b1 b2", "b1 b2 a1 a2"}


class EarlyThread(TwoThreads):
    """Thread b is early."""

    def thread_of(self, what: str) -> str:
        return EARLY_THREAD if what[:1] == "b" else what[:1]


def test_an_early_thread_goes_on_first_whatever_the_draw() -> None:
    """As the heartbeat thread of a classic consumer, before a poll() that ended in the pause."""
    for seed in range(1, 11):
        machine = EarlyThread("s")
        world = paused_world(seed, [700], machine)
        world.resume(world.hosts["s"])
        run_plain(world, 2 * SECOND)
        assert " ".join(name for name, _ in machine.fired) == "b1 b2 a1 a2"


def test_without_draws_a_resumed_process_takes_its_events_at_once_in_their_order() -> None:
    """As in the set calm."""
    world, machine = two_threads(1, None)
    world.resume(world.hosts["s"])
    run_plain(world, 2 * SECOND)

    assert machine.fired == [(name, SECOND) for name in ("a1", "b1", "a2", "b2")]


def test_a_process_that_is_paused_again_before_it_woke_stays_paused() -> None:
    """The first end of the pause has no effect any more."""
    world, machine = two_threads(1, [50, 700])
    world.resume(world.hosts["s"])
    run_plain(world, SECOND + 100)
    world.pause(world.hosts["s"])
    run_plain(world, 2 * SECOND)
    assert machine.fired == []

    world.resume(world.hosts["s"])
    run_plain(world, 3 * SECOND)
    assert {at_us for _, at_us in machine.fired} == {2 * SECOND + 50}


def test_a_process_that_dies_before_it_woke_stays_dead() -> None:
    world, machine = two_threads(1, [700])
    world.resume(world.hosts["s"])
    world.take_down(world.hosts["s"], Condition.CRASHED)
    run_plain(world, 2 * SECOND)

    assert machine.fired == []
    assert world.hosts["s"].condition is Condition.CRASHED


def test_a_crash_forgets_timers_and_memory_and_the_next_life_starts_anew() -> None:
    world, _ = sleeper_world()
    world.tell("s", SetRate(records_per_s=100))
    run_plain(world, 10)
    world.take_down(world.hosts["s"], Condition.CRASHED)
    world.start(world.hosts["s"])
    run_plain(world, SECOND)

    assert sleeper(world).fired == []
    assert world.hosts["s"].life == 2


def test_an_append_that_was_answered_survives_a_power_cut() -> None:
    world = small_world()
    call(world, 1000)
    run_plain(world, SECOND)
    world.take_down(world.hosts["b0"], Condition.SILENT)

    assert world.hosts["b0"].disk.logs["log"] == [(b"k", b"1000")]


def test_an_append_on_its_way_survives_a_power_cut_in_some_seeds_and_not_in_others() -> None:
    outcomes = set()
    for seed in range(20):
        world = small_world(seed=seed, latency_us=(1000, 1000))
        world.append_us = 10_000
        call(world, 1000)
        run_plain(world, 5_000)
        world.take_down(world.hosts["b0"], Condition.SILENT)
        outcomes.add(len(world.hosts["b0"].disk.logs.get("log", [])))
        run_plain(world, SECOND)
        assert caller(world).answers == []

    assert outcomes == {0, 1}


def test_a_dying_process_leaves_its_writes_to_the_system() -> None:
    world = small_world(latency_us=(1000, 1000))
    world.append_us = 10_000
    call(world, 1000)
    run_plain(world, 5_000)
    world.take_down(world.hosts["b0"], Condition.CRASHED)

    assert world.hosts["b0"].disk.logs["log"] == [(b"k", b"1000")]


class _Writer(Machine):
    """Appends to three logs with two tokens; remembers the end of each."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ends: list[tuple[int, int]] = []

    def handle(self, event: Event) -> None:
        match event:
            case Told(command=SetRate(records_per_s=token)):
                for log in ("a", "b"):
                    self.append(log, ((b"k", b"v"),), token)
                self.append("c", ((b"k", b"v"),), token + 1)
            case Appended(token=token):
                self.ends.append((token, self.now_us))
            case _:
                pass


def test_one_appended_follows_the_last_append_of_a_token() -> None:
    """``Append``: the appends of one step to several logs may share a token."""
    world = World(Seeded(1), TraceWriter(None, HEADER), latency_us=(200, 2_000))
    world.append_of = lambda host, log: {"a": 700, "b": 300, "c": 500}[log]
    world.add_host("w", {"w": lambda life: _Writer("w")})
    world.start(world.hosts["w"])
    world.tell("w", SetRate(records_per_s=1))
    run_plain(world, SECOND)

    actor = world.hosts["w"].actors["w"]
    assert isinstance(actor.machine, _Writer)
    assert actor.machine.ends == [(2, 500), (1, 700)]
    assert world.hosts["w"].disk.logs == {name: [(b"k", b"v")] for name in "abc"}
    assert not actor.appends


def test_a_started_host_finds_its_logs_or_an_empty_disk() -> None:
    world, _ = sleeper_world()
    world.hosts["s"].disk.logs["data"] = [(b"", b"x")]
    world.take_down(world.hosts["s"], Condition.CRASHED)
    world.start(world.hosts["s"])
    run_plain(world, SECOND)
    assert sleeper(world).loaded == [Loaded("data", ((b"", b"x"),))]

    world.take_down(world.hosts["s"], Condition.CRASHED)
    world.start(world.hosts["s"], keep_disk=False)
    run_plain(world, 2 * SECOND)
    assert sleeper(world).loaded == []


def test_failed_writes_are_told_to_their_writer_and_leave_no_trace_on_disk() -> None:
    world = small_world(latency_us=(1000, 1000))
    world.append_us = 10_000
    call(world, 1000)
    run_plain(world, 5_000)
    world.fail_writes(world.hosts["b0"], "log", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    run_plain(world, SECOND)

    assert world.hosts["b0"].disk.logs.get("log", []) == []
    assert echo(world).parked == {}


def test_a_machine_that_finishes_ends_its_process() -> None:
    world, _ = sleeper_world()
    watcher = Watcher()
    world.watch([watcher])
    world.tell("s", Close())
    run_plain(world, SECOND)

    assert world.hosts["s"].condition is Condition.CLOSED
    assert [type(seen.fact) for seen in watcher.facts] == [HostDown]


@pytest.mark.parametrize("loop", [run_plain, run_trio])
def test_a_broken_machine_ends_the_run_with_its_event_as_the_last_step(loop: object) -> None:
    class Broken(Machine):
        def handle(self, event: Event) -> None:
            assert not isinstance(event, TimerFired), "on purpose"
            self.start_timer(("x",), 5)

    world = World(Seeded(1), TraceWriter(None, HEADER), latency_us=(200, 2_000))
    world.add_host("x", {"x": lambda life: Broken("x")})
    world.start(world.hosts["x"])

    with pytest.raises(MachineBroke, match=r"x at 5 us, step 2: AssertionError: on purpose"):
        loop(world, SECOND)  # type: ignore[operator]


def test_facts_of_the_world_reach_the_observers() -> None:
    world = small_world(start=False)
    watcher = Watcher()
    world.watch([watcher])
    world.start(world.hosts["c1"])

    assert [seen.fact for seen in watcher.facts] == [HostStarted(host="c1", life=1, kept_disk=True)]


def test_start_comes_first_in_every_life() -> None:
    world = small_world(beat_us=100_000)
    run_plain(world, SECOND)

    assert caller(world).seen[0] == Told(Start())


class Keeper(Caller):
    """Writes to a log of its own whenever it is told a rate; remembers what it was told at its start."""

    def call(self, number: int) -> None:
        self.append(f"{self.name} {number}", ((b"", str(number).encode()),), number)


def test_actors_of_one_kind_share_a_host_and_each_is_told_its_own_logs() -> None:
    """A host's actors are keyed by name; none of them needs to be named like the host."""
    world = World(Seeded(1), TraceWriter(None, HEADER), latency_us=(200, 2_000))
    names = ("h/one", "h/two")
    host = world.add_host("h", {name: lambda life, name=name: Keeper(name) for name in names})
    world.start(host)
    for number, name in enumerate(names):
        for _ in range(2):
            call(world, number, name)
            run_plain(world, world.now_us + 10_000)
    world.take_down(host, Condition.CRASHED)
    world.start(host)
    run_plain(world, world.now_us + 10_000)

    for number, name in enumerate(names):
        machine = host.actors[name].machine
        assert isinstance(machine, Keeper)
        written = ((b"", str(number).encode()),) * 2
        assert machine.seen == [Loaded(f"{name} {number}", written), Told(Start())]


def test_two_actors_never_write_to_one_log() -> None:
    world = World(Seeded(1), TraceWriter(None, HEADER), latency_us=(200, 2_000))
    host = world.add_host("h", {name: lambda life, name=name: Sharer(name) for name in ("h/one", "h/two")})
    world.start(host)
    call(world, 1, "h/one")
    run_plain(world, 10_000)
    call(world, 1, "h/two")

    with pytest.raises(AssertionError, match="h/two writes to the log shared of h/one"):
        run_plain(world, 20_000)


class Sharer(Caller):
    """Writes to a log that others may write to as well."""

    def call(self, number: int) -> None:
        self.append("shared", ((b"", b""),), number)
