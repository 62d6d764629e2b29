"""Run the recorded plans again with a real broker and real clients on this machine, and record them in the same format.

The timeline of the plan's course has the actions and their times. Members share one JVM. A member whose process
is killed or paused has a separate JVM for each life. Each plan has its own broker on loopback, and all processes end
with the plan.
"""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.text.kafka_keys import texts_of
from kemu.protocol.config import BrokerConfig
from lab.conformance import plans
from lab.conformance.course import HEARTBEAT, Course, totals_by_member
from lab.conformance.maven import RealKafkaError
from lab.conformance.real_broker import KRAFT_SINCE, RealBroker, release_of
from lab.conformance.real_cluster import STARTED_S, JavaProcesses, RealCluster
from lab.conformance.timing import ASSIGNORS, Effect

SOURCE = Path(__file__).with_name("java") / "PlanMembers.java"
SETTINGS: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "3000"}
"""Settings of the brokers in the recordings."""
SETTINGS_OF_SEVERAL: Mapping[str, str] = {
    **SETTINGS,
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "10000",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}
SEVERAL = 3
ASSIGNORS_PACKAGE = "org.apache.kafka.clients.consumer"
OFFSETS_TOPIC_REPLICAS = "0,1,2"
"""The replicas of the offsets topic. Broker 0 coordinates every group; after a failure of broker 0, broker 1 does.
Broker 0 starts first and is the controller."""
TICK_MS = 2000
MEMBERS_HEAP_MB = 256
ENDED = "the process of the members has ended"
SETTLED_S = 5.0
"""Time between the start of the broker and the start of the first member, in seconds."""
_FIRST_GROUP = '"who":"before","event":"assigned"'
LATEST_JOIN_MS = 5000
"""Longest time from the start of a member until its first JoinGroup, or its first heartbeat of the consumer protocol,
in a valid run."""
_CONSUMER_PROTOCOL = "group__protocol=consumer"
_START = re.compile(r"start (\w+)(?: group=(\S+))?(?: topics=(\S+))?((?: \S+=\S+)*)$")
_CLOSE = re.compile(r"close (\w+)$")
_KILL = re.compile(r"kill -9 of the process of (\w+)$")
_STILL = re.compile(r"(\w+) stands still \(SIGSTOP\)$")
_ON = re.compile(r"(\w+) goes on \(SIGCONT\)$")
_GROWS = re.compile(r"topic grows from \d+ to (\d+) partitions$")
_STOPS = re.compile(r"SIGTERM (?:to )?(the broker|broker (\d))(?: \(clean shutdown\))?$")
_KILLS_BROKER = re.compile(r"kill -9 (broker (\d))(?: \(the controller\))?$")
_STARTS = re.compile(r"(the broker|broker (\d)) is started again$")
_STALLS = re.compile(r"(\w+) does not poll for (\d+) ms$")
_SUBSCRIBES = re.compile(r"(\w+) subscribes to (\S+)$")
_RATE = re.compile(r"(\S+) gets (\d+) records/s$")
_DELETES_GROUP = re.compile(r"delete group (\S+)$")
_DELETES_OFFSETS = re.compile(r"delete offsets of group (\S+) in (\S+)$")
_SEEN = re.compile(r"(the broker|broker \d) has (ended|started)$")
"""Pattern of timeline rows about events. A live run records an event when the event occurs."""
_END = re.compile(r"end\b")
_DONE = (
    *(_END, _START, _CLOSE, _KILL, _STILL, _ON, _GROWS, _STOPS, _KILLS_BROKER, _STARTS),
    *(_STALLS, _SUBSCRIBES, _RATE, _DELETES_GROUP, _DELETES_OFFSETS),
)


