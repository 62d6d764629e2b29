"""Orders to a run that is under way: what KIP-429's scaling tool says to it, and what it is answered."""

import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kemu.emulator.engine.control import MOST_CONNECTIONS, ControlSocket, OrderReply
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.trio_loop import Outside
from kemu.emulator.replay import replay
from kemu.emulator.runner import Run, controls_of, run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.traces import read_trace

S = 1_000_000


def instances(seconds: int) -> Scenario:
    """Three instances, five tasks, no plan of its own before it is over."""
    own = [f"plan.0.at={seconds - 1}s", f"duration={seconds}s", "rate=20/s"]
    return with_values(load_scenario("streams-scale-down"), own)


def with_orders(*orders: tuple[int, bytes], seconds: int = 45, sink: Any = None) -> tuple[Run, list[dict[str, Any]]]:
    """A run that is given these lines at these seconds, and the answers."""
    one = Run(instances(seconds), seed=1, profile="kip-429-v99", loop="bare", sink=sink)
    controls = controls_of(one, None)
    answers: list[dict[str, Any]] = []

    class ToList(OrderReply):
        def put(self, line: bytes) -> bool:
            answers.append(json.loads(line))
            return True

    def taking(line: bytes) -> Callable[[], None]:
        return lambda: controls.take(line, ToList())

    for at_s, line in orders:
        one.world.at(at_s * S, taking(line))
    assert one.run_with(run_plain) == ""
    return one, answers


def test_a_percentage_is_answered_with_who_was_told_to_leave() -> None:
    """KIP-429 v99: of three 60 % stay, rounded up; the leader's instance is not the one that goes."""
    one, answers = with_orders((10, b'{"do": "scale-down", "to": "60%"}'))

    assert answers == [{"done": "scale app down to 60%", "at_us": 10 * S, "hosts": ["c2"]}]
    assert [entry.action.words() for entry in one.injector.plan] == ["c2 of app leave", "scale app down to 60%"]
    assert one.injector.counts()[1] == 1
    assert not one.world.hosts["c2"].running, "it handed its tasks over and closed"


def test_an_instance_that_an_order_added_may_be_named_by_the_next() -> None:
    _, answers = with_orders((6, b'{"do": "add-members"}'), (10, b'{"do": "scale-down", "hosts": ["c4"]}'))

    assert [answer["hosts"] for answer in answers] == [["c4"], ["c4"]]


REFUSED: dict[bytes, str] = {
    b'{"do": "scale-down", "hosts": ["c2", "c9"]}': 'hosts: "c9" is no instance of app; known: c1, c2, c3',
    b'{"do": "scale-down", "to": "80"}': 'to: "80" must be a percentage',
    b'{"do": "scale-down", "to": "100%"}': "100 % of 3 instances are all of them",
    b'{"do": "scale-dwn"}': 'did you mean "scale-down"',
    b'{"do": "add-broker"}': '"add-broker" needs brokers that replicate: add [brokers.replication]',
    b'{"do": "scale-down", "to": "50%", "at": "9s"}': "they are carried out now",
    b"down to 80%": '"down" is no verb and no action; did you mean',
    b"scale-down 80%": '"80%" must be KEY=VALUE',
    b'scale-down to="80': "No closing quotation",
    b"": '"" is no verb and no action',
    b"do": '"do" is no verb and no action',
    b"{}": "an order needs one of the keys do, wait, leader, state, events",
    b"[1]": "an order is one JSON object",
    b"[" * 60_000: "an order is one JSON object",
    b"\xff": "an order is UTF-8 text",
}


def test_what_is_refused_says_why_and_changes_nothing() -> None:
    """A name that nobody has refuses all of the order: c2 is not told either."""
    one, answers = with_orders(*((10, line) for line in REFUSED), seconds=20)

    assert len(answers) == len(REFUSED)
    for answer, why in zip(answers, REFUSED.values(), strict=True):
        assert why in answer["error"]
    assert one.world.hosts["c2"].running


def test_an_unexpected_exception_is_the_answer_and_the_run_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kemu.emulator.injection.injector.Injector.order", lambda self, action: self.no_such_name)

    one, answers = with_orders((10, b'{"do": "scale-down", "to": "60%"}'), seconds=20)

    assert answers == [{"error": "a bug of kemu: AttributeError: 'Injector' object has no attribute 'no_such_name'"}]
    assert one.world.now_us >= 19 * S, one.world.now_us


def test_who_leaves_already_counts_among_those_that_leave() -> None:
    """The same order again, by somebody impatient, makes nobody else go."""
    order = b'{"do": "scale-down", "to": "60%"}'
    _, answers = with_orders((10, order), (11, order))

    assert answers[1] == {"error": "c2 of 3 are leaving already: no other instance was asked to leave"}


def test_a_run_with_orders_is_replayed_from_its_trace(tmp_path: Path) -> None:
    """The trace has the commands of orders, and the hosts that orders add."""
    path = tmp_path / "run.kemu"
    with path.open("wb") as sink:
        one, _ = with_orders((6, b'{"do": "add-members"}'), (10, b'{"do": "scale-down", "to": "60%"}'), sink=sink)
        one.writer.finish("holds", one.world.now_us, tuple(one.injector.counts()))

    assert replay(read_trace(path)).difference is None


