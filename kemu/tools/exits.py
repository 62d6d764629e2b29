"""What a command's exit code says."""

from collections.abc import Iterable, Mapping

HOLDS = 0
NOT_FOUND_AGAIN = 1
BAD_INPUT = 2
NONDETERMINISM = 3
BROKEN = 127
LIVENESS = 128
CORRECTNESS = 129

OF_VERDICT: Mapping[str, int] = {
    "holds": HOLDS,
    "liveness": LIVENESS,
    "violated": CORRECTNESS,
    "livelock": BROKEN,
    "broken": BROKEN,
}
"""A run's verdict as an exit code."""

MEANING: Mapping[int, str] = {
    HOLDS: "everything held",
    NOT_FOUND_AGAIN: "a replayed trace differs from today's machines; a past bug was not caught",
    BAD_INPUT: "bad input",
    NONDETERMINISM: "the same run gave two different traces",
    BROKEN: "the program broke, or did the same again and again while virtual time stood still",
    LIVENESS: "something good did not happen in time",
    CORRECTNESS: "something bad happened",
}


def worst(verdicts: Iterable[str]) -> int:
    """The exit code of many runs: a broken program hides everything, a wrong result hides a late one."""
    codes = {OF_VERDICT[verdict] for verdict in verdicts}
    return next((code for code in (BROKEN, CORRECTNESS, LIVENESS) if code in codes), HOLDS)
