"""End a step that loops for ever in a machine, or in the user's assignor or application.

``StepWatch`` adds no work to the steps of a run. A thread checks regularly whether the same step is still running, and
how much CPU time the process has used since the step began. Shorter steps are never disturbed, so no trace depends on
the watch.
"""

import sys
import threading
import time
from types import CodeType, FrameType, TracebackType
from typing import Protocol

STEP_CPU_S = 60.0
"""Longest CPU time of one step in seconds, far beyond the longest search of an assignor."""
LOOKS_A_STEP = 20
"""Number of checks within ``STEP_CPU_S``."""
THREAD_NAME = "kemu step watch"


class EndlessStep(BaseException):
    """Raised inside a step that has used more CPU time than ``STEP_CPU_S``."""


class Steps(Protocol):
    """A counter of steps."""

    steps: int


class StepWatch:
    """A context in which an endless step of the entering thread raises ``EndlessStep``.

    Args:
        world: counts the steps.
        taken_by: the code of the function that takes a step; the watch ends no other code.
    """

    def __init__(self, world: Steps, taken_by: CodeType) -> None:
        self._world = world
        self._taken_by = taken_by
        self._watched = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name=THREAD_NAME)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _watch(self) -> None:
        steps, since_s = -1, 0.0
        while not self._over.wait(STEP_CPU_S / LOOKS_A_STEP):
            if self._world.steps != steps:
                steps, since_s = self._world.steps, time.process_time()
            elif time.process_time() - since_s > STEP_CPU_S and self._steps_now():
                import ctypes

                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._watched), ctypes.py_object(EndlessStep))
                since_s = time.process_time()

    def _steps_now(self) -> bool:
        """Whether the thread is inside a function that the step has called."""
        frame: FrameType | None = sys._current_frames().get(self._watched)
        while frame is not None:
            caller = frame.f_back
            if caller is not None and caller.f_code is self._taken_by and frame.f_code.co_name == "step":
                return True
            frame = caller
        return False


def place_of(error: BaseException) -> str:
    """Return the place of an exception, as "replica.py:318"."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    return "" if found is None else f"{found.tb_frame.f_code.co_filename.rpartition('/')[2]}:{found.tb_lineno}"
