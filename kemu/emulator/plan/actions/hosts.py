"""Faults of hosts: crashes, pauses, clock drift, and damage to disks."""

# mypy: no-implicit-reexport

from collections.abc import Callable
from typing import Annotated

from kemu.emulator.engine.hosts import Condition, Host
from kemu.emulator.plan.action import (
    NEVER,
    AnyHost,
    Bounds,
    BrokerHost,
    GroupName,
    OneOf,
    action,
    for_words,
    nothing_more,
)
from kemu.emulator.plan.draw import SECOND
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table
from kemu.emulator.text.units import bytes_per_second
from kemu.protocol.names import STORE


@action(
    "crash",
    "a host loses power or its process dies; it may restart",
    drawn=(
        lambda draw: Crash(host=draw.member(), mode="power", for_us=draw.span()),
        lambda draw: Crash(host=draw.member(), mode="process", for_us=draw.span()),
    ),
    drawn_replicated=(
        lambda draw: Crash(host=draw.broker(), mode="power", for_us=draw.span()),
        lambda draw: Crash(host=draw.broker(), mode="process", for_us=draw.span(100_000, 3 * SECOND)),
        lambda draw: Crash(host="controller", mode="power", for_us=draw.span()),
        lambda draw: Crash(host=STORE, mode=draw.one_of(("power", "process")), for_us=draw.span()),
    ),
)
class Crash:
    """Crash a host. ``power``: silently, and unflushed disk writes are lost. ``process``: the host's connections are
    reset at once.

    A crashed member sends neither LeaveGroup nor a commit. After ``for_us`` the host starts again from its disk. "zk"
    stands for all servers of the metadata store, whose disks hold every answered write.
    """

    host: AnyHost
    mode: Annotated[str, OneOf("power", "process")] = "power"
    for_us: int = 0

    def words(self) -> str:
        return f"crash {self.host} ({self.mode}){for_words(self.for_us, '')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.take_down(self.host, Condition.SILENT if self.mode == "power" else Condition.CRASHED)
        if isinstance(host, str):
            return host
        if self.for_us:
            stage.lasts(stage.cluster.down_us(host.name, self.for_us), lambda: stage.cluster.start(host.name))
        return None


@action(
    "restart",
    "a host restarts with its disk or an empty disk",
    drawn=NEVER,
    drawn_replicated=(lambda draw: Restart(host=draw.broker(), keep_disk=False),),
)
class Restart:
    """Start a host that is down, from its disk or from an empty disk. A running host first loses power."""

    host: AnyHost
    keep_disk: bool = True

    def words(self) -> str:
        return f"restart {self.host}" + ("" if self.keep_disk else " with an empty disk")

    def check(self, table: Table, known: Known) -> None:
        if self.host == STORE and not self.keep_disk:
            table.problem("keep_disk", f'the disks of "{STORE}" hold the cluster: it starts again with them only')

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        if host.running:
            stage.world.take_down(host, Condition.SILENT)
        stage.cluster.start(host.name, keep_disk=self.keep_disk)
        return None


@action(
    "pause",
    "a host is paused; its messages and timers wait (GC pause)",
    drawn=(lambda draw: Pause(host=draw.member(), for_us=draw.span()),),
    drawn_replicated=(lambda draw: Pause(host=draw.broker_or_controller(), for_us=draw.span()),),
)
class Pause:
    """Pause a host, as in a stop-the-world collection. Messages and timers wait in order until the end of the pause."""

    host: AnyHost
    for_us: int

    def words(self) -> str:
        return f"pause {self.host}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        if host.condition is not Condition.UP:
            return f"{host.name} does not run"
        life = host.life
        stage.world.pause(host)

        def resume() -> None:
            if host.life == life:
                stage.world.resume(host)

        stage.lasts(self.for_us, resume)
        return None


@action("clock-drift", "a host's clock runs too fast or too slow", drawn=NEVER)
class ClockDrift:
    """Let a host's clock run too fast (positive) or too slow (negative) by ``ppm`` parts per million."""

    host: AnyHost
    ppm: Annotated[int, Bounds(-999_999, 1_000_000)]
    for_us: int = 0

    def words(self) -> str:
        return f"clock of {self.host} drifts by {self.ppm:+,} ppm{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        world = stage.world
        drifts, keeps_time = lambda: host.drift(world.now_us, self.ppm), lambda: host.drift(world.now_us, 0)
        stage.lasts(self.for_us, stage.puts(host.name, drifts, keeps_time))
        return None


def _a_speed(action: "SlowDisk | BandwidthLimit", table: Table, known: Known) -> None:
    """The ``check`` of a limited throughput."""
    try:
        if bytes_per_second(action.speed) < 1:
            table.problem("speed", "must be at least 1B/s")
    except ValueError as error:
        table.problem("speed", str(error))


def _limit(stage: Stage, host: Host, was: int, limited: "SlowDisk | BandwidthLimit", to: Callable[[int], None]) -> None:
    """Limit a host's throughput with ``to``, and later restore the throughput ``was`` (bytes per second; 0 for no
    limit).
    """
    speed = bytes_per_second(limited.speed)
    stage.lasts(limited.for_us, stage.puts(host.name, lambda: to(speed), lambda: to(was)))


