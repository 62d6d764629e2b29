"""What happens to hosts: they die, stand still, lose their time or the end of their disk."""

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
    "a host loses power or its process dies; it may come back",
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
    """A host dies. ``power``: silently, unflushed disk writes lost; ``process``: its connections are reset at once.

    Neither says goodbye: no LeaveGroup, no commit. After ``for_us`` it starts again from its disk. "zk" is all servers
    of the metadata store at once: what it has answered is on its disks.
    """

    host: AnyHost
    mode: Annotated[str, OneOf("power", "process")] = "power"
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"crash {self.host} ({self.mode}){for_words(self.for_us, '')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.take_down(self.host, Condition.SILENT if self.mode == "power" else Condition.CRASHED)
        if isinstance(host, str):
            return host
        if self.for_us:
            stage.lasts(stage.cluster.down_us(host.name, self.for_us), lambda: stage.cluster.start(host.name))
        return None


@action(
    "restart",
    "a host starts again, with its disk or without",
    drawn=NEVER,
    drawn_replicated=(lambda draw: Restart(host=draw.broker(), keep_disk=False),),
)
class Restart:
    """A host that is down starts (one that runs is power cut first), from its disk or from an empty one."""

    host: AnyHost
    keep_disk: bool = True

    def words(self) -> str:
        """See ``Action``."""
        return f"restart {self.host}" + ("" if self.keep_disk else " with an empty disk")

    def check(self, table: Table, known: Known) -> None:
        """See ``Action``."""
        if self.host == STORE and not self.keep_disk:
            table.problem("keep_disk", f'the disks of "{STORE}" hold the cluster: it starts again with them only')

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        if host.running:
            stage.world.take_down(host, Condition.SILENT)
        stage.cluster.start(host.name, keep_disk=self.keep_disk)
        return None


@action(
    "pause",
    "a host stands still; its mail and timers wait (GC pause)",
    drawn=(lambda draw: Pause(host=draw.member(), for_us=draw.span()),),
    drawn_replicated=(lambda draw: Pause(host=draw.broker_or_controller(), for_us=draw.span()),),
)
class Pause:
    """A host stands still (a stop-the-world collection): mail and timers wait for it, then come in order."""

    host: AnyHost
    for_us: int

    def words(self) -> str:
        """See ``Action``."""
        return f"pause {self.host}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
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
    """A host's clock runs too fast (positive) or too slow by this many parts per million."""

    host: AnyHost
    ppm: Annotated[int, Bounds(-1_000_000)]
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"clock of {self.host} drifts by {self.ppm:+,} ppm{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        world = stage.world
        drifts, keeps_time = lambda: host.drift(world.now_us, self.ppm), lambda: host.drift(world.now_us, 0)
        stage.lasts(self.for_us, stage.puts(host.name, drifts, keeps_time))
        return None


def a_speed(action: "SlowDisk | BandwidthLimit", table: Table, known: Known) -> None:
    """See ``Action.check``: a throughput that something is limited to."""
    try:
        if bytes_per_second(action.speed) < 1:
            table.problem("speed", "must be at least 1B/s")
    except ValueError as error:
        table.problem("speed", str(error))


def _limit(stage: Stage, host: Host, was: int, limited: "SlowDisk | BandwidthLimit", to: Callable[[int], None]) -> None:
    """Limit something of a host with ``to``, later to what it was (bytes per second; 0: not at all)."""
    speed = bytes_per_second(limited.speed)
    stage.lasts(limited.for_us, stage.puts(host.name, lambda: to(speed), lambda: to(was)))


@action("slow-disk", "a broker's disk writes slowly", drawn=NEVER)
class SlowDisk:
    """What is written to a broker's disk takes its time: so many bytes a second, "5MB/s", one write after the other.

    How large records are is what the scenario says of their topics. What was asked of the disk before is not slower.
    """

    host: BrokerHost
    speed: str
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"disk of {self.host} writes {self.speed}{for_words(self.for_us)}"

    check = a_speed

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        was = host.disk_speed.bytes_per_s if host.disk_speed is not None else 0
        _limit(stage, host, was, self, lambda bytes_per_s: stage.world.limit_disk(host, bytes_per_s))
        return None


@action("limit-bandwidth", "a host's network card passes little", drawn=NEVER)
class BandwidthLimit:
    """What carries records shares so many bytes a second, "5MB/s", through a host's network card, each way."""

    host: AnyHost
    speed: str
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"network card of {self.host} passes {self.speed}{for_words(self.for_us)}"

    check = a_speed

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host, network = stage.host(self.host), stage.world.network
        if isinstance(host, str):
            return host
        was = network.bandwidth.limit_of(host.name) if network.bandwidth is not None else 0
        _limit(stage, host, was, self, lambda bytes_per_s: network.limit_bandwidth(host.name, bytes_per_s))
        return None


@action(
    "lose-disk-tail",
    "a power cut that also takes the last records of a log",
    drawn=NEVER,
    drawn_replicated=(
        lambda draw: LoseDiskTail(host=draw.broker(), records=draw.chance.between(1, 50), for_us=draw.span()),
    ),
)
class LoseDiskTail:
    """A power cut that takes the last ``records`` records of one log ("" = of each) with it, flushed or not."""

    host: BrokerHost
    records: int
    log: str = ""
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        lost = f"last {self.records} records of {self.log or 'each log'} lost"
        return f"power cut at {self.host}, {lost}{for_words(self.for_us, '')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
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
    "a log directory of a broker fails; its replicas there are offline",
    drawn=NEVER,
    drawn_replicated=(lambda draw: FailedLogDir(host=draw.broker(), for_us=draw.span()),),
    replicated=True,
)
class FailedLogDir:
    """A log directory (0 = the first) of a broker cannot be written or read any more (KIP-112).

    The replicas that lie there are offline: the broker tells the controller, which elects other leaders and takes them
    out of the ISRs. A broker that has no other directory dies. After ``for_us`` the directory is repaired, with what
    lay there, and the broker's process is started again: until then it does not look.
    """

    host: BrokerHost
    log_dir: Annotated[int, Bounds(0)] = 0
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"log directory {self.log_dir} of {self.host} fails{for_words(self.for_us)}"

    def check(self, table: Table, known: Known) -> None:
        """See ``Action``."""
        counts = dict(known.log_dirs)
        count = counts.get(self.host, max(counts.values(), default=1))
        if self.log_dir >= count:
            whose = self.host if self.host in counts else "a broker"
            table.problem("log_dir", f"{whose} has {count}, counted from 0: see log_dirs of [brokers]")

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
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
    """The group's coordinator loses power; another broker takes its partition over, if there is one."""

    group: GroupName
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"power cut at the coordinator of {self.group}{for_words(self.for_us, '')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        name = stage.cluster.coordinator_of(self.group)
        host = stage.take_down(name, Condition.SILENT) if name else "the group has no coordinator now"
        if isinstance(host, str):
            return host
        stage.cluster.expect_takeover(self.group)
        if self.for_us:
            stage.lasts(stage.cluster.down_us(host.name, self.for_us), lambda: stage.cluster.start(host.name))
        return None


@action("heal", "everything that lasts ends", drawn=NEVER)
class Heal:
    """All that lasts ends now: splits, rules, drifts, pauses; hosts that are to come back start."""

    def words(self) -> str:
        """See ``Action``."""
        return "heal"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        stage.end_all()
        return None
