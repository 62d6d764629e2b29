"""Deliberate one-line breaks of the product, and what must catch each: tests of the tests and of the checkers.

Every module here has a list ``MUTATIONS`` of (file, old text, new text, caught by, runs). The old text stands exactly
once in the file. ``caught by`` is the name of a checker, a checker and the kind of what it finds
(``"reassignment/unnamed"``), ``"broken"`` (a machine's own assertion), or a test (a pytest node id). ``runs`` (may be
left out) are the runs the checker watches: a preset or a TOML file beside this one, a colon, and how many seeds.
``own`` in place of a number is the seed in the file.
``tests/test_mutation_canary.py`` applies one at a time to a copy of the packages.
"""

from typing import NamedTuple

ORDINARY = ("coordinator-failover-stable:3", "gc-pause-zombie:2", "rolling-restart-dynamic:1", "topic-grows:1")
"""Runs that a break of anything usual shows in."""
OWN = "own"
"""In place of a number of seeds: the seed in the scenario's file."""


class Mutation(NamedTuple):
    """One break."""

    file: str
    old: str
    new: str
    caught_by: str
    runs: tuple[str, ...] = ORDINARY