@action("slow-disk", "a broker's disk writes slowly", drawn=NEVER)
class SlowDisk:
    """Limit the speed of a broker's disk in bytes per second ("5MB/s"); writes are sequential.

    The size of records is a setting of the scenario's topics. Earlier writes keep their speed.
    """

    host: BrokerHost
    speed: str
    for_us: int = 0

    def words(self) -> str:
        return f"disk of {self.host} writes {self.speed}{for_words(self.for_us)}"

    check = _a_speed

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        was = host.disk_speed.bytes_per_s if host.disk_speed is not None else 0
        _limit(stage, host, was, self, lambda bytes_per_s: stage.world.limit_disk(host, bytes_per_s))
        return None


@action("limit-bandwidth", "a host's bandwidth for records is limited", drawn=NEVER)
class BandwidthLimit:
    """Limit a host's network card for packets with records, in bytes per second ("5MB/s") in each direction."""

    host: AnyHost
    speed: str
    for_us: int = 0

    def words(self) -> str:
        return f"network card of {self.host} passes {self.speed}{for_words(self.for_us)}"

    check = _a_speed

    def apply(self, stage: Stage) -> Outcome:
        host, network = stage.host(self.host), stage.world.network
        if isinstance(host, str):
            return host
        was = network.bandwidth.limit_of(host.name) if network.bandwidth is not None else 0
        _limit(stage, host, was, self, lambda bytes_per_s: network.limit_bandwidth(host.name, bytes_per_s))
        return None


@action(
    "lose-disk-tail",
    "a power cut also destroys the last records of a log",
    drawn=NEVER,
    drawn_replicated=(
        lambda draw: LoseDiskTail(host=draw.broker(), records=draw.chance.between(1, 50), for_us=draw.span()),
    ),
)
class LoseDiskTail:
    """Cut a host's power and destroy the last ``records`` records of one log ("" for each log), flushed or not."""

    host: BrokerHost
    records: int
    log: str = ""
    for_us: int = 0

    def words(self) -> str:
        lost = f"last {self.records} records of {self.log or 'each log'} lost"
        return f"power cut at {self.host}, {lost}{for_words(self.for_us, '')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.take_down(self.host, Condition.SILENT)
        if isinstance(host, str):
            return host
        for log in [self.log] if self.log else sorted(host.disk.logs):
            stage.world.lose_tail(host, log, self.records)
        if self.for_us:
            stage.lasts(stage.cluster.down_us(host.name, self.for_us), lambda: stage.cluster.start(host.name))
        return None


@action(
    "fail-log-dir",
    "a log directory of a broker fails, and its replicas are offline",
    drawn=NEVER,
    drawn_replicated=(lambda draw: FailedLogDir(host=draw.broker(), for_us=draw.span()),),
    replicated=True,
)
class FailedLogDir:
    """Make a log directory (0 for the first) of a broker fail: the directory cannot be read or written (KIP-112).

    The directory's replicas are offline. The broker informs the controller, which elects other leaders and removes the
    replicas from the ISRs. A broker without another directory ends. After ``for_us`` the directory is repaired with its
    data, and the broker restarts to detect the repair.
    """

    host: BrokerHost
    log_dir: Annotated[int, Bounds(0)] = 0
    for_us: int = 0

    def words(self) -> str:
        return f"log directory {self.log_dir} of {self.host} fails{for_words(self.for_us)}"

    def check(self, table: Table, known: Known) -> None:
        counts = dict(known.log_dirs)
        count = counts.get(self.host, max(counts.values(), default=1))
        if self.log_dir >= count:
            whose = self.host if self.host in counts else "a broker"
            table.problem("log_dir", f"{whose} has {count}, counted from 0: see log_dirs of [brokers]")

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        outcome = stage.cluster.replicated.fail_log_dir(host.name, self.log_dir)
        if outcome is None:
            stage.lasts(self.for_us, lambda: stage.cluster.replicated.repair_log_dir(host.name, self.log_dir))
        return outcome


@action(
    "kill-coordinator",
    "the group's coordinator loses power",
    drawn=(lambda draw: KillCoordinator(group=draw.group(), for_us=draw.span(5 * SECOND)),),
)
class KillCoordinator:
    """Cut the power of the group's coordinator. Another live broker takes over the group's offsets partition."""

    group: GroupName
    for_us: int = 0

    def words(self) -> str:
        return f"power cut at the coordinator of {self.group}{for_words(self.for_us, '')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        name = stage.cluster.coordinator_of(self.group)
        host = stage.take_down(name, Condition.SILENT) if name else "the group has no coordinator now"
        if isinstance(host, str):
            return host
        stage.cluster.expect_takeover(self.group)
        if self.for_us:
            stage.lasts(stage.cluster.down_us(host.name, self.for_us), lambda: stage.cluster.start(host.name))
        return None


@action("heal", "all lasting effects end", drawn=NEVER)
class Heal:
    """End all lasting effects now, such as splits, drifts and pauses. A host whose downtime has an end starts now."""

    def words(self) -> str:
        return "heal"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        stage.end_all()
        return None
