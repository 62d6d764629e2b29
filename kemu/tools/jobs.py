"""Run work on several processes (``--jobs`` of the commands).

Callers get results in the order of the tasks, so the number of processes changes no output. A worker is a new
interpreter (multiprocessing's "spawn") with the import path of this process, so workers can import the user's code.
The work must be a function of a module, and all arguments and results must be picklable.
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

from kemu.tools.errors import CommandError
from kemu.tools.exits import BROKEN

T = TypeVar("T")
Work = Callable[..., T]

FEWEST_TASKS = 3
"""Without ``--jobs``, this process runs fewer tasks itself, because the start of a worker takes almost a second."""
AHEAD = 4
"""Number of tasks for each worker that are started before the caller has taken the next result."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def jobs_for(jobs: int | None, tasks: int) -> int:
    """Return the number of processes for a number of tasks; 1 means this process. ``jobs``: the value of ``--jobs``."""
    if jobs is None and tasks < FEWEST_TASKS:
        return 1
    return min(jobs or cores(), tasks)


class WorkerDied(CommandError):
    """A worker process ended before the end of its job."""

    exit_code = BROKEN


class PoolJob(Generic[T]):
    """One function call that waits in a queue, runs in a worker, or is done."""

    def __init__(self, name: str, work: Work[T], arguments: tuple[Any, ...]) -> None:
        self.name = name
        self.call = work, arguments
        self.done = False
        self.result: T
        self.error: BaseException | None = None

    def take(self) -> T:
        """Return the result of a finished call, or raise the exception of the call."""
        if self.error is not None:
            raise self.error
        return self.result

    def run_here(self) -> None:
        """Make the call in this process."""
        work, arguments = self.call
        self.result = work(*arguments)
        self.done = True


class Workers:
    """A context manager with worker processes that run jobs; the exit of the context kills the processes.

    Args:
        jobs: the number of processes; with 1, each job runs in this process during ``wait``.
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
        """Queue a job; ``name`` is its name in errors. If the first job cannot be pickled, use this process alone."""
        job = PoolJob(name, work, arguments)
        if self.jobs > 1 and not self._processes and not _can_be_sent(job):
            click.echo(f"{name} cannot be sent to another process: all runs use one process", err=True)
            self.jobs = 1
        self._waiting.append(job)
        self._dispatch()
        return job

    def drop(self, job: PoolJob[Any]) -> bool:
        """Remove a job from the queue; return False for a job that has started."""
        if job not in self._waiting:
            return False
        self._waiting.remove(job)
        return True

    def wait(self) -> PoolJob[Any]:
        """Wait until one more job is done, and return the job.

        Raises:
            WorkerDied: the worker process of a job ended.
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
        """Send queued jobs to idle workers; start a worker if no worker is idle."""
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
    """The error message for a worker process that ended during a job."""
    process.join()
    code = process.exitcode or 0
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    hint = " (out of memory?)" if code == -getattr(signal, "SIGKILL", 0) else ""
    return f"a worker process {how}{hint} in {job.name}; --jobs 1 repeats without workers"


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT, also for processes that start in this context, because Ctrl-C signals the whole process group."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """Run each call that arrives, and send (error, result) back, until the other process closes the connection."""
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
    """The error with the worker's traceback as a note; if pickling fails, a RuntimeError with the error's text."""
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
    """Call ``work`` with each task's arguments on several processes; yield results in the order of the tasks.

    Args:
        jobs: the number of processes; None: ``jobs_for`` chooses the number.
        name_of: returns the name of a task for errors, from the arguments of the task.
        finished: called with each result as soon as the result is known, in any order.

    Raises:
        WorkerDied: a worker process ended before the end of its task.
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