def test_a_socket_takes_a_line_and_answers_a_line(tmp_path: Path) -> None:
    """Between two turns, several orders on one connection; afterwards the file is gone."""
    path = tmp_path / "orders"
    taken: list[bytes] = []

    def take(line: bytes, answer: OrderReply) -> None:
        taken.append(line)
        answer.put(b"heard " + line)
        answer.end()

    async def main() -> bytes:
        async with served(door):
            said = b""
            async with await trio.open_unix_socket(path) as stream:
                await stream.send_all(b"one\ntw")
                await stream.send_all(b"o\n")
                while said.count(b"\n") < 2:
                    said += await stream.receive_some()
        return said

    door = ControlSocket(path, take)
    try:
        with pytest.raises(OSError, match="in use"):
            ControlSocket(path, take)
        assert trio.run(main) == b"heard one\nheard two\n"
    finally:
        door.close()
    assert taken == [b"one", b"two"] and not path.exists()


@asynccontextmanager
async def served(door: ControlSocket) -> AsyncIterator[None]:
    """The socket takes orders until the end of the block, and a loop makes its calls."""
    outside = Outside()

    async def turns() -> None:
        while True:
            await outside.wait()
            for action in outside.take():
                action()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(door.serve, outside)
        nursery.start_soon(turns)
        yield
        nursery.cancel_scope.cancel()


def test_a_stream_of_lines_ends_with_the_next_order_of_its_reader(tmp_path: Path) -> None:
    """Or with the end of the connection, and its order is then forgotten."""
    path = tmp_path / "orders"
    streams: list[OrderReply] = []

    def take(line: bytes, answer: OrderReply) -> None:
        if line == b"events":
            answer.stream()
            streams.append(answer)
            answer.put(b"first")
            answer.put(b"second")
        else:
            answer.put(b"heard " + line)
            answer.end()

    async def until(stream: trio.SocketStream, end: bytes) -> bytes:
        said = b""
        while not said.endswith(end):
            said += await stream.receive_some()
        return said

    async def main() -> None:
        async with served(door):
            async with await trio.open_unix_socket(path) as stream:
                await stream.send_all(b"events\n")
                assert await until(stream, b"second\n") == b"first\nsecond\n"
                assert streams[0].is_open
                await stream.send_all(b"state\n")
                assert await until(stream, b"state\n") == b"heard state\n"
                assert not streams[0].is_open
                await stream.send_all(b"events\n")
                await until(stream, b"second\n")
            while streams[1].is_open:
                await trio.sleep(0.01)

    door = ControlSocket(path, take)
    try:
        trio.run(main)
    finally:
        door.close()


def test_only_the_user_of_the_process_may_connect(tmp_path: Path) -> None:
    """The file mode does not depend on the umask."""
    path = tmp_path / "orders"
    mask = os.umask(0)
    try:
        door = ControlSocket(path, lambda line, answer: None)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        door.close()
        assert os.umask(0) == 0, "the process keeps its umask"
    finally:
        os.umask(mask)


def test_a_socket_closes_more_connections_than_it_takes(tmp_path: Path) -> None:
    """The connections that are open stay open, and a closed one makes room."""
    path = tmp_path / "orders"

    async def is_open(stream: trio.SocketStream) -> bool:
        await stream.send_all(b"order\n")
        return await stream.receive_some() == b"heard\n"

    async def main() -> list[bool]:
        async with served(door):
            streams = [await trio.open_unix_socket(path) for _ in range(MOST_CONNECTIONS)]
            found = [all([await is_open(stream) for stream in streams])]
            async with await trio.open_unix_socket(path) as refused:
                found.append(await refused.receive_some() == b"")
            await streams[0].aclose()
            await trio.testing.wait_all_tasks_blocked()
            streams[0] = await trio.open_unix_socket(path)
            found += [await is_open(streams[0]), await is_open(streams[1])]
            for stream in streams:
                await stream.aclose()
        return found

    def take(line: bytes, answer: OrderReply) -> None:
        answer.put(b"heard")
        answer.end()

    door = ControlSocket(path, take)
    try:
        assert trio.run(main) == [True] * 4
    finally:
        door.close()


def test_a_socket_that_a_killed_run_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    ControlSocket(path, lambda line, answer: None).close()
    assert not path.exists()


def test_a_live_run_listens_while_it_runs(tmp_path: Path) -> None:
    """It begins to listen before its first turn, and takes the socket away."""
    path = tmp_path / "orders"
    quick = ["duration=200ms", "group.initial.rebalance.delay.ms=0", "start_spread=0s", "members=1", "draws=calm"]
    scenario = with_values(load_scenario("steady-group"), quick)
    there: list[bool] = []

    class Watch:
        def see(self, seen: object) -> None:
            there.append(path.exists())

    assert run(scenario, seed=1, live=True, control=path, observers=(Watch(),)).verdict == "holds"
    assert there and all(there) and not path.exists()
