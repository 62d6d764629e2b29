"""What a checker is: an observer of facts that says what must not have happened.

The same object runs online, over a trace file afterwards, and inside Spark. It sees every fact once, in order, keeps
only what it needs, and is cheap per fact; what needs the whole run is said in ``finish``.
"""

from attrs import frozen

from emulator.facts import Seen


@frozen
class Violation:
    """A rule that was broken: when, by whom, and the entities it is about (for grouping and shrinking)."""

    checker: str
    at_us: int
    seq: int
    entities: tuple[str, ...]
    text: str
    liveness: bool = False
    """False: something bad happened. True: something good did not happen in time."""


class Checker:
    """Base of all checkers; ``name`` is their row in ``CHECKERS``."""

    name = ""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        raise NotImplementedError

    def finish(self, at_us: int) -> None:
        """The run is over at this time of the world."""

    def violation(self, seen: Seen, entities: tuple[str, ...], text: str, *, liveness: bool = False) -> None:
        """Say that the rule is broken."""
        self.violations.append(Violation(self.name, seen.at_us, seen.seq, entities, text, liveness))
