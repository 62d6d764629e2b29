"""Violations that a scenario expects, by checker, kind and subject.

A scenario that shows a known weakness expects its violations. Expected violations do not change the verdict. The run
fails if an expected violation does not occur, or if another violation occurs, even of the same checker.

The bare name of a checker stands for the first kind of violation that the checker finds. Other kinds remain unexpected.
``may`` marks a violation that occurs in some seeds only.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from attrs import field

from kemu.emulator.findings import STAYS_BLOCKED, Violation, expected_among, kinds_by_checker
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.tables import Problem, nearest
from kemu.protocol.frozen import frozen

UNMET = "expectations"
"""The name of the checker in reports about expected violations that did not occur."""


@frozen(kw_only=True)
class Expectation:
    """Violations that a scenario expects. An empty ``kind`` means the first kind that the checker finds, an empty
    ``subject`` any subject.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    checker: str = field(metadata=key("name of the checker", choices=kinds_by_checker, what="checker"))
    kind: str = field(default="", metadata=key("kind of the violation", shown="the first that is found"))
    subject: str = field(default="", metadata=key('subject of the violation: "group g", "c2", "orders-0"', shown="any"))
    may: bool = field(default=False, metadata=key("whether the violation may be absent"))

    def __attrs_post_init__(self) -> None:
        problems = list(problems_of(self))
        if not problems and self.kind and self.kind not in (kinds := kinds_by_checker()[self.checker]):
            problems.append(
                Problem(("kind",), f'"{self.kind}" is no kind of {self.checker}{nearest(self.kind, kinds)}')
            )
        refuse(problems)

    @property
    def words(self) -> str:
        """Return a description of the expectation: "liveness not-at-rest of group g"."""
        said = " ".join(word for word in (self.checker, self.kind) if word)
        return f"{said} of {self.subject}" if self.subject else said


def of_kafkas_own() -> tuple[Expectation, ...]:
    """Violations that Kafka itself would show in some runs under random faults. Sweeps expect and report these
    violations.
    """
    return tuple(Expectation(checker=checker, kind=kind, may=True) for checker, kind in STAYS_BLOCKED)


def stood_still(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Return the violations that Kafka itself would show."""
    return tuple(each for each in violations if (each.checker, each.kind) in STAYS_BLOCKED)


def _one(given: object) -> object:
    return Expectation(checker=given) if isinstance(given, str) and given in kinds_by_checker() else given


Expected: TypeAlias = str | Expectation


def expectations(given: str | Iterable[Expected]) -> tuple[Expectation, ...]:
    """Convert names of checkers, or one text with commas, to expectations. Other values are returned unchanged, for a
    later check.
    """
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    return tuple(_one(each) for each in given)  # type: ignore[misc]


def split(
    violations: Sequence[Violation], expect: Sequence[Expectation]
) -> tuple[tuple[Violation, ...], tuple[Expectation, ...]]:
    """Return the unexpected violations, and the expectations without a violation."""
    left = list(violations)
    unmet = []
    for each in expect:
        found = expected_among(violations, each.checker, each.kind, each.subject)
        left = [violation for violation in left if violation not in found]
        if not found and not each.may:
            unmet.append(each)
    return tuple(left), tuple(unmet)
