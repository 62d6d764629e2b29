"""``kemu console``: lines, completion, the full screen, and its ends."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from kemu.tools import exits
from kemu.tools.console.completion import completions
from kemu.tools.console.exchange import Address, Exchange, address_of
from kemu.tools.console.plain import run_plain
from kemu.tools.console.screen import MOST_LINES, Screen
from kemu.tools.console.session import Session, help_lines
from kemu.tools.console.words import answer_lines, event_line, plain_text, state_lines, title_line
from kemu.tools.errors import BadInput
from kemu.tools.testkit.served import serving
from tests.tools.fake_control import STATE, FakeControl, fake_control
from tests.tools.served_scenarios import served_scenario

PATIENCE_S = 60.0


@pytest.fixture
def control(tmp_path: Path) -> Iterator[FakeControl]:
    with fake_control(tmp_path / "control") as found:
        yield found


@pytest.fixture
def address(control: FakeControl, tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "control"))


# --- words -----------------------------------------------------------------------------------------------------------


def test_an_address_is_a_path_a_port_or_the_url_that_serve_prints() -> None:
    assert address_of("./control") == Address(path="./control")
    assert address_of("41234") == address_of("http://127.0.0.1:41234") == Address(port=41_234)
    with pytest.raises(BadInput, match="65536 is no port"):
        address_of("65536")


def test_the_state_names_brokers_groups_members_partitions_and_connections() -> None:
    """Control characters of a client's id never reach the terminal."""
    lines = [plain_text(line) for line in state_lines(STATE)]
    assert lines == [
        "brokers  b0 up  b1 down (start 2)",
        "group payments  Stable  generation 2, coordinator b0, 1 members, lag 5",
        "  app-1f  app (i-1)  orders-0",
        "topic orders  2 partitions, 1 without a leader, 1 with replicas outside of the ISR",
        "  orders-0  leader b0    epoch 3  ISR b0  end 12  payments lag 5",
        "  orders-1  leader none  epoch 3  ISR b1  end 4",
        "client app  up  1 connections: b0",
    ]
    assert plain_text(title_line(STATE, "control")) == "orders  01:05.250  control"
    fact = {"type": "MemberAdded", "member_id": "a\x1b[2Jb", "n": 1}
    said = plain_text(event_line({"at_us": 1_500, "actor": "b0/coordinator", "fact": fact}))
    assert said == "00:00.001  b0/coordinator MemberAdded member_id=a\\x1b[2Jb n=1"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"done": "crash b1", "at_us": 1, "hosts": ["b1"]}, ["done: crash b1: b1"]),
        ({"holds": "lag g 0", "seen": "group g: lag 0", "at_us": 1}, ["holds: group g: lag 0"]),
        ({"error": "not within 1s", "seen": "group g: lag 4"}, ["in vain: not within 1s", "  group g: lag 4"]),
        ({"error": "no\x07 host"}, ["refused: no\\x07 host"]),
    ],
)
def test_answers_are_sentences(row: dict[str, Any], said: list[str]) -> None:
    assert [plain_text(line) for line in answer_lines(row)] == said


