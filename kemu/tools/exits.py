"""Exit codes of commands, and verdicts of runs."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

HOLDS = 0
NOT_FOUND_AGAIN = 1
BAD_INPUT = 2
NONDETERMINISM = 3
BROKEN = 7
LIVENESS = 8
CORRECTNESS = 9
BUG = 70
NO_OUTPUT = 74
HANGUP = 129
INTERRUPTED = 130
TERMINATED = 143

MEANING: Mapping[int, str] = {
    HOLDS: "done; every rule holds",
    NOT_FOUND_AGAIN: "a replayed trace differs from today's machines, or a past bug was not caught",
    BAD_INPUT: "bad input",
    NONDETERMINISM: "two runs of the same scenario and seed gave different traces",
    BROKEN: "a machine, a checker or the user's code raised, virtual time made no progress, or a table is inconsistent",
    LIVENESS: "a required event did not happen in time",
    CORRECTNESS: "a forbidden event happened",
    BUG: "a bug in kemu; the message names a file with the details",
    NO_OUTPUT: "the output cannot be written",
    HANGUP: "the terminal was closed (SIGHUP); else as 130",
    INTERRUPTED: "interrupted (Ctrl-C); the finished part of the results is printed",
    TERMINATED: "terminated (SIGTERM); else as 130",
}
"""Exit code -> meaning: help, ``kemu describe exits`` and docs/words.md print these texts.

After a signal, the code is 128 and the number of the signal, as in a shell. All other codes are below 126.
"""

_OF_RUNS = (BROKEN, LIVENESS, CORRECTNESS)
_OF_SWEEPS = (NONDETERMINISM, *_OF_RUNS)
_BESIDE: Mapping[str, tuple[int, ...]] = {
    "run": _OF_SWEEPS,
    "compare": _OF_SWEEPS,
    "swarm": _OF_SWEEPS,
    "coverage": _OF_SWEEPS,
    "campaign": _OF_SWEEPS,
    "advise": _OF_RUNS,
    "scale": _OF_RUNS,
    "serve": _OF_RUNS,
    "console": (LIVENESS,),
    "explore": _OF_RUNS,
    "bugs": (NOT_FOUND_AGAIN, *_OF_RUNS),
    "replay": (NOT_FOUND_AGAIN, NONDETERMINISM),
    "history": (BROKEN, CORRECTNESS),
    "analyze": (BROKEN,),
}
"""Command -> its exit codes beside those of every command."""


def exits_of(command: str) -> tuple[int, ...]:
    """Return the exit codes of a command, without those of an error of the system or an interrupt."""
    return tuple(sorted((HOLDS, BAD_INPUT, *_BESIDE.get(command, ()))))


class RunVerdict(NamedTuple):
    """A verdict of runs: the exit code of the command, and the meaning of the verdict."""

    exit_code: int
    meaning: str


VERDICTS: Mapping[str, RunVerdict] = {
    "holds": RunVerdict(HOLDS, "No checker found a violation, apart from those that the scenario expects."),
    "liveness": RunVerdict(
        LIVENESS,
        "A required event did not happen in time: for example, a group is not Stable within its bound after the last"
        " fault.",
    ),
    "violated": RunVerdict(
        CORRECTNESS,
        "A forbidden event happened: for example, two members owned one partition, or an acknowledged record is lost.",
    ),
    "livelock": RunVerdict(
        BROKEN, "The emulator ended the run because machines made too many steps at one instant of virtual time."
    ),
    "unjudged": RunVerdict(HOLDS, "The logs of the trace state too few facts for any checker (kemu import-log)."),
    "broken": RunVerdict(BROKEN, "An assertion of a machine or a checker failed, or the user's code failed."),
}
"""Every verdict of a run."""

OF_VERDICT: Mapping[str, int] = {name: verdict.exit_code for name, verdict in VERDICTS.items()}
"""Verdict of a run -> exit code."""


def worst(verdicts: Iterable[str]) -> int:
    """Return the exit code of several runs.

    Precedence: a broken program, then a violation of correctness, then a violation of liveness.
    """
    codes = {OF_VERDICT[verdict] for verdict in verdicts}
    return next((code for code in (BROKEN, CORRECTNESS, LIVENESS) if code in codes), HOLDS)
