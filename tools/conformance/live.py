"""The recorded plans once more with a real broker and real clients on this machine: recorded in the same format.

What was done, and when, is the timeline of the plan's course. Members share one JVM, but for those whose process is
killed or stands still: each of their lives is a JVM of its own. Each plan has a broker of its own on loopback; all
processes end with the plan.
"""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from kemu.tools.conformance import plans
from kemu.tools.conformance.course import Course
from kemu.tools.conformance.maven import RealKafkaError
from kemu.tools.conformance.real_broker import RealBroker
from kemu.tools.conformance.real_cluster import JavaProcesses

SOURCE = Path(__file__).with_name("java") / "PlanMembers.java"
SETTINGS: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "3000"}
"""As the recordings were made."""
MEMBERS_HEAP_MB = 256
GONE = "the process of the members is gone"
SETTLED_S = 5.0
"""Between the broker's start and the first member."""
_START = re.compile(r"start (\w+)((?: \S+=\S+)*)$")
_CLOSE = re.compile(r"close (\w+)$")
_KILL = re.compile(r"kill -9 of the process of (\w+)$")
_STILL = re.compile(r"(\w+) stands still \(SIGSTOP\)$")
_ON = re.compile(r"(\w+) goes on \(SIGCONT\)$")
_GROWS = re.compile(r"topic grows from \d+ to (\d+) partitions$")
_STOPS = "SIGTERM to the broker (clean shutdown)"
_STARTS = "the broker is started again"
_SEEN = ("the broker has ended", "the broker has started", "end")
"""Rows that say what happened, not what was done; the first two are written down when they happen here."""


def why_not_live(course: Course) -> str | None:
    """Why a plan cannot be run here, or None: what its timeline does is to be known."""
    for _, what in course.timeline:
        if what in (_STOPS, _STARTS) or what.split(":")[0] in _SEEN:
            continue
        if not any(pattern.match(what) for pattern in (_START, _CLOSE, _KILL, _STILL, _ON, _GROWS)):
            return f'"{what}" is not done live'
    return None


def compile_members(libs: Path, folder: Path) -> Path:
    """The classes of the program whose threads are the members.

    Raises:
        RealKafkaError: there is no ``javac``, or it failed.
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
    """A JVM with members."""

    def __init__(self, processes: JavaProcesses, classes: Path, servers: str, callbacks: Path) -> None:
        self._process = processes.talking(
            "PlanMembers", [servers, str(callbacks)], classes, heap_mb=MEMBERS_HEAP_MB, errors=callbacks.stem
        )
        self._answered()

    def tell(self, order: str) -> None:
        """Have it done.

        Raises:
            RealKafkaError: it could not be.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()
        except OSError:
            raise RealKafkaError(f'"{order}": {GONE}') from None
        self._answered(order)

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        self._process.send_signal(number)

    def _answered(self, order: str = "start") -> None:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if answer != "ok":
            raise RealKafkaError(f'"{order}": {answer or GONE}')


class LivePlan:
    """One plan with a real Kafka.

    Args:
        folder: where the recording goes; the broker works in a folder below it while the plan runs.
    """

    def __init__(self, release: str, libs: Path, classes: Path, course: Course, facts: Path, folder: Path) -> None:
        self._release = release
        self._classes = classes
        self._libs = libs
        self._course = course
        self._folder = folder
        self._broker = RealBroker(release, libs, folder / "broker", SETTINGS, records=True)
        self._processes = JavaProcesses(libs, folder / "members")
        topics = plans.read_plan_scenario(facts, course.plan).topics
        self._topic = f"orders-{course.plan}-1"
        self._partitions = {
            f"{self._topic}{name.removeprefix('orders')}": spec.partitions for name, spec in topics.items()
        }
        whole = {
            match.group(1) for _, what in course.timeline for each in (_KILL, _STILL) if (match := each.match(what))
        }
        self._alone = whole
        self._of: dict[str, _MembersProcess] = {}
        self._began = 0.0
        self._rows: list[str] = []

    def run(self, say: Callable[[str], None]) -> None:
        """From the first start to the end, as the timeline has it.

        Raises:
            RealKafkaError: something did not start or was not done.
        """
        with self._broker, self._processes:
            servers = f"127.0.0.1:{self._broker.port}"
            shared = _MembersProcess(self._processes, self._classes, servers, self._folder / "callbacks.jsonl")
            for topic, partitions in self._partitions.items():
                shared.tell(f"topic {topic} {partitions}")
            self._make_offsets_topic(shared)
            time.sleep(SETTLED_S)
            waiting = {name: self._alone_process(name, 1) for name in sorted(self._alone)}
            say(f"{self._course.plan}: {self._course.until_ms / 1000:g} s on Kafka {self._release}")
            self._began = time.monotonic()
            self._row("T0: first member is started")
            for at_ms, what in self._course.timeline:
                if what in _SEEN:
                    continue
                time.sleep(max(self._began + at_ms / 1000 - time.monotonic(), 0))
                self._do(what, shared, waiting)
            shared.tell("end")
        self._keep()

    def _do(self, what: str, shared: _MembersProcess, waiting: dict[str, _MembersProcess]) -> None:
        self._row(what)
        if what == _STOPS:
            self._broker.stop()
            self._row("the broker has ended")
        elif what == _STARTS:
            self._broker.start()
            self._row("the broker has started")
        elif match := _START.match(what):
            name, settings = match.group(1), match.group(2).replace("__", ".")
            lives = sum(row.split("| ")[3].startswith(f"start {name}") for row in self._rows)
            process = shared
            if name in self._alone:
                process = waiting.pop(name) if name in waiting else self._alone_process(name, lives)
            self._of[name] = process
            topics = ",".join(self._partitions)
            process.tell(f"start {name} {topics} group.id=g-{self._course.plan}-1{settings}")
        elif match := _CLOSE.match(what):
            self._of[match.group(1)].tell(what)
        elif match := _GROWS.match(what):
            shared.tell(f"grow {self._topic} {match.group(1)}")
        else:
            for pattern, number in ((_KILL, signal.SIGKILL), (_STILL, signal.SIGSTOP), (_ON, signal.SIGCONT)):
                if match := pattern.match(what):
                    self._of[match.group(1)].send(number)

    def _alone_process(self, name: str, life: int) -> _MembersProcess:
        servers = f"127.0.0.1:{self._broker.port}"
        callbacks = self._folder / f"callbacks-{name}-{life}.jsonl"
        return _MembersProcess(self._processes, self._classes, servers, callbacks)

    def _make_offsets_topic(self, shared: _MembersProcess) -> None:
        """A group of before: the first one of a cluster waits for ``__consumer_offsets`` to be created."""
        shared.tell(f"start before {self._topic} group.id=before")
        time.sleep(SETTLED_S)
        shared.tell("close before")

    def _row(self, what: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        self._rows.append(f"| {time.monotonic() - self._began:.3f} | {now}Z | {what} |")

    def _keep(self) -> None:
        """The recording: the plan as it went, and the broker's two logs."""
        summary = f"Kafka {self._release}, run live: {self._course.source.partition(': ')[2] or self._course.plan}"
        rows = "\n".join(["| t (s) | UTC | what |", "|---|---|---|", *self._rows])
        (self._folder / "plan.md").write_text(f"# {self._course.plan}\n\n{summary}\n\n{rows}\n", encoding="utf-8")
        for name in ("server.log", "request.log"):
            shutil.copyfile(self._folder / "broker" / "logs" / name, self._folder / name)
        shutil.rmtree(self._folder / "broker")
        shutil.rmtree(self._folder / "members")