def why_not_live(course: Course, release: str) -> str | None:
    """The reason why a plan cannot run on this release, such as an unknown action in its timeline; or None."""
    for _, what in course.timeline:
        if not any(pattern.match(what) for pattern in (*_DONE, _SEEN)):
            return f'"{what}" is not done live'
    if _several(course) and release_of(release) >= KRAFT_SINCE:
        return "it is about brokers that watch ZooKeeper, which Kafka has not had since 4.0"
    if any(_CONSUMER_PROTOCOL in what for _, what in course.timeline) and release_of(release) < KRAFT_SINCE:
        return "it is about the consumer protocol, which Kafka has since 4.0"
    if any(_STARTS.match(what) for _, what in course.timeline) and release_of(release) >= KRAFT_SINCE:
        return (
            "it is about a lone broker that comes back with ZooKeeper; since 4.0 its controller closes and starts with"
            " it, and its old registration has to end first (broker.session.timeout.ms)"
        )
    return None


def too_busy(course: Course) -> str:
    """The reason why the machine was too busy during a run, so that the run is no evidence; "" for a valid run."""
    for at_ms, what in course.timeline:
        match = _START.match(what)
        row = f"{Effect.JOINS} {match[1]}" if match else ""
        felt = [felt_ms for felt_ms, effect in course.took_effect if effect == row and felt_ms >= at_ms]
        totals = totals_by_member(course)
        if felt and not any(totals.get((str(match and match[1]), api)) for api in ("JoinGroup", HEARTBEAT)):
            return f"{match and match[1]} never joined"
        if felt and felt[0] - at_ms > LATEST_JOIN_MS:
            return f"{match and match[1]} joined {(felt[0] - at_ms) / 1000:.1f} s after its start"
    return ""


def _several(course: Course) -> bool:
    """Whether a plan has several brokers. The timeline of such a plan names brokers."""
    return any(match[2] for _, what in course.timeline if (match := _STOPS.match(what) or _KILLS_BROKER.match(what)))


class _OneBroker:
    """The only broker of a plan."""

    replication = 1
    names = ("server.log", "request.log")

    def __init__(self, release: str, libs: Path, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._broker = RealBroker(release, libs, folder, {**SETTINGS, **settings}, records=True)

    def __enter__(self) -> "_OneBroker":
        self._broker.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broker.__exit__(kind, error, trace)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self._broker.port}"

    def start(self, broker: int) -> None:
        self._broker.start()

    def stop(self, broker: int) -> None:
        self._broker.stop()

    def kill(self, broker: int) -> None:
        raise AssertionError("no plan kills its only broker")

    def logs(self) -> dict[str, Path]:
        """Name of a log in the recording -> log file."""
        return {name: self._folder / "logs" / name for name in self.names}


class _SeveralBrokers:
    """Three brokers and ZooKeeper."""

    replication = SEVERAL

    def __init__(self, release: str, libs: Path, folder: Path, settings: Mapping[str, str]) -> None:
        every = {**SETTINGS_OF_SEVERAL, **settings}
        self._cluster = RealCluster(libs, folder, SEVERAL, every, tick_ms=TICK_MS)

    def __enter__(self) -> "_SeveralBrokers":
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

    @property
    def servers(self) -> str:
        return self._cluster.bootstrap

    def start(self, broker: int) -> None:
        self._cluster.start(broker)

    def stop(self, broker: int) -> None:
        self._cluster.stop(broker)

    def kill(self, broker: int) -> None:
        self._cluster.kill(broker)

    def logs(self) -> dict[str, Path]:
        """Name of a log in the recording -> log file."""
        kinds = {"server": "server", "requests": "request"}
        return {
            f"broker{broker}-{name}.log": self._cluster.log(broker, kind)
            for broker in range(SEVERAL)
            for kind, name in kinds.items()
        }


