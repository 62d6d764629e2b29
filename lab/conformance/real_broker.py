"""One real broker of any release on loopback, in its own folder, with ZooKeeper before 4.0.

Needs ``java``, and the jars of Maven or of an unpacked distribution. The broker ends with the ``with`` block.
"""

import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from kemu.protocol.profiles import PROFILES
from lab.conformance.maven import RealKafkaError
from lab.conformance.real_cluster import (
    APPENDER,
    STARTED_S,
    JavaProcesses,
    free_ports,
    port_is_free,
    wait_for_port,
)

BROKER_HEAP_MB = 512
QUIET_LOG4J = "log4j.rootLogger=WARN, server\n"
RECORDING_LOG4J = """\
log4j.logger.kafka.coordinator.group=INFO
log4j.logger.org.apache.kafka.coordinator.group=INFO
log4j.logger.org.apache.kafka.coordinator.group.GroupMetadataManager=DEBUG
log4j.logger.kafka.request.logger=DEBUG, request
log4j.additivity.kafka.request.logger=false
"""
KRAFT_SINCE = (4, 0)
"""First release without ZooKeeper, and with the consumer protocol (KIP-848)."""
_CLUSTER_ID = "a2VtdS1jb25mb3JtYW5jZQ"
_STARTED = (b"started (kafka.server.KafkaServer)", b"Kafka Server started")


def release_of(text: str) -> tuple[int, ...]:
    """Major and minor number of a release.

    Raises:
        RealKafkaError: the text is not a release.
    """
    if re.fullmatch(r"\d+(\.\d+){1,3}", text) is None:
        raise RealKafkaError(f'"{text}" is no release, such as 3.4.1')
    return tuple(map(int, text.split(".")[:2]))


def profile_of(release: str) -> str:
    """The profile of a release, or of the newest older release with a profile.

    Raises:
        RealKafkaError: the text is not a release, or the release is older than all profiles.
    """
    number = release_of(release)
    names = {release_of(name[6:]): name for name in PROFILES if re.fullmatch(r"kafka-\d+\.\d+", name)}
    older = [each for each in names if each <= number]
    if not older:
        raise RealKafkaError(f"Kafka {release} is older than all profiles: the first is {names[min(names)]}")
    return names[max(older)]


def unpacked(folder: Path) -> tuple[str, Path]:
    """Release and jars of an unpacked distribution of Kafka.

    Raises:
        RealKafkaError: the folder is not a distribution of Kafka.
    """
    libs = folder / "libs"
    for jar in sorted(libs.glob("kafka-clients-*.jar")):
        found = re.fullmatch(r"kafka-clients-(\d+\.\d+\.\d+)\.jar", jar.name)
        if found is not None:
            return found[1], libs
    raise RealKafkaError(f"{folder}: no Kafka: there is no libs/kafka-clients-RELEASE.jar in it")


class RealBroker:
    """A broker, and ZooKeeper if its release needs it.

    Args:
        settings: settings of the broker, added to the settings of a small broker.
        port: port of the broker; None for a free port.
        records: whether the broker logs each request and its coordinator's actions.

    Raises:
        RealKafkaError: the port is in use.
    """

    def __init__(
        self,
        release: str,
        libs: Path,
        folder: Path,
        settings: Mapping[str, str],
        port: int | None = None,
        *,
        records: bool = False,
    ) -> None:
        self.release = release
        self._folder = folder
        self._settings = dict(settings)
        self._records = records
        self._process: subprocess.Popen[bytes] | None = None
        self._processes = JavaProcesses(libs, folder)
        self._other_port, free = free_ports(2)
        self.port = free if port is None else port
        if not port_is_free(self.port):
            raise RealKafkaError(f"port {self.port} of 127.0.0.1 is taken or may not be listened on")

    def __enter__(self) -> "RealBroker":
        self._processes.__enter__()
        try:
            self._start()
        except BaseException:
            self._processes.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, trace)

    def _start(self) -> None:
        folder = self._folder
        (folder / "log4j.properties").write_text(
            QUIET_LOG4J
            + "log4j.logger.kafka.server=INFO\n"
            + "log4j.logger.org.apache.kafka.server=INFO\n"
            + (RECORDING_LOG4J if self._records else "")
            + "".join(APPENDER.format(name=name) for name in ("server", "request")),
            encoding="utf-8",
        )
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        settings = {
            "log.dirs": f"{folder}/data",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "background.threads": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "auto.create.topics.enable": "false",
        }
        if release_of(self.release) >= KRAFT_SINCE:
            settings |= {
                "process.roles": "broker,controller",
                "node.id": "0",
                "listeners": f"{listener},CONTROLLER://127.0.0.1:{self._other_port}",
                "advertised.listeners": listener,
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "controller.quorum.voters": f"0@127.0.0.1:{self._other_port}",
            }
        else:
            settings |= {
                "broker.id": "0",
                "listeners": listener,
                "zookeeper.connect": f"127.0.0.1:{self._other_port}",
            }
            self._start_zookeeper()
        path = folder / "server.properties"
        text = "".join(f"{key}={value}\n" for key, value in (settings | self._settings).items())
        path.write_text(text, encoding="utf-8")
        if release_of(self.release) >= KRAFT_SINCE:
            self._processes.tool("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(path))
        self.start()

    def stop(self) -> None:
        """Shut down the broker cleanly, and wait for its end.

        Raises:
            RealKafkaError: the broker does not end.
        """
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STARTED_S)
        except subprocess.TimeoutExpired:
            raise RealKafkaError(f"Kafka {self.release} did not shut down in {STARTED_S} s") from None

    def _start_zookeeper(self) -> None:
        (self._folder / "zk.properties").write_text(
            f"dataDir={self._folder}/zk\nclientPort={self._other_port}\nclientPortAddress=127.0.0.1\ntickTime=2000\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n",
            encoding="utf-8",
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._processes.spawn(main, [f"{self._folder}/zk.properties"], "zk-logs", heap_mb=128)
        wait_for_port(self._other_port)

    def start(self) -> None:
        """Start or restart the broker, and wait for the message that it has started.

        Raises:
            RealKafkaError: the broker has not started; the message has the broker's error.
        """
        log = self._folder / "logs" / "server.log"
        began = log.stat().st_size if log.exists() else 0
        settings = str(self._folder / "server.properties")
        process = self._processes.spawn("kafka.Kafka", [settings], "logs", heap_mb=BROKER_HEAP_MB)
        self._process = process
        deadline = time.monotonic() + STARTED_S
        while time.monotonic() < deadline and process.poll() is None:
            if log.exists() and any(words in log.read_bytes()[began:] for words in _STARTED):
                wait_for_port(self.port)
                return
            time.sleep(0.2)
        raise RealKafkaError(f"Kafka {self.release} did not start: {self._why()}")

    def _why(self) -> str:
        """The last error in the broker's output."""
        said = ""
        for path in (self._folder / "logs" / "Kafka.out", self._folder / "logs" / "server.log"):
            if path.exists():
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                worst = [line for line in lines if "Exception" in line or "ERROR" in line or "FATAL" in line]
                said = (worst or lines or [said])[0]
        return said.strip()[:300] or f"it said nothing for {STARTED_S} s"
