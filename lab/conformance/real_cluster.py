"""A real Kafka cluster on this machine: ZooKeeper and some brokers, from Maven's packages, in its own folder.

Needs ``java`` and ``mvn``; used only for new recordings. Brokers get small heaps and log the compared data: requests
(``kafka.request.logger``) and the controller's decisions. All processes end with the ``with`` block.
"""

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from kemu.protocol.names import broker_host
from lab.conformance.maven import RealKafkaError, bring_jars

LOG4J = """\
log4j.rootLogger=INFO, server
log4j.logger.kafka.request.logger=DEBUG, requests
log4j.additivity.kafka.request.logger=false
log4j.logger.kafka.controller=TRACE, controller
log4j.additivity.kafka.controller=false
log4j.logger.state.change.logger=INFO, states
log4j.additivity.state.change.logger=false
"""
APPENDER = """\
log4j.appender.{name}=org.apache.log4j.FileAppender
log4j.appender.{name}.File=${{kafka.logs.dir}}/{name}.log
log4j.appender.{name}.layout=org.apache.log4j.PatternLayout
log4j.appender.{name}.layout.ConversionPattern=[%d{{yyyy-MM-dd HH:mm:ss,SSS}}] %p %m (%c)%n
"""
TOOL_LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %m%n
"""
SCALA_2_13_SINCE = (2, 4)
STARTED_S = 180
"""Longest time until a process has started, in seconds."""


def fetch_jars(release: str, folder: Path) -> Path:
    """Download a release and its dependencies with Maven; return the folder of the jars.

    Raises:
        RealKafkaError: ``mvn`` or ``java`` is missing, or Maven failed.
    """
    scala = "2.13" if tuple(map(int, release.split(".")[:2])) >= SCALA_2_13_SINCE else "2.12"
    libs = bring_jars(
        release,
        folder,
        ("org.apache.kafka", f"kafka_{scala}", release),
        ("org.apache.kafka", "kafka-tools", release),
        ("ch.qos.reload4j", "reload4j", "1.2.25"),
        ("org.slf4j", "slf4j-reload4j", "1.7.36"),
    )
    for jar in libs.glob("log4j-1*.jar"):
        jar.unlink()
    for jar in libs.glob("slf4j-log4j12*.jar"):
        jar.unlink()
    return libs


class JavaProcesses:
    """Runs programs of a release's jars in a folder. The end of the ``with`` block kills running programs."""

    def __init__(self, libs: Path, folder: Path) -> None:
        self.folder = folder
        self._libs = libs
        self._running: list[subprocess.Popen[bytes]] = []
        self._talking: list[subprocess.Popen[str]] = []
        self._before: Any = None
        """The previous handler of SIGTERM. While processes run, the signal also ends them."""

    def __enter__(self) -> "JavaProcesses":
        if shutil.which("java") is None:
            raise RealKafkaError("a real Kafka needs java, which is not on the path")
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, _end)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tool-log4j.properties").write_text(TOOL_LOG4J, encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for talking in self._talking:
            talking.kill()
            talking.wait()
        for process in reversed(self._running):
            process.kill()
            process.wait()
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def tool(self, main: str, *arguments: str) -> str:
        """Run one of Kafka's tools to its end; return its output.

        Raises:
            RealKafkaError: the tool failed.
        """
        done = subprocess.run(
            self._java(main, arguments, heap_mb=128, log4j="tool-log4j", logs="tools"),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RealKafkaError(f"{main} {' '.join(arguments)}: {(done.stdout + done.stderr).strip()[-600:]}")
        return done.stdout

    def talking(
        self, main: str, arguments: Sequence[str], classes: Path, *, heap_mb: int, errors: str
    ) -> subprocess.Popen[str]:
        """Start a program of ``lab.conformance`` that reads lines and answers each line. The program's errors are
        written to a file.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self._java(main, arguments, heap_mb=heap_mb, log4j="tool-log4j", logs="tools")
        place = command.index("-cp") + 1
        command[place] = f"{classes}:{command[place]}"
        with (self.folder / f"{errors}.err").open("ab") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
                env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            )
        self._talking.append(process)
        return process

    def background(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one of Kafka's own tools; the tool ends with the cluster at the latest."""
        return self.spawn(main, list(arguments), "tools", heap_mb=128, log4j="tool-log4j")

    def spawn(
        self, main: str, arguments: Sequence[str], logs: str, *, heap_mb: int, log4j: str = "log4j"
    ) -> subprocess.Popen[bytes]:
        (self.folder / logs).mkdir(exist_ok=True)
        with (self.folder / logs / f"{main.rpartition('.')[2]}.out").open("ab") as out:
            process = subprocess.Popen(
                self._java(main, arguments, heap_mb=heap_mb, log4j=log4j, logs=logs),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            )
        self._running.append(process)
        return process

    def _java(self, main: str, arguments: Sequence[str], *, heap_mb: int, log4j: str, logs: str) -> list[str]:
        return [
            "java",
            f"-Xmx{heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j.configuration=file:{self.folder}/{log4j}.properties",
            f"-Dkafka.logs.dir={self.folder}/{logs}",
            "-Dzookeeper.jmx.log4j.disable=true",
            "-cp",
            f"{self._libs}/*",
            main,
            *arguments,
        ]


class RealCluster:
    """ZooKeeper and brokers ``0 .. count - 1``. The first started broker becomes the controller.

    Args:
        folder: folder for all files; the folder is not removed.
        settings: settings of every broker, added to the settings of a small cluster on one machine.
        tick_ms: ZooKeeper's ``tickTime``; sessions expire at multiples of this time.
    """

    def __init__(
        self, libs: Path, folder: Path, count: int, settings: Mapping[str, str], *, tick_ms: int = 1000
    ) -> None:
        self.folder = folder
        self._tick_ms = tick_ms
        self.count = count
        self._settings = dict(settings)
        self._zk_port, *self._ports = free_ports(count + 1)
        self._zk: subprocess.Popen[bytes] | None = None
        self._brokers: dict[int, subprocess.Popen[bytes]] = {}
        self._processes = JavaProcesses(libs, folder)

    def __enter__(self) -> "RealCluster":
        self._processes.__enter__()
        try:
            self._begin()
        except BaseException:
            self._processes.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        appenders = "".join(APPENDER.format(name=name) for name in ("server", "requests", "controller", "states"))
        (self.folder / "log4j.properties").write_text(LOG4J + appenders, encoding="utf-8")
        (self.folder / "zk.properties").write_text(
            f"dataDir={self.folder}/zk\nclientPort={self._zk_port}\nclientPortAddress=127.0.0.1\n"
            f"tickTime={self._tick_ms}\nmaxClientCnxns=0\nadmin.enableServer=false\n",
            encoding="utf-8",
        )
        (self.folder / "zk-logs").mkdir(exist_ok=True)
        self._zk = self._processes.spawn(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            [f"{self.folder}/zk.properties"],
            "zk-logs",
            heap_mb=128,
        )
        wait_for_port(self._zk_port)
        for broker in range(self.count):
            self.start(broker)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, trace)

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers for clients."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    @property
    def transaction_logs(self) -> list[Path]:
        """ZooKeeper's transaction logs, oldest first."""
        return sorted(self.folder.glob("zk/version-2/log.*"), key=lambda path: int(path.name[4:], 16))

    def log(self, broker: int, name: str) -> Path:
        """A log file of a broker."""
        return self.folder / broker_host(broker) / f"{name}.log"

    def start(self, broker: int) -> None:
        """Start a broker, and wait for the message that it has started."""
        logs = self.folder / broker_host(broker)
        logs.mkdir(exist_ok=True)
        settings = {
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://127.0.0.1:{self._ports[broker]}",
            "zookeeper.connect": f"127.0.0.1:{self._zk_port}",
            "log.dirs": f"{self.folder}/data{broker}",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "background.threads": "4",
            **self._settings,
        }
        path = self.folder / f"server{broker}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        began = self.log(broker, "server").stat().st_size if self.log(broker, "server").exists() else 0
        self._brokers[broker] = self._processes.spawn("kafka.Kafka", [str(path)], broker_host(broker), heap_mb=256)
        deadline = time.monotonic() + STARTED_S
        while time.monotonic() < deadline:
            if self.log(broker, "server").exists():
                with self.log(broker, "server").open("rb") as log:
                    log.seek(began)
                    if b"started (kafka.server.KafkaServer)" in log.read():
                        return
            if self._brokers[broker].poll() is not None:
                break
            time.sleep(0.2)
        raise RealKafkaError(f"broker {broker} did not start: see {logs}")

    def kill(self, broker: int) -> None:
        """Kill a broker without a clean shutdown."""
        self._brokers[broker].send_signal(signal.SIGKILL)
        self._brokers[broker].wait()

    def stop(self, broker: int) -> None:
        """Shut down a broker cleanly, and wait for its end.

        Raises:
            RealKafkaError: the broker does not end.
        """
        self._brokers[broker].send_signal(signal.SIGTERM)
        try:
            self._brokers[broker].wait(STARTED_S)
        except subprocess.TimeoutExpired:
            raise RealKafkaError(f"broker {broker} did not shut down in {STARTED_S} s") from None

    def tool(self, main: str, *arguments: str) -> str:
        """Run one of Kafka's own tools to its end (``JavaProcesses.tool``)."""
        return self._processes.tool(main, *arguments)

    def background(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one of Kafka's own tools; the tool ends with the cluster at the latest."""
        return self._processes.background(main, *arguments)


def _end(_number: int, _frame: FrameType | None) -> None:
    """Send SIGINT to this process, so that all processes end as after Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def port_is_free(port: int) -> bool:
    """Whether this port of the loopback address is free."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Free ports of the loopback address."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for_port(port: int) -> None:
    """Wait until a process listens on this port.

    Raises:
        RealKafkaError: no process listens in time.
    """
    deadline = time.monotonic() + STARTED_S
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise RealKafkaError(f"nothing listens on port {port}")
