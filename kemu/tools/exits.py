"""Exit codes of commands, and verdicts of runs."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

HOLDS = 0
NOT_FOUND_AGAIN = 1
BAD_INPUT = 2
NONDETERMINISM = 3
BROKEN = 127
LIVENESS = 128
CORRECTNESS = 129
INTERRUPTED = 130

MEANING: Mapping[int, str] = {
    HOLDS: "every rule holds",
    NOT_FOUND_AGAIN: "a replayed trace differs from today's machines, or a past bug was not caught",
    BAD_INPUT: "bad input",
    NONDETERMINISM: "two runs of the same scenario and seed gave different traces",
    BROKEN: "the program failed, or made step after step without progress of virtual time",
    LIVENESS: "a required event did not happen in time",
    CORRECTNESS: "a forbidden event happened",
    INTERRUPTED: "interrupted (Ctrl-C); the finished part of the results is printed",
}
"""Exit code -> meaning. The help, ``kemu describe exits`` and docs/words.md print these texts."""


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
