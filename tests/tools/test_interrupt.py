"""An interrupt (Ctrl-C) ends a sweep between two results, never within one."""

import os
import signal
import threading
import time

import click
import pytest

from kemu.emulator.text.tables import ScenarioError
from kemu.tools.cli import kemu
from kemu.tools.interrupt import Interrupt, signals_interrupt

pytestmark = pytest.mark.usefixtures("in_a_terminal")


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_result_that_is_counted_is_also_printed():
    counted, printed = [], []
    interrupt = Interrupt()
    with interrupt:
        for number in range(3):
            with interrupt.deferred():
                counted.append(number)
                if number == 1:
                    ctrl_c()
                printed.append(number)

    assert interrupt.happened
    assert counted == printed == [0, 1]


def test_an_interrupt_while_a_result_is_awaited_ends_the_sweep_at_once():
    interrupt = Interrupt()
    with interrupt:
        ctrl_c()
        pytest.fail("the context did not end")

    assert interrupt.happened


def test_bad_input_passes_and_another_error_waits_until_the_finished_results_are_printed():
    interrupt = Interrupt()
    with pytest.raises(ScenarioError), interrupt:
        raise ScenarioError([])
    assert not interrupt.happened

    with interrupt, interrupt.deferred():
        raise ZeroDivisionError

    assert interrupt.happened
    with click.Context(kemu, info_name="run"), pytest.raises(ZeroDivisionError):
        interrupt.exit(1, 3, "runs")


@pytest.mark.parametrize("start_s", [0.0, 0.05])
def test_an_interrupt_in_a_destructor_is_not_lost(
    start_s: float, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Python prints and forgets the KeyboardInterrupt of a destructor.

    On a busy computer, the main thread goes on long after it has started another thread.
    """
    start = threading.Thread.start

    def slow_start(self: threading.Thread) -> None:
        start(self)
        time.sleep(start_s)

    monkeypatch.setattr(threading.Thread, "start", slow_start)

    class Interrupted:
        def __del__(self) -> None:
            ctrl_c()
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt), signals_interrupt():
        Interrupted()
        time.sleep(10)

    assert capsys.readouterr().err == ""
