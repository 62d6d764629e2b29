"""``--jobs``: equal results in the same order, interrupts, and the death of a worker."""

import os
import re
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from kemu.emulator.text.tables import ScenarioError
from kemu.tools.cli import kemu
from kemu.tools.commands import run as run_command
from kemu.tools.commands.run import run_seed
from kemu.tools.exits import BROKEN, INTERRUPTED, NONDETERMINISM
from kemu.tools.jobs import WorkerDied, cores, in_order, jobs_for
from tests.tools.work_for_workers import dies, name_of, not_sendable, refuses, slow_first

HASHED = "tests.tools.determinism.hashing:ByHash"
"""An assignor of the user."""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(kemu, arguments)


# --- the pool --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_tasks(jobs: int) -> None:
    """The first task takes longest; ``finished`` gets each result at once."""
    finished: list[int] = []
    with in_order(jobs, slow_first, [(number,) for number in range(6)], name_of, finished.append) as results:
        assert [*results] == [0, 1, 4, 9, 16, 25]

    assert sorted(finished) == [0, 1, 4, 9, 16, 25]
    assert (finished[0] == 0) is (jobs == 1)


def test_an_error_comes_at_its_place_with_the_text_that_it_has_in_one_process() -> None:
    """The text has the line of the file, which another process cannot look up."""
    with in_order(2, refuses, [(number,) for number in range(5)], name_of) as results:
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(ScenarioError, match=r"^a\.toml:7: groups\.g: is refused$") as caught:
            next(results)

    assert caught.value.problems[0].text == "is refused"


def test_the_death_of_a_worker_names_the_signal_and_the_work() -> None:
    """Instead of an endless wait."""
    with (
        in_order(2, dies, [(number,) for number in range(4)], name_of) as results,
        pytest.raises(WorkerDied, match=r"ended by SIGKILL \(out of memory\?\) in task 1; --jobs 1 repeats"),
    ):
        list(results)


def test_work_that_cannot_be_sent_is_done_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    """A note says why the other cores are idle."""
    with in_order(2, lambda number: number + 1, [(1,), (2,), (3,)], name_of) as results:
        assert [*results] == [2, 3, 4]

    assert capsys.readouterr().err == "task 1 cannot be sent to another process: all runs use one process\n"


def test_a_result_that_cannot_be_sent_is_an_error_not_a_wait() -> None:
    """The worker lives on."""
    with in_order(2, not_sendable, [(1,), (2,)], name_of) as results, pytest.raises(Exception, match="not_sendable"):
        next(results)


def test_few_tasks_need_no_worker_unless_the_user_asks() -> None:
    """A worker starts in most of a second."""
    assert [jobs_for(None, tasks) for tasks in (1, 2, 100)] == [1, 1, min(cores(), 100)]
    assert [jobs_for(4, tasks) for tasks in (1, 2, 100)] == [1, 2, 4]


# --- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "run steady-group --seeds 1:2 --set duration=5s",
        "compare steady-group --profiles kafka-2.4,kafka-3.4 --seeds 1:2 --set duration=10s --format json",
        "swarm steady-group --seeds 4:5",
        "coverage steady-group --seeds 1:2 --set duration=10s --faults 1 --format json",
        "bugs --find KAFKA-7152 --seeds 1:5",
        "explore steady-group --runs 5 --set duration=10s --draws",
        "explore steady-group --runs 5 --set duration=10s --seeds 1:2 --strategy ties --format json",
    ],
)
def test_two_processes_print_the_same_as_one(command: str) -> None:
    """Byte for byte."""
    one, two = (call(*command.split(), "--jobs", jobs) for jobs in ("1", "2"))

    assert (two.exit_code, two.stdout) == (one.exit_code, one.stdout), two.output
    assert one.exit_code == 0, one.output


@pytest.mark.usefixtures("repeated")
def test_a_sweep_on_two_processes_repeats_the_same_sample_of_its_runs() -> None:
    """Once, by the process that takes no other part."""
    done = call("run", "steady-group", "--seeds", "1:3", "--set", "duration=10s", "--jobs", "2")

    assert "1 run of 3 repeated in another process: equal" in done.stderr


@pytest.mark.usefixtures("repeated")
def test_an_assignor_of_the_user_works_in_workers() -> None:
    """It is found by the import path of this process. It depends on hashes, so the repeated run differs."""
    task = ("steady-group", "--seeds", "1:2", "--set", "duration=10s", "--set", f"assignors=['{HASHED}']")
    done = call("run", *task, "--jobs", "2")

    assert "2 of 2 hold" in done.stdout, done.output
    assert done.exit_code == NONDETERMINISM


def test_a_dead_worker_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 7."""
    monkeypatch.setattr(run_command, "run_seed", _dies_here)

    done = call("run", "steady-group", "--seeds", "1:4", "--jobs", "2")

    assert done.exit_code == BROKEN
    assert re.fullmatch(r"error: a worker process .* in the run of steady-group with seed \d; .*\n", done.stderr)


def _dies_here(*task: object) -> None:
    os._exit(3)


# --- interrupts ------------------------------------------------------------------------------------------------------


def test_an_interrupt_leaves_the_table_of_the_finished_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the command for the others."""

    def interrupted(scenario: object, seed: int, *rest: object) -> object:
        if seed == 3:
            raise KeyboardInterrupt
        return run_seed(scenario, seed, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(run_command, "run_seed", interrupted)
    words = ("run", "steady-group", "--seeds=1:9", "--set", "duration=10s", "--jobs", "1")

    text, data = call(*words), call(*words, "--format", "json")

    assert text.exit_code == data.exit_code == INTERRUPTED
    assert "seeds 1 to 2\n2 of 2 hold" in text.stdout
    rest = "interrupted: 2 of 9 runs finished; continue with: kemu run steady-group --seeds 3:9"
    rest += " --set duration=10s --jobs 1"
    assert text.stdout.endswith(f"{rest}\n")
    assert data.stderr == f"{rest} --format json\n"
    assert '"interrupted": {\n    "finished": 2,\n    "of": 9\n  }' in data.stdout


@pytest.mark.usefixtures("in_a_terminal")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_all_processes_at_once(jobs: str) -> None:
    """A terminal sends the signal to the whole process group."""
    words = ["swarm", "steady-group", "--seeds", "1:500", "--jobs", jobs]
    sweep = subprocess.Popen(
        [sys.executable, "-m", "kemu", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert sweep.stdout is not None and sweep.stderr is not None
    with sweep:
        first = sweep.stdout.readline()
        os.killpg(sweep.pid, signal.SIGINT)
        rest, errors = sweep.stdout.read(), sweep.stderr.read()  # communicate() would skip the lines that are buffered

    lines = [first, *rest.splitlines()]
    done = sum(1 for line in lines if re.match(r" +\d+  holds", line))
    assert sweep.returncode == INTERRUPTED, errors
    assert errors == ""
    assert f"{done} of {done} hold" in lines
    assert lines[-1] == (
        f"interrupted: {done} of 500 runs finished; continue with: "
        f"kemu swarm steady-group --seeds {done + 1}:500 --jobs {jobs}"
    )
