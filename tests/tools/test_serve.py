"""``kemu serve``: sockets, limits, signals and refusals, without a Kafka client."""

import json
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner

from kemu.emulator.engine.gateway import LONGEST_FRAME
from kemu.emulator.serving.translation import OFFERED_WITHOUT_CONTROLLER
from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.batches import make_batch, records_of
from kemu.protocol.kafka_wire.frames import WireReply, WireRequest, read_reply, write_request
from kemu.protocol.messages.control import CreateTopics, DeleteTopics, NewTopic
from kemu.protocol.messages.data import Fetch, FetchPartition, Metadata, Produce, ProduceBatch, TopicMetadata
from kemu.protocol.messages.group import (
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    TopicPartitions,
)
from kemu.protocol.messages.negotiation import ApiVersions
from kemu.protocol.wire.schema import SPECS
from kemu.tools.commands.replay import replay
from kemu.tools.commands.report import report
from kemu.tools.commands.serve import serve
from kemu.tools.testkit.served import ServedCluster, serving
from tests.tools.report.reading import read_page

SCENARIO = """
[brokers]
count = 2
[topics.orders]
partitions = 2
rate = 0
[clients]
names = ["payments"]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    with serving(SCENARIO, tmp_path_factory.mktemp("served"), ["--client", "b-app"]) as found:
        yield found


class _Client:
    """A TCP connection that speaks Kafka's protocol."""

    def __init__(self, servers: str, broker: int = 0) -> None:
        host, _, port = servers.split(",")[broker].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.settimeout(30)

    def send(self, message: object, version: int, correlation: int = 1, **more: Any) -> None:
        key = SPECS[type(message)].api_key
        self.socket.sendall(write_request(WireRequest(key, version, correlation, "test", message, **more)))

    def frame(self) -> bytes:
        """The next frame; b"" at the end of the connection."""
        size = self._bytes(4)
        return self._bytes(struct.unpack(">i", size)[0]) if size else b""

    def _bytes(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return b""
            if not more:
                return b""
            data += more
        return data

    def ask(self, message: object, version: int, **more: Any) -> WireReply:
        self.send(message, version, **more)
        return read_reply(self.frame(), SPECS[type(message)].api_key, version)


Connect: TypeAlias = Callable[..., _Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens connections, and closes them at the end of the test."""
    with ExitStack() as opened:

        def connect_to(servers: str, broker: int = 0) -> _Client:
            client = _Client(servers, broker)
            opened.callback(client.socket.close)
            return client

        yield connect_to


def test_the_broker_offers_only_what_its_machines_answer(cluster: ServedCluster, connect: Connect) -> None:
    reply = connect(cluster.bootstrap_servers).ask(ApiVersions(), 3)
    offered = {row.api_key: (row.min_version, row.max_version) for row in reply.message.api_keys}
    assert offered.keys() == OFFERED_WITHOUT_CONTROLLER - {68, 69}  # the consumer protocol: since 4.0
    assert offered[1] == (4, 12)
    assert offered[22] == (0, 4)


def test_an_unspoken_version_of_api_versions_gets_the_spoken_versions_with_error_35(
    cluster: ServedCluster, connect: Connect
) -> None:
    """KIP-511: the client asks again with a version of the answer."""
    client = connect(cluster.bootstrap_servers)
    body = struct.pack(">hhih", 18, 99, 7, -1)
    client.socket.sendall(struct.pack(">i", len(body)) + body)
    reply = read_reply(client.frame(), 18, 0)
    assert reply.correlation_id == 7
    assert reply.message.error is ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.max_version) for row in reply.message.api_keys] == [(18, 3)]
    assert client.ask(ApiVersions(), 3).message.error is ErrorCode.NONE


def test_each_door_answers_with_its_own_ports(cluster: ServedCluster, connect: Connect) -> None:
    """A named client stays at its own ports, so its host is known."""
    assert set(cluster.clients) == {"payments", "b-app"}
    for servers in (cluster.bootstrap_servers, *cluster.clients.values()):
        reply = connect(servers).ask(Metadata(topics=("orders",)), 9)
        assert ",".join(broker.host for broker in reply.message.brokers) == servers
        found = connect(servers).ask(FindCoordinator(key="p-group"), 2).message
        assert found.host in servers.split(",")


def test_records_are_delivered_as_they_were_produced(cluster: ServedCluster, connect: Connect) -> None:
    batch = make_batch([(b"key", b"one"), (None, b"two")], base_offset=0, timestamp_ms=17)
    metadata = connect(cluster.bootstrap_servers).ask(Metadata(topics=("orders",)), 5).message
    leader = metadata.topics[0].partitions[0].leader
    client = connect(cluster.bootstrap_servers, leader)
    produce = Produce(acks=1, timeout_ms=1_000, batches=(ProduceBatch(topic="orders", partition=0, count=2),))
    rows = client.ask(produce, 9, records={("orders", 0): batch}).message.batches
    assert [(row.error, row.base_offset) for row in rows] == [(ErrorCode.NONE, 0)]
    fetch = Fetch(
        max_wait_ms=100, min_bytes=1, partitions=(FetchPartition(topic="orders", partition=0, fetch_offset=1),)
    )
    records = client.ask(fetch, 11).records["orders", 0]
    assert list(records_of(records)) == [(b"key", b"one"), (None, b"two")]


def test_frames_of_one_connection_are_answered_in_order_whatever_actor_serves_them(
    cluster: ServedCluster, connect: Connect
) -> None:
    """Group requests go to another machine than the broker's own requests."""
    client = connect(cluster.bootstrap_servers)
    sent = []
    for number in range(40):
        heartbeat = number % 3 == 1
        message = Heartbeat(group="nobody", generation=1, member_id="x") if heartbeat else Metadata(topics=())
        sent.append((12 if heartbeat else 3, 3 if heartbeat else 5))
        client.send(message, sent[-1][1], number)
    answers = [read_reply(client.frame(), *each).correlation_id for each in sent]
    assert answers == list(range(40))


def test_offsets_are_committed_and_read_by_topic_id_until_the_topic_is_deleted(
    tmp_path: Path, connect: Connect
) -> None:
    """Brokers since 4.2. The id of a deleted topic is unknown, and the next topic of its name has no offset."""
    replicated = SCENARIO.replace("[topics", "[brokers.replication]\nfactor = 2\n[topics")
    with serving(replicated, tmp_path, ["--profile", "kafka-4.2"]) as cluster:

        def topic() -> TopicMetadata:
            (found,) = connect(cluster.bootstrap_servers).ask(Metadata(topics=("orders",)), 12).message.topics
            return found

        first_contact = connect(cluster.bootstrap_servers)
        at = first_contact.ask(FindCoordinator(key="g"), 2).message.node_id
        coordinator = connect(cluster.bootstrap_servers, at)
        at = first_contact.ask(Metadata(topics=()), 12).message.controller_id
        controller = connect(cluster.bootstrap_servers, at)

        def commit(topic_id: str) -> ErrorCode:
            rows = (OffsetToCommit(topic_id=topic_id, partition=1, offset=7, metadata=""),)
            (outcome,) = coordinator.ask(OffsetCommit(group="g", offsets=rows), 10).message.outcomes
            assert outcome.topic_id == topic_id
            return outcome.error

        def committed(topic_id: str) -> tuple[int, ErrorCode]:
            asked = OffsetFetch(group="g", topics=(TopicPartitions(topic_id=topic_id, partitions=(1,)),))
            reply = coordinator.ask(asked, 10)
            assert reply.beside["group"] == ("g",)
            (row,) = reply.message.offsets
            assert (row.topic_id, row.partition) == (topic_id, 1)
            return row.offset, row.error

        first = topic().topic_id
        assert commit(first) is ErrorCode.NONE
        assert committed(first) == (7, ErrorCode.NONE)

        controller.ask(DeleteTopics(topic_names=("orders",), timeout_ms=30_000), 5)
        wait_until(lambda: topic().error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert commit(first) is ErrorCode.UNKNOWN_TOPIC_ID
        assert committed(first) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)

        new = NewTopic(name="orders", num_partitions=2, replication_factor=2)
        wait_until(
            lambda: (
                controller.ask(CreateTopics(topics=(new,), timeout_ms=30_000), 4).message.topics[0].error_code
                is not ErrorCode.TOPIC_ALREADY_EXISTS
            )
        )
        wait_until(lambda: topic().error is ErrorCode.NONE)
        assert committed(topic().topic_id) == (-1, ErrorCode.NONE)
        assert commit(first) is ErrorCode.UNKNOWN_TOPIC_ID
        assert cluster.close() == "holds", cluster.output


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait at most 30 s."""
    until = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < until, "it did not happen within 30 s"
        time.sleep(0.05)


def test_the_state_names_the_broker_of_each_connection(cluster: ServedCluster, connect: Connect) -> None:
    clients = [connect(cluster.clients["b-app"], broker) for broker in (1, 0)]
    for client in clients:
        client.ask(ApiVersions(), 3)
    cluster.wait("client b-app connections=2")
    rows = cluster.state()["clients"]["b-app"]["connections"]
    assert [(each["broker"], each["client_id"]) for each in rows] == [("b1", "test"), ("b0", "test")]
    for client in clients:
        client.socket.close()
    cluster.wait("client b-app connections=0")


def test_a_member_id_begins_with_the_client_id(cluster: ServedCluster, connect: Connect) -> None:
    """Source: ``GroupMetadata.generateMemberId`` (3.4). A client id is data, whatever letter it begins with."""
    for servers in (cluster.clients["payments"], cluster.bootstrap_servers):
        protocols = (JoinProtocol(name="range", metadata=b"\\0\\0\\0\\0\\0\\0\\xff\\xff\\xff\\xff"),)
        join = JoinGroup(group="b", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)
        ports = [connect(servers, broker).ask(join, 5).message for broker in (0, 1)]
        (answer,) = [each for each in ports if each.error is ErrorCode.MEMBER_ID_REQUIRED]
        assert re.fullmatch("test-[0-9a-f-]{36}", answer.member_id)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">i", LONGEST_FRAME + 1),
        struct.pack(">i", -5),
        struct.pack(">i", 4) + b"\\0\\1\\0\\2",
        struct.pack(">ihhih", 10, 71, 0, 1, -1),
        struct.pack(">ihhih", 10, 19, 0, 1, -1),
        write_request(WireRequest(1, 4, 1, "test", Fetch(replica_id=1, max_wait_ms=0, min_bytes=0, partitions=()))),
    ],
    ids=["too long", "negative", "short", "unknown API", "not offered", "fetch of a broker"],
)
def test_a_foreign_frame_closes_its_socket_only(cluster: ServedCluster, frame: bytes, connect: Connect) -> None:
    client, other = connect(cluster.bootstrap_servers), connect(cluster.bootstrap_servers)
    client.socket.sendall(frame)
    assert client.frame() == b""
    assert other.ask(Metadata(topics=()), 5).message.brokers


@pytest.mark.usefixtures("in_a_terminal")
def test_a_signal_completes_the_trace_and_the_run_replays(tmp_path: Path, connect: Connect) -> None:
    """After SIGINT the exit code is 130, as for every interrupted command."""
    with serving(SCENARIO, tmp_path) as cluster:
        connect(cluster.bootstrap_servers).ask(Metadata(topics=()), 5)
        cluster.close(signal.SIGINT)
    assert cluster.exit_code == 130
    assert cluster.verdict == "holds"
    assert cluster.trace.exists()
    again = CliRunner().invoke(replay, [str(cluster.trace)])
    assert "no difference" in again.stdout
    unchecked = "not checked of real clients: its timeouts (requests)"
    assert unchecked in cluster.output and unchecked in again.stdout.splitlines()
    for command in (replay, report):
        said = json.loads(CliRunner().invoke(command, [str(cluster.trace), "--format", "json"]).stdout)
        assert {"checker": "requests", "unknown": "its timeouts"} in said["unchecked"]
    page = tmp_path / "page.html"
    assert CliRunner().invoke(report, [str(cluster.trace), "--out", str(page)]).exit_code == 0
    assert read_page(page.read_text(encoding="utf-8")).texts["unchecked"][-1] == "its timeouts (requests)"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--address", "0.0.0.0"], "add --open-to-network to allow it"),
        (["--address", "here"], "is no IP address"),
        (["--for", "soon"], "--for"),
        (["--client", "guest-1"], '--client: "guest-1" is the name of a client without a name'),
        (["--client", "a/b"], '--client: "a/b" is no name'),
        (["--port", "65535", "--for", "1s"], "choose a lower --port"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(tmp_path: Path, options: list[str], text: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    result = CliRunner().invoke(serve, [str(file), *options])
    error = (
        result.output if result.exception is None or isinstance(result.exception, SystemExit) else str(result.exception)
    )
    assert text in error
    assert result.exit_code != 0


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = tmp_path / "s.toml"
        file.write_text(SCENARIO, encoding="utf-8")
        command = [sys.executable, "-m", "kemu", "serve", str(file), "--port", str(port), "--for", "1s"]
        result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert f"127.0.0.1:{port}: cannot listen" in result.stderr
