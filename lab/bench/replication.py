"""Cost of a large replicated cluster: failovers in virtual and wall time, cost per step compared with a small cluster.

In each round a small cluster, and a group of ten on one broker without replication, run right before the large one.
Every ratio is the median over the rounds. Costs per step are CPU time; "wall_s" is elapsed time.

A failover is over when every partition that the dead broker led has another leader, and every live broker knows the new
leaders. After the failover, every client finds every leader.
"""

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from attrs import frozen

from kemu.emulator.cluster.replicated import ReplicatedCluster
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.network import Packet
from kemu.emulator.engine.world import World
from kemu.emulator.facts import Seen
from kemu.emulator.runner import Run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.protocol.messages.control import UpdateMetadata
from kemu.protocol.names import TopicPartition, broker_host, host_of
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import BecameController, BecameLeader, ControllerReady, SessionEnded
from lab.bench.engine import SECOND, steady

Say = Callable[[str], None]

WARM_US = 5 * SECOND
"""Time from the start until all partitions are replicated and no work is left, in us."""
BOUND_US = 60 * SECOND
"""Longest duration of a successful failover, in us."""
SLICE_US = 10_000
OFFSETS_PARTITIONS = 1
"""Number of partitions of ``__consumer_offsets``; one is enough for a cluster without groups."""


