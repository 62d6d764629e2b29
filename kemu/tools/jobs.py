"""Run work on several processes (``--jobs`` of the commands).

Results are taken in the order of the work, so the number of processes changes no output. A worker is a new interpreter
(multiprocessing's "spawn") with the import path of this process, so it finds the user's code. The work must be a
function of a module, and its arguments and results must be picklable.
"""

import multiprocessing
import os
import pickle
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import click

from kemu.tools.exits import BROKEN

T = TypeVar("T")
Work = Callable[..., T]

FEWEST_TASKS = 3
"""Without ``--jobs``, fewer tasks are done in this process: a worker needs most of a second to start."""
AHEAD = 4
"""Number of tasks for each worker that may be finished before the next result in order."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def jobs_for(jobs: int | None, tasks: int) -> int:
    """Return the number of processes for a number of tasks, 1: this process. ``jobs``: the option's value."""
    if jobs is None and tasks < FEWEST_TASKS:
        return 1
    return min(jobs or cores(), tasks)


class WorkerDied(click.ClickException):
    """A worker process ended during its work."""

    exit_code = BROKEN


class PoolJob(Generic[T]):
    """One call: waiting, running in a worker, or done."""

    def __init__(self, name: str, work: Work[T], arguments: tuple[Any, ...]) -> None:
        self.name = name
        self.call = work, arguments
        self.done = False
        self.result: T
        self.error: BaseException | None = None

    def take(self) -> T:
        """Return the result of a job that is done, or raise its error."""
        if self.error is not None:
            raise self.error
        return self.result

    def run_here(self) -> None:
        """Do the work in this process."""
        work, arguments = self.call
        self.result = work(*arguments)
        self.done = True


class Workers:
    """Processes that run jobs. The end of the context kills them.

    Args:
        jobs: the number of processes; with 1, each job runs in this process when its result is awaited.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._waiting: deque[PoolJob[Any]] = deque()
        self._processes: dict[Connection, SpawnProcess] = {}
        self._running: dict[Connection, PoolJob[Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes.values():
            process.kill()
        for connection, process in self._processes.items():
            process.join()
            connection.close()
        self._processes.clear()

    def start(self, name: str, work: Work[T], *arguments: Any) -> PoolJob[T]:
        """Queue a job; ``name`` is for the error if its worker dies. A call that cannot be sent ends the workers."""
        job = PoolJob(name, work, arguments)
        if self.jobs > 1 and not self._processes and not _can_be_sent(job):
            click.echo(f"{name} cannot be sent to another process: all runs use one process", err=True)
            self.jobs = 1
        self._waiting.append(job)
        self._dispatch()
        return job

    def drop(self, job: PoolJob[Any]) -> bool:
        """Remove a job from the queue; return False if it has started."""
        if job not in self._waiting:
            return False
        self._waiting.remove(job)
        return True

    def wait(self) -> PoolJob[Any]:
        """Wait until one more job is done, and return it.

        Raises:
            WorkerDied: the process of a job ended.
        """
        if self.jobs == 1:
            job = self._waiting.popleft()
            job.run_here()
            return job
        assert self._running, "no job is under way"
        (ready, *_) = wait([*self._running])
        assert isinstance(ready, Connection)
        job = self._running.pop(ready)
        try:
            job.error, job.result = ready.recv()
        except (EOFError, ConnectionError):
            raise WorkerDied(_death(job, self._processes[ready])) from None
        job.done = True
        self._dispatch()
        return job

    def _dispatch(self) -> None:
        """Give waiting jobs to idle workers; start a worker if none is idle."""
        while self.jobs > 1 and self._waiting and len(self._running) < self.jobs:
            idle = [connection for connection in self._processes if connection not in self._running]
            connection = idle[0] if idle else self._new_worker()
            job = self._waiting.popleft()
            self._running[connection] = job
            try:
                connection.send(job.call)
            except ConnectionError:  # the worker died: ``wait`` reports its end
                return

    def _new_worker(self) -> Connection:
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
        with _without_interrupts():
            process.start()
        there.close()
        self._processes[here] = process
        return here


def _can_be_sent(job: PoolJob[Any]) -> bool:
    try:
        pickle.dumps(job.call)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True


def _death(job: PoolJob[Any], process: SpawnProcess) -> str:
    """The text of the error when a worker dies."""
    process.join()
    code = process.exitcode or 0
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    hint = " (out of memory?)" if code == -getattr(signal, "SIGKILL", 0) else ""
    return f"a worker process {how}{hint} in {job.name}; --jobs 1 repeats without workers"


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT, also for processes that start meanwhile: a Ctrl-C reaches the whole process group."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """Answer each call with (error, result) until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        answer: tuple[BaseException | None, Any]
        try:
            work, arguments = connection.recv()
            answer = None, work(*arguments)
        except (EOFError, ConnectionError):
            return
        except BaseException as error:
            answer = _sendable(error), None
        try:
            connection.send(answer)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            connection.send((_sendable(error), None))


def _sendable(error: BaseException) -> BaseException:
    """The error with the worker's traceback as a note; another error with its text if it cannot be pickled."""
    error.add_note(f"In the worker process:\n{traceback.format_exc()}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def in_order(
    jobs: int | None,
    work: Work[T],
    tasks: Sequence[tuple[Any, ...]],
    name_of: Callable[..., str],
    finished: Callable[[T], None] = lambda result: None,
) -> Iterator[Iterator[T]]:
    """Call ``work`` with each task's arguments on several processes; the results come in the order of the tasks.

    Args:
        jobs: the number of processes; None: as many as the tasks are worth.
        name_of: the name of a task, from its arguments.
        finished: called with each result at once, in any order.

    Raises:
        WorkerDied: a worker process ended.
    """
    with Workers(jobs_for(jobs, len(tasks))) as workers:

        def results() -> Iterator[T]:
            left = iter(tasks)
            started: deque[PoolJob[T]] = deque()
            at_once = workers.jobs * AHEAD
            while True:
                while len(started) < at_once and (task := next(left, None)) is not None:
                    started.append(workers.start(name_of(*task), work, *task))
                if not started:
                    return
                while not started[0].done:
                    job = workers.wait()
                    if job.error is None:
                        finished(job.result)
                yield started.popleft().take()

        yield results()