@pytest.mark.parametrize(
    ("text", "some", "not_there"),
    [
        ("", {"kill-coordinator", "wait", "state", "quit"}, {"do"}),
        ("kill", {"kill-coordinator"}, {"crash"}),
        ("crash ", {"host=", "mode=", "for="}, {"group="}),
        ("crash host=b1 ", {"mode=", "for="}, {"host="}),
        ("crash host=", {"host=b0", "host=b1", "host=x-app", "host='coordinator of payments'"}, {"host=orders"}),
        ("crash mode=p", {"mode=power", "mode=process"}, set()),
        ("crash for=", {"for=5s"}, set()),
        ("split side=b0,", {"side=b0,b1"}, set()),
        ("kill-coordinator group=", {"group=payments"}, set()),
        ("delete-topic topic=", {"topic=orders"}, set()),
        ("error-reply error=NOT_C", {"error=NOT_COORDINATOR", "error=NOT_CONTROLLER"}, {"error=NONE"}),
        ("error-reply api=Heart", {"api=Heartbeat"}, set()),
        ("restart keep_disk=", {"keep_disk=true", "keep_disk=false"}, set()),
        ("leader ", {"orders-0", "orders-1"}, set()),
        ("leader orders-0 ", set(), {"b0"}),
        ("wait ", {"group", "lag", "noted"}, set()),
        ("wait group ", {"payments"}, {"orders"}),
        ("wait group payments ", {"Stable", "members=", "within"}, {"leader="}),
        ("wait group payments coordinator=", {"coordinator=b0", "coordinator=none"}, set()),
        ("wait leader orders-0 ", {"b0", "within"}, set()),
        ("wait broker b1 ", {"up", "down", "within"}, set()),
        ("wait noted GroupB", {"GroupBecame"}, set()),
        ("wait sends Heart", {"Heartbeat", "HeartbeatReply"}, set()),
        ("wait lag payments within ", {"10s"}, {"within"}),
        ("events Group", {"GroupBecame"}, {"story"}),
        ("help kill", {"kill-coordinator"}, set()),
        ("nonsense ", set(), {"host="}),
    ],
)
def test_a_word_is_completed_from_actions_and_names(text: str, some: set[str], not_there: set[str]) -> None:
    found = {word for word, _ in completions(text, STATE)}
    assert some <= found
    assert not not_there & found
    assert {word for word, _ in completions(text, {})} >= some & {"kill-coordinator", "host=", "GroupBecame"}


def test_help_names_the_keys_of_an_action() -> None:
    assert [plain_text(line) for line in help_lines(["crash", "fly"])] == [
        "crash host= [mode=] [for=]",
        '"fly" is no action',
    ]
    assert "kill-coordinator" in plain_text(help_lines([])[1])


# --- lines -----------------------------------------------------------------------------------------------------------


def _plain(address: Address, orders: bytes, said: list[str]) -> Session:
    reader, writer = os.pipe()
    try:
        os.write(writer, orders)
        os.close(writer)
        return run_plain(address, said.append, reader)
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("orders", "code", "last"),
    [
        (b"", exits.HOLDS, "client app  up  1 connections: b0"),
        (b"heal\n", exits.HOLDS, "done: heal all faults: b1"),
        (b"\n  heal  ", exits.HOLDS, "done: heal all faults: b1"),
        (b"fly\nheal\n", exits.BAD_INPUT, "done: heal all faults: b1"),
        (b"wait lag payments 0 within 1s\nfly\n", exits.LIVENESS, 'refused: "fly" is no verb and no action'),
        (b"quit\nheal\n", exits.HOLDS, "client app  up  1 connections: b0"),
        (b"events bad\n", exits.BAD_INPUT, 'refused: "events" is no verb and no action'),
        (b"\xff\n", exits.BAD_INPUT, 'refused: "\N{REPLACEMENT CHARACTER}" is no verb and no action'),
    ],
)
def test_the_lines_of_the_input_are_orders_and_decide_the_exit_code(
    address: Address, orders: bytes, code: int, last: str
) -> None:
    said: list[str] = []
    session = _plain(address, orders, said)
    assert said[0].startswith("orders  01:05.250")
    assert said[-1] == last
    assert session.code == code
    assert not session.has_run_ended


def test_the_end_of_the_run_ends_the_console_and_an_order_without_an_answer_is_named(
    address: Address, control: FakeControl
) -> None:
    said: list[str] = []

    def end() -> None:
        control.paused.wait()
        control.say("00:01.000  b1 crashed")
        control.end()

    ending = threading.Thread(target=end)
    ending.start()
    session = _plain(address, b"pause host=b0 for=5s\nheal\n", said)
    ending.join()
    # The story and the answers have connections of their own, so either line may be first.
    assert sorted(said[-2:]) == ["00:01.000  b1 crashed", "no answer: pause host=b0 for=5s"]
    assert "heal" not in control.orders
    assert session.has_run_ended
    assert session.code == exits.BAD_INPUT


