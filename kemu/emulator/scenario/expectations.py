"""What a scenario says it will break: violations by checker, kind and subject.

A scenario that shows a known weakness expects its violations; they make no verdict then. An expectation that does not
come true is a failure, and so is every violation that no expectation names, of the same checker too.

A bare name of a checker, as files of old have it, stands for the one kind of violation that the checker finds first;
if it finds others besides, these count. ``may`` is for what happens in some seeds only: it may come true, and need not.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from attrs import field, frozen

from kemu.emulator.findings import KINDS, STAYS_BLOCKED, Violation
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.tables import Problem, nearest

NOUNS = ("group", "member", "partition", "topic", "broker", "producer", "host")
"""A subject may begin with what it is: "group billing" is the same as "billing"."""
UNMET = "expectations"
"""The checker that an expectation which did not come true is reported under."""


@frozen(kw_only=True)
class Expectation:
    """Violations that a scenario is to bring about. ``kind`` and ``subject`` "": see the module.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    checker: str = field(metadata=key("which checker speaks", choices=lambda: KINDS, what="checker"))
    kind: str = field(default="", metadata=key("how its rule is broken", shown="whatever it finds first"))
    subject: str = field(default="", metadata=key('what it is about: "group g", "c2", "orders-0"', shown="anything"))
    may: bool = field(default=False, metadata=key("whether it need not come true"))

    def __attrs_post_init__(self) -> None:
        problems = list(problems_of(self))
        if not problems and self.kind and self.kind not in (kinds := KINDS[self.checker]):
            problems.append(
                Problem(("kind",), f'"{self.kind}" is no kind of {self.checker}{nearest(self.kind, kinds)}')
            )
        refuse(problems)

    @property
    def words(self) -> str:
        """As reports say it: "liveness not-at-rest of group g"."""
        said = " ".join(word for word in (self.checker, self.kind) if word)
        return f"{said} of {self.subject}" if self.subject else said

    def names(self, violation: Violation) -> bool:
        """Whether this is about a violation."""
        noun, _, name = self.subject.partition(" ")
        subject = name if name and noun in NOUNS else self.subject
        return (
            violation.checker == self.checker
            and violation.kind == (self.kind or violation.kind)
            and (not subject or subject in violation.entities)
        )


OF_KAFKAS_OWN = tuple(Expectation(checker=checker, kind=kind, may=True) for checker, kind in STAYS_BLOCKED)
"""What stands still in some runs under random faults, as it would in Kafka: sweeps expect it, and say where it was."""


def stood_still(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Those of them that are Kafka's own."""
    return tuple(each for each in violations if (each.checker, each.kind) in STAYS_BLOCKED)


def _one(given: object) -> object:
    return Expectation(checker=given) if isinstance(given, str) and given in KINDS else given


Expected: TypeAlias = str | Expectation


def expectations(given: str | Iterable[Expected]) -> tuple[Expectation, ...]:
    """Expectations as a field takes them: one, several, or names of checkers. What is none is left as it is: whoever
    checks the field says what is wrong.
    """
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    return tuple(_one(each) for each in given)  # type: ignore[misc]


def split(
    violations: Sequence[Violation], expect: Sequence[Expectation]
) -> tuple[tuple[Violation, ...], tuple[Expectation, ...]]:
    """The violations that nobody expected, and the expectations that did not come true."""
    left = list(violations)
    unmet = []
    for each in expect:
        found = [violation for violation in violations if each.names(violation)]
        if found and not each.kind:
            found = [violation for violation in found if violation.kind == found[0].kind]
        left = [violation for violation in left if violation not in found]
        if not found and not each.may:
            unmet.append(each)
    return tuple(left), tuple(unmet)