def compile_members(libs: Path, folder: Path) -> Path:
    """Compile the program whose threads are the members; return the folder of its classes.

    Raises:
        RealKafkaError: ``javac`` is missing or failed.
    """
    if shutil.which("javac") is None:
        raise RealKafkaError("running plans needs javac, which is not on the path")
    classes = folder / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{libs}/*", str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RealKafkaError(f"javac: {done.stderr.strip()[:300]}")
    return classes


class _MembersProcess:
    """A JVM that runs members."""

    def __init__(self, processes: JavaProcesses, classes: Path, servers: str, callbacks: Path) -> None:
        self._process = processes.talking(
            "PlanMembers", [servers, str(callbacks)], classes, heap_mb=MEMBERS_HEAP_MB, errors=callbacks.stem
        )
        self._answered()

    def tell(self, order: str) -> None:
        """Execute one command of the program.

        Raises:
            RealKafkaError: the command failed.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()
        except OSError:
            raise RealKafkaError(f'"{order}": {ENDED}') from None
        self._answered(order)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def _answered(self, order: str = "start") -> None:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if answer != "ok":
            raise RealKafkaError(f'"{order}": {answer or ENDED}')


class LivePlan:
    """One plan with a real Kafka.

    Args:
        folder: folder for the recording, and for the broker's data during the plan.
    """

    def __init__(self, release: str, libs: Path, classes: Path, course: Course, facts: Path, folder: Path) -> None:
        self._release = release
        self._classes = classes
        self._course = course
        self._folder = folder
        scenario = plans.read_plan_scenario(facts, course.plan)
        topics = scenario.topics
        kind = _SeveralBrokers if _several(course) else _OneBroker
        settings = dict(text.split("=", 1) for text in texts_of(scenario.brokers.config, BrokerConfig))
        real = {key: value for key, value in settings.items() if not key.startswith("emulated.")}
        self._brokers: _OneBroker | _SeveralBrokers = kind(release, libs, folder / "broker", real)
        self._processes = JavaProcesses(libs, folder / "members")
        self._settings = _settings_of(next(iter(scenario.groups.values())))
        self._group = next(iter(scenario.groups))
        self._rates = {name: topic.records_per_s for name, topic in topics.items() if topic.records_per_s}
        self._topic = f"orders-{course.plan}-1"
        self._partitions = {self._named(name): spec.partitions for name, spec in topics.items()}
        whole = {
            match.group(1) for _, what in course.timeline for each in (_KILL, _STILL) if (match := each.match(what))
        }
        self._alone = whole
        self._of: dict[str, _MembersProcess] = {}
        self._began = 0.0
        self._rows: list[str] = []

    def run(self, say: Callable[[str], None]) -> None:
        """Execute the timeline from the first start to the end.

        Raises:
            RealKafkaError: a process did not start, or an action failed.
        """
        with self._brokers, self._processes:
            servers, replication = self._brokers.servers, self._brokers.replication
            shared = _MembersProcess(self._processes, self._classes, servers, self._folder / "callbacks.jsonl")
            if replication > 1:
                shared.tell(
                    f"offsets-topic {SETTINGS_OF_SEVERAL['offsets.topic.num.partitions']} {OFFSETS_TOPIC_REPLICAS}"
                )
            for topic, partitions in self._partitions.items():
                shared.tell(f"topic {topic} {partitions} {replication}")
            self._make_offsets_topic(shared)
            time.sleep(SETTLED_S)
            for topic, rate in self._rates.items():
                shared.tell(f"load {self._named(topic)} {rate}")
            waiting = {name: self._alone_process(name, 1) for name in sorted(self._alone)}
            say(f"{self._course.plan}: {self._course.until_ms / 1000:g} s on Kafka {self._release}")
            self._began = time.monotonic()
            self._row("T0: first member is started")
            for at_ms, what in self._course.timeline:
                if _SEEN.match(what):
                    continue
                time.sleep(max(self._began + at_ms / 1000 - time.monotonic(), 0))
                self._do(what, shared, waiting)
            shared.tell("end")
        self._keep()

    def _do(self, what: str, shared: _MembersProcess, waiting: dict[str, _MembersProcess]) -> None:
        self._row(what)
        if match := _STOPS.match(what):
            self._brokers.stop(int(match[2] or 0))
            self._row(f"{match[1]} has ended")
        elif match := _KILLS_BROKER.match(what):
            self._brokers.kill(int(match[2]))
        elif match := _STARTS.match(what):
            self._brokers.start(int(match[2] or 0))
            self._row(f"{match[1]} has started")
        elif match := _START.match(what):
            name, group, own, settings = match.groups()
            settings = settings.replace("__", ".") or ("" if group else self._settings)
            lives = sum(row.split("| ")[3].startswith(f"start {name}") for row in self._rows)
            process = shared
            if name in self._alone:
                process = waiting.pop(name) if name in waiting else self._alone_process(name, lives)
            self._of[name] = process
            topics = self._all_named(own) if own else ",".join(self._partitions)
            process.tell(f"start {name} {topics} group.id={self._group_id(group or self._group)}{settings}")
        elif match := _CLOSE.match(what):
            self._of[match.group(1)].tell(what)
        elif match := _GROWS.match(what):
            shared.tell(f"grow {self._topic} {match.group(1)}")
        elif match := _STALLS.match(what):
            self._of[match[1]].tell(f"stall {match[1]} {match[2]}")
        elif match := _SUBSCRIBES.match(what):
            self._of[match[1]].tell(f"subscribe {match[1]} {self._all_named(match[2])}")
        elif match := _RATE.match(what):
            shared.tell(f"load {self._named(match[1])} {match[2]}")
        elif match := _DELETES_GROUP.match(what):
            shared.tell(f"delete-group {self._group_id(match[1])}")
        elif match := _DELETES_OFFSETS.match(what):
            topic = self._named(match[2])
            shared.tell(f"delete-offsets {self._group_id(match[1])} {topic} {self._partitions[topic]}")
        else:
            for pattern, number in ((_KILL, signal.SIGKILL), (_STILL, signal.SIGSTOP), (_ON, signal.SIGCONT)):
                if match := pattern.match(what):
                    self._of[match.group(1)].send(number)

    def _group_id(self, group: str) -> str:
        return f"{group}-{self._course.plan}-1"

    def _named(self, topic: str) -> str:
        return f"{self._topic}{topic.removeprefix('orders')}"

    def _all_named(self, topics: str) -> str:
        return ",".join(self._named(topic) for topic in topics.split(","))

    def _alone_process(self, name: str, life: int) -> _MembersProcess:
        callbacks = self._folder / f"callbacks-{name}-{life}.jsonl"
        return _MembersProcess(self._processes, self._classes, self._brokers.servers, callbacks)

    def _make_offsets_topic(self, shared: _MembersProcess) -> None:
        """Run an earlier group: the first group of a cluster waits for the creation of ``__consumer_offsets``.

        Raises:
            RealKafkaError: the group gets no assignment.
        """
        protocols = {row for _, what in self._course.timeline for row in re.findall(r"group__protocol=\S+", what)}
        own = "".join(f" {row.replace('__', '.')}" for row in sorted(protocols)[:1])
        shared.tell(f"start before {self._topic} group.id=before{own}")
        deadline = time.monotonic() + STARTED_S
        callbacks = self._folder / "callbacks.jsonl"
        while not callbacks.exists() or _FIRST_GROUP not in callbacks.read_text(encoding="utf-8"):
            if time.monotonic() > deadline:
                raise RealKafkaError(f"the first group of the cluster got no assignment in {STARTED_S} s")
            time.sleep(0.2)
        time.sleep(SETTLED_S)
        shared.tell("close before")

    def _row(self, what: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        self._rows.append(f"| {time.monotonic() - self._began:.3f} | {now}Z | {what} |")

    def _keep(self) -> None:
        """Write the recording: the executed plan, and each broker's two logs."""
        summary = f"Kafka {self._release}, run live: {self._course.source.partition(': ')[2] or self._course.plan}"
        rows = "\n".join(["| t (s) | UTC | what |", "|---|---|---|", *self._rows])
        (self._folder / "plan.md").write_text(f"# {self._course.plan}\n\n{summary}\n\n{rows}\n", encoding="utf-8")
        for name, path in self._brokers.logs().items():
            shutil.copyfile(path, self._folder / name)
        shutil.rmtree(self._folder / "broker")
        shutil.rmtree(self._folder / "members")


def _settings_of(group: GroupSpec) -> str:
    """The configuration of a scenario's members, for a timeline without settings."""
    classes = {name: f"{ASSIGNORS_PACKAGE}.{kind}" for kind, name in ASSIGNORS.items()}
    settings = list(texts_of(group.config))
    if group.assignors:
        settings.append(f"partition.assignment.strategy={','.join(classes[name] for name in group.assignors)}")
    return "".join(f" {setting}" for setting in settings)