def test_an_order_after_the_end_of_the_run_loses_no_line_of_the_story(address: Address, control: FakeControl) -> None:
    said: list[str] = []
    waiting: list[Exchange] = []
    session = Session(address, lambda line: said.append(plain_text(line)), waiting)
    while session.is_busy:
        select.select(waiting, [], [])
        session.take(waiting[0])
    control.say("00:01.000  b1 crashed")
    control.end()

    session.order("heal")
    session.close()

    assert said == ["00:01.000  b1 crashed"]
    assert session.has_run_ended


def test_nobody_at_the_path_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for name in ("nothing", "file", "n" * 200):
        with pytest.raises(BadInput, match="no run takes orders there"):
            run_plain(Address(path=str(tmp_path / name)), print)


# --- the full screen -------------------------------------------------------------------------------------------------


def _on_screen(address: Address, *steps: Any) -> Screen:
    """Run the full screen; a step is typed text, or a function that is called again until it returns true."""

    async def run() -> Screen:
        with create_pipe_input() as keys:
            screen = Screen(address, terminal=keys, output=DummyOutput())

            async def act() -> None:
                for step in steps:
                    if isinstance(step, str):
                        keys.send_text(step)
                        continue
                    ends_s = time.monotonic() + PATIENCE_S
                    while not step(screen):
                        assert time.monotonic() < ends_s, (screen.typed, screen.story)
                        await asyncio.sleep(0.01)

            async with asyncio.TaskGroup() as tasks:
                acting = tasks.create_task(act())
                try:
                    await screen.run()
                except KeyboardInterrupt:
                    acting.cancel()
                    raise
            return screen

    return asyncio.run(run())


def _says(text: str) -> Any:
    return lambda screen: any(text in line for line in screen.story)


def test_the_screen_shows_the_state_and_the_story_and_takes_orders(address: Address, control: FakeControl) -> None:
    def told(screen: Screen) -> bool:
        control.say("00:01.000  b1 crashed")
        return bool(screen.session.state)

    screen = _on_screen(
        address, told, "fly\r", _says("refused"), "heal\r", _says("done: heal"), _says("b1 crashed"), "\x04"
    )
    assert screen.state == [plain_text(line) for line in state_lines(STATE)]
    orders = [line for line in screen.story if not line.endswith("crashed")]
    assert orders == ["> fly", 'refused: "fly" is no verb and no action', "> heal", "done: heal all faults: b1"]


def test_tab_completes_and_ctrl_d_in_a_line_does_not_end(address: Address) -> None:
    screen = _on_screen(
        address, lambda screen: screen.session.state, "hea\t", lambda screen: screen.typed == "heal", "\x04\r",
        _says("done: heal"), "\x04",
    )  # fmt: skip
    assert screen.story == ["> heal", "done: heal all faults: b1"]


def test_ctrl_c_interrupts_and_quit_ends(address: Address) -> None:
    with pytest.raises(KeyboardInterrupt):
        _on_screen(address, "half a line", "\x03")
    assert not _on_screen(address, "quit\r").session.has_run_ended


def test_the_end_of_the_run_ends_the_screen(address: Address, control: FakeControl) -> None:
    def end(screen: Screen) -> bool:
        control.end()
        return True

    assert _on_screen(address, lambda screen: screen.session.state, end).session.has_run_ended


def test_the_story_is_capped(address: Address, control: FakeControl) -> None:
    for _ in range(3):
        screen = _on_screen(address, lambda screen: screen.session.state, "\x04")
        for number in range(MOST_LINES + 10):
            screen.say((("", f"{number}"),))
        assert MOST_LINES * 0.8 < len(screen.story) <= MOST_LINES
        assert screen.story[-1] == f"{MOST_LINES + 9}"


# --- processes -------------------------------------------------------------------------------------------------------