@frozen
class Size:
    """The size of a cluster: numbers of brokers, of partitions (``per_topic`` in each topic), and of replicas of each
    partition.
    """

    brokers: int
    partitions: int
    per_topic: int
    factor: int = 3

    @property
    def replicas(self) -> int:
        """Number of replicas of all partitions."""
        return self.partitions * self.factor

    def scenario(self, *, records_per_topic: int, seconds: int = 100) -> Scenario:
        """The scenario of this cluster, with a producer for each topic that sends at fixed intervals."""
        topic = TopicSpec(partitions=self.per_topic, records_per_s=records_per_topic)
        return Scenario(
            draws="calm",
            name=f"{self.brokers}-brokers-{self.partitions}-partitions",
            duration_us=seconds * SECOND,
            brokers=BrokersSpec(
                count=self.brokers,
                replication=ReplicationSpec(factor=self.factor, min_isr=2),
                config=(("offsets_topic_num_partitions", OFFSETS_PARTITIONS),),
            ),
            topics={f"t{number:02d}": topic for number in range(self.partitions // self.per_topic)},
            checks=ChecksSpec(heal_after_us=seconds * SECOND, stable_within_us=SECOND),
        )


SMALL = Size(brokers=3, partitions=12, per_topic=12)
LARGE = Size(brokers=20, partitions=2000, per_topic=100)
LARGE_IF_QUICK = Size(brokers=5, partitions=40, per_topic=20)


@frozen
class Failure:
    """The figures of one broker's power cut. Times are virtual ms since the crash. ``session_ms``: the store expired
    the broker's session.

    ``elected_ms``, ``ready_ms``: a new controller was elected, was ready (-1 if the controller survived). ``led_ms``:
    the last partition had another leader. ``known_ms``: every broker knew all leaders. ``wall_s``: elapsed time of the
    failover. ``busy_wall_s``: elapsed time after ``session_ms``.
    """

    led_by_it: int
    session_ms: float
    elected_ms: float
    ready_ms: float
    led_ms: float
    known_ms: float
    wall_s: float
    busy_wall_s: float
    steps: int
    step_us: float

    def rows(self) -> dict[str, Any]:
        """The figures of the failure by name."""
        busy_ms = self.known_ms - self.session_ms
        controller = {"elected_ms": self.elected_ms, "ready_ms": self.ready_ms} if self.elected_ms >= 0 else {}
        return {
            "partitions_led": self.led_by_it,
            "session_expired_ms": self.session_ms,
            **controller,
            "all_led_elsewhere_ms": self.led_ms,
            "all_brokers_know_ms": self.known_ms,
            "from_expiry_ms": round(busy_ms, 1),
            "wall_s": round(self.wall_s, 2),
            "wall_s_from_expiry": round(self.busy_wall_s, 3),
            "virtual_over_wall": round(self.known_ms / 1000 / self.wall_s, 1),
            "steps": self.steps,
            "step_us": round(self.step_us, 1),
        }


class FailoverWatch:
    """Observes the partitions that a broker led when it died."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._node = -1
        self._died_us = 0
        self.leaders: dict[TopicPartition, str] = {}
        self._lost: dict[TopicPartition, None] = {}
        self._untold: dict[str, dict[TopicPartition, None]] = {}
        """Live broker -> partitions whose new leader the broker does not know yet."""
        self.led = 0
        self.marks: dict[str, float] = {}
        """Event -> time of the event in ms since the crash."""

    def begin(self, broker: str, node: int, others: list[str]) -> None:
        """Note that the broker dies now."""
        self._node = node
        self._died_us = self._world.now_us
        self._lost = {at: None for at, leader in self.leaders.items() if leader == broker}
        self.led = len(self._lost)
        self._untold = {other: dict(self._lost) for other in others}

    @property
    def over(self) -> bool:
        """Whether all partitions have leaders that all brokers know."""
        return not self._untold

    def wants(self, kind: type) -> bool:
        """Whether facts of this type concern leaders."""
        return kind in (BecameLeader, BecameController, ControllerReady, SessionEnded)

    def see(self, seen: Seen) -> None:
        """Note a new leader or controller."""
        fact = seen.fact
        if type(fact) is BecameLeader:
            at = (fact.topic, fact.partition)
            self.leaders[at] = seen.actor
            if self._lost.pop(at, 0) is None and not self._lost:
                self._mark("led")
        elif self._node < 0:
            return
        elif type(fact) is BecameController:
            self._mark("elected")
        elif type(fact) is ControllerReady:
            self._mark("ready")
        elif type(fact) is SessionEnded and host_of(fact.client) == broker_host(self._node):
            self._mark("session")

    def arrives(self, packet: Packet, message: object) -> None:
        """Read the partitions' leaders in a message to a broker."""
        if type(message) is not UpdateMetadata:
            return
        untold = self._untold.get(packet.receiver)
        if untold is None:
            return
        for row in message.partition_states:
            if row.leader not in (-1, self._node):
                untold.pop((row.topic_name, row.partition_index), None)
        if not untold:
            del self._untold[packet.receiver]
            if not self._untold:
                self._mark("known")

    def _mark(self, what: str) -> None:
        self.marks[what] = (self._world.now_us - self._died_us) / 1000


def measure(say: Say, *, quick: bool = False) -> dict[str, Any]:
    """All figures by name; ``say`` shows progress."""
    large = LARGE_IF_QUICK if quick else LARGE
    rounds = 1 if quick else 3
    seconds = 3 if quick else 10
    gc.collect()
    result: dict[str, Any] = {
        "brokers": large.brokers,
        "partitions": large.partitions,
        "partition_replicas": large.replicas,
    }
    result |= _failures(say, large, rounds)
    result |= _steady(say, large, rounds, seconds)
    say("memory per partition replica")
    result["bytes_per_partition_replica"] = _bytes_per_replica(large)
    return result


# --- failures ------------------------------------------------------------------------------------------------------


def fail(size: Size, *, controller: bool) -> Failure:
    """Cut the power of the controller, or of the first other broker, during slow traffic."""
    one = Run(size.scenario(records_per_topic=5), seed=1)
    assert isinstance(one.cluster, ReplicatedCluster)
    cluster = one.cluster
    failover = FailoverWatch(one.world)
    one.world.watch((cluster, failover))
    one.world.network.watch_arrivals = failover.arrives
    found: list[Failure] = []

    def turns(world: World, until_us: int) -> None:
        run_plain(world, WARM_US)
        names = cluster.scenario.broker_names()
        active = cluster.resolve("controller")
        victim = active if controller else next(name for name in names if name != active)
        failover.begin(victim, names.index(victim), [name for name in names if name != victim])
        world.take_down(world.hosts[victim], Condition.SILENT)
        steps, began_s, began_cpu_s = world.steps, time.perf_counter(), time.process_time()
        expired_s = 0.0
        while not failover.over:
            assert world.now_us < WARM_US + BOUND_US, f"no failover within {BOUND_US} us"
            run_plain(world, world.now_us + SLICE_US)
            if not expired_s and "session" in failover.marks:
                expired_s = time.perf_counter()
        cpu_s, ended_s = time.process_time() - began_cpu_s, time.perf_counter()
        assert failover.led, f"{victim} led nothing"
        marks, steps = failover.marks, world.steps - steps
        found.append(
            Failure(
                led_by_it=failover.led,
                session_ms=marks["session"],
                elected_ms=marks.get("elected", -1),
                ready_ms=marks.get("ready", -1),
                led_ms=marks["led"],
                known_ms=marks["known"],
                wall_s=ended_s - began_s,
                busy_wall_s=ended_s - expired_s,
                steps=steps,
                step_us=cpu_s / steps * 1e6,
            )
        )

    broke = one.run_with(turns)
    assert not broke, broke
    return found[0]


def _failures(say: Say, large: Size, rounds: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, controller in (("controller_failover", True), ("broker_crash", False)):
        pairs = []
        for number in range(rounds):
            say(f"{name.replace('_', ' ')}, {number + 1} of {rounds}")
            pairs.append((fail(SMALL, controller=controller), fail(large, controller=controller)))
        result[name] = _median_of([big for _, big in pairs]).rows()
        result[f"{name}_small"] = _median_of([small for small, _ in pairs]).rows()
        result[f"{name}_step_vs_small"] = _ratio([(small.step_us, big.step_us) for small, big in pairs])
    return result


def _median_of(failures: list[Failure]) -> Failure:
    """The failure with the median CPU time. Virtual times and steps are the same in every round."""
    assert len({(each.steps, each.known_ms) for each in failures}) == 1, "rounds differ"
    return sorted(failures, key=lambda each: each.step_us)[len(failures) // 2]


# --- steady state --------------------------------------------------------------------------------------------------


class _Records:
    def __init__(self) -> None:
        self.appended = 0

    def wants(self, kind: type) -> bool:
        return kind is RecordsAppended

    def see(self, seen: Seen) -> None:
        self.appended += seen.fact.count


def flow(scenario: Scenario, seconds: int) -> dict[str, float]:
    """Records, steps, wall seconds, and CPU us per step of a settled cluster in ``seconds`` virtual seconds."""
    one = Run(scenario, seed=1)
    records = _Records()
    one.world.watch((one.cluster, records))
    found: dict[str, float] = {}

    def turns(world: World, until_us: int) -> None:
        run_plain(world, WARM_US)
        steps, appended, began_s, began_cpu_s = world.steps, records.appended, time.perf_counter(), time.process_time()
        run_plain(world, WARM_US + seconds * SECOND)
        cpu_s = time.process_time() - began_cpu_s
        steps = world.steps - steps
        found.update(
            records=records.appended - appended,
            steps=steps,
            wall_s=time.perf_counter() - began_s,
            step_us=cpu_s / steps * 1e6,
        )

    broke = one.run_with(turns)
    assert not broke, broke
    return found


def _steady(say: Say, large: Size, rounds: int, seconds: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, rate in (("idle", 0), ("flowing", 1)):
        groups, smalls, bigs = [], [], []
        group = steady(10, 20, WARM_US // SECOND + 10 * seconds, rate=10 * rate)
        for number in range(rounds):
            say(f"steady state, {name}, {number + 1} of {rounds}")
            groups.append(flow(group, 10 * seconds))
            smalls.append(flow(SMALL.scenario(records_per_topic=rate * SMALL.per_topic), 10 * seconds))
            bigs.append(flow(large.scenario(records_per_topic=rate * large.per_topic), seconds))
        rows = {key: statistics.median(big[key] for big in bigs) for key in bigs[0]}
        result[f"steady_{name}"] = {
            "virtual_over_wall": round(seconds / rows["wall_s"], 2),
            "records_per_virtual_s": round(rows["records"] / seconds),
            "steps_per_virtual_s": round(rows["steps"] / seconds),
            "step_us": round(rows["step_us"], 1),
            "step_us_small": round(statistics.median(small["step_us"] for small in smalls), 1),
        }
        result[f"steady_{name}_step_vs_small"] = _ratio(_costs(smalls, bigs))
        result[f"steady_{name}_small_vs_group_step"] = _ratio(_costs(groups, smalls))
    return result


def _costs(some: list[dict[str, float]], others: list[dict[str, float]]) -> list[tuple[float, float]]:
    return [(one["step_us"], other["step_us"]) for one, other in zip(some, others, strict=True)]


def _ratio(pairs: list[tuple[float, float]]) -> float:
    return round(statistics.median(second / first for first, second in pairs), 2)


# --- memory --------------------------------------------------------------------------------------------------------


def _bytes_per_replica(size: Size) -> int:
    """Memory of one more replica, with its share of the store, the controller's state and brokers' metadata."""

    def held(of: Size) -> int:
        gc.collect()
        tracemalloc.start()
        one = Run(of.scenario(records_per_topic=0), seed=1)
        one.world.watch((one.cluster,))
        one.run_with(lambda world, until_us: run_plain(world, WARM_US))
        gc.collect()
        size_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return size_bytes

    few = Size(size.brokers, size.per_topic, size.per_topic, size.factor)
    return (held(size) - held(few)) // (size.replicas - few.replicas)