class _Terminal:
    """``kemu console`` on a terminal of its own."""

    def __init__(self, address: str, **environment: str) -> None:
        self._main, side = os.openpty()
        termios.tcsetwinsize(side, (30, 100))
        self.before = termios.tcgetattr(side)
        self._side = side
        self.shown = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kemu", "console", address],
            stdin=side,
            stdout=side,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        os.set_blocking(self._main, False)

    def until(self, text: bytes) -> None:
        ends_s = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < ends_s, self.shown
            assert self.process.poll() is None or self._read(), (self.shown, self.process.communicate())
            self._read()
            time.sleep(0.02)

    def _read(self) -> bool:
        try:
            data = os.read(self._main, 65_536)
        except BlockingIOError:
            return False
        self.shown += data
        return bool(data)

    def type(self, keys: bytes) -> None:
        os.write(self._main, keys)

    def end(self) -> tuple[int, str, bool]:
        """Wait for the end; return the exit code, standard error, and whether the terminal is as it was."""
        ends_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < ends_s, self.shown
            self._read()
            time.sleep(0.02)
        self._read()
        assert self.process.stderr is not None
        errors = self.process.stderr.read().decode()
        self.process.stderr.close()
        is_as_before = termios.tcgetattr(self._side) == self.before
        os.close(self._main)
        os.close(self._side)
        return self.process.returncode, errors, is_as_before


INTERRUPTED = "interrupted; repeat with: kemu console {}\n"
ENDS = {
    "Ctrl-D": (exits.HOLDS, ""),
    "Ctrl-C": (exits.INTERRUPTED, INTERRUPTED),
    "SIGTERM": (exits.TERMINATED, INTERRUPTED),
    "SIGHUP": (exits.HANGUP, INTERRUPTED),
    "the end of the run": (exits.HOLDS, "the run has ended\n"),
}


@pytest.mark.usefixtures("in_a_terminal")
@pytest.mark.parametrize("term", ["xterm", "dumb"])
@pytest.mark.parametrize("end", ENDS)
def test_a_terminal_is_as_it_was_after_each_end(end: str, term: str, tmp_path: Path, control: FakeControl) -> None:
    """TERM=dumb: lines in place of a full screen."""
    path = str(tmp_path / "control")
    terminal = _Terminal(path, TERM=term)
    terminal.until(b"coordinator b0")
    control.say("00:01.000  b1 crashed")
    terminal.until(b"b1 crashed")
    match end:
        case "Ctrl-D":
            terminal.type(b"\x04")
        case "Ctrl-C" if term == "xterm":
            terminal.type(b"\x03")
        case "the end of the run":
            control.end()
        case _:
            terminal.process.send_signal(signal.SIGINT if end == "Ctrl-C" else signal.Signals[end])
    code, said = ENDS[end]
    assert terminal.end() == (code, said.format(path), True)
    assert (b"\x1b[?1049h" in terminal.shown) is (b"\x1b[?1049l" in terminal.shown) is (term == "xterm")


def test_a_served_cluster_takes_orders_from_lines_and_is_not_hurt(tmp_path: Path) -> None:
    """Over the socket and over HTTP: an action, a wait in vain, and a refused order; the cluster's verdict holds."""
    scenario = served_scenario(partitions=2, group="payments", replicated=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    in_vain = "wait group payments Stable within 1ms\nfly\n"
    orders = "leader orders-0\ncrash host=b1 mode=process for=2s\nwait broker b1 down within 5s\nwait broker b1 up\n"
    with serving(scenario, tmp_path, ["--control", str(port)]) as cluster:
        for place, more, code in ((str(cluster.control), "", exits.HOLDS), (str(port), in_vain, exits.LIVENESS)):
            done = subprocess.run(
                [sys.executable, "-m", "kemu", "console", place],
                input=orders + more,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
            assert done.returncode == code, done
            assert done.stderr == ""
            said = done.stdout.splitlines()
            assert [line for line in said if line.startswith("done: crash b1")]
            assert len([line for line in said if line.startswith("holds: broker b1")]) == 2
            assert [line for line in said if "b1 crashed" in line], said
            assert len([line for line in said if line.startswith("in vain")]) == bool(more)
            assert bool([line for line in said if line.startswith("refused")]) is bool(more)
        assert cluster.close() == "holds"
