"""One trial of a search: a run that shows whether a scenario with a seed still breaks the same rule.

Violations are the same if the same checker finds the same kind, about entities with the same roles. A role is the
group, a member of the group, a partition of the topic, or a broker. So shrinking may renumber the remaining members and
partitions.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.listener import Listener
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.exploring.schedules import SentMessages
from kemu.emulator.findings import Violation
from kemu.emulator.runner import Run, result_of
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.recorder import Recorder
from kemu.protocol.frozen import frozen
from kemu.protocol.names import host_of

T = TypeVar("T")

BROKEN = "broken"
"""Stands for a checker's name if an assertion of a machine failed."""
LOOK_US = 500_000
"""Interval between two looks for the wanted violation during a run, in us."""


@frozen
class Signature:
    """Identifies equal violations."""

    checker: str
    kind: str
    roles: tuple[str, ...]
    """The entities' roles: "group g", "member of g", "partition of orders", "broker"; other entities by name."""

    def words(self) -> str:
        """The signature in a report: "one-owner two-owners (member of g, partition of orders)"."""
        about = f" ({', '.join(self.roles)})" if self.roles else ""
        return f"{self.checker} {self.kind}".rstrip() + about


class Roles:
    """The roles of entities in a scenario's violations."""

    def __init__(self, scenario: Scenario) -> None:
        self._topics = sorted({*scenario.topics, *scenario.created_topics()}, key=len, reverse=True)
        self._groups = set(scenario.groups)
        self._group_of = {host: group for host, group, _ in scenario.member_names()}
        self._brokers = {*scenario.broker_names(), *scenario.added_broker_names()}

    def of(self, entity: str) -> str:
        """The role of an entity."""
        host = host_of(entity)
        if entity in self._groups:
            return f"group {entity}"
        if host in self._group_of:
            return f"member of {self._group_of[host]}"
        if host in self._brokers:
            return "broker"
        topic, dash, number = entity.rpartition("-")
        if dash and number.isdecimal():
            return f"partition of {topic}"
        return re.sub(r"\d+", "#", entity)

    def signature(self, violation: Violation) -> Signature:
        """The signature of a violation."""
        roles = tuple(dict.fromkeys(self.of(entity) for entity in violation.entities))
        return Signature(violation.checker, violation.kind, roles)


def signature_of_broken(broke: str) -> Signature:
    """The signature of a failed assertion: its text without numbers and host names."""
    text = broke.splitlines()[0].partition(": ")[2] or broke
    return Signature(BROKEN, re.sub(r"\b[a-z]?\d+\b", "#", text)[:120], ())


@frozen
class Tried:
    """The violations of a run and their signatures. A failed assertion is a violation, too."""

    found: Mapping[Signature, Violation]
    """Signature -> the first violation with this signature."""
    expected: frozenset[Signature]
    """The signatures of violations that the scenario expects."""
    digest: str = ""
    """Digest of the trace; "" if the run was ended early."""

    def worst(self) -> Signature | None:
        """The signature of the violation that decides the verdict; None if the run holds. Forbidden events precede late
        events.
        """
        new = [(signature, each) for signature, each in self.found.items() if signature not in self.expected]
        bad = [signature for signature, each in new if not each.liveness]
        return next(iter([*bad, *(signature for signature, _ in new)]), None)


class Trials:
    """Runs scenarios for a search and counts the runs. ``listeners``, ``applications``: as in ``runner.run``."""

    ahead = 0
    """The number of scenarios that ``expect`` takes; 0: none."""

    def __init__(
        self,
        *,
        profile: str | None = None,
        listeners: Mapping[str, Listener] | None = None,
        applications: Mapping[str, ApplicationFactory] | None = None,
    ) -> None:
        self.profile = profile
        self.runs = 0
        self._listeners = listeners
        self._applications = applications

    def expect(self, scenarios: Sequence[Scenario], seed: int, until: Signature) -> None:
        """Announce the probable next runs, soonest first. A subclass may start these runs."""

    def run(
        self,
        scenario: Scenario,
        seed: int,
        until: Signature | None = None,
        *,
        recorder: Recorder | None = None,
        sent: SentMessages | None = None,
    ) -> Tried:
        """Run once, until the run has shown ``until`` (unless ``until`` is a liveness violation).

        Args:
            recorder: records the whole run.
            sent: records the messages between hosts until the faults end.

        Raises:
            ScenarioError: a machine refuses its configuration.
        """
        self.runs += 1
        hosts = {host for host, _, _ in scenario.member_names()}
        one = Run(
            scenario,
            seed=seed,
            profile=self.profile,
            loop="bare",
            listeners=_of_hosts(self._listeners, hosts),
            applications=_of_hosts(self._applications, hosts),
            recorder=recorder,
        )
        if sent is not None:
            one.world.network.install(sent)
            one.world.at(scenario.heal_at_us, sent.stop)
        roles = Roles(scenario)
        if until is not None:
            _end_when_shown(one, roles, until)
        began_s = time.perf_counter()
        broke = one.run_with(run_plain)
        result = result_of(one, seed, one.profile, "bare", broke, began_s)
        violations = result.violations
        unexpected, _ = split(violations, scenario.expect)
        if broke:
            violations = (Violation(BROKEN, one.world.now_us, one.world.steps, (), broke), *violations)
            unexpected = violations
        found: dict[Signature, Violation] = {}
        for each in violations:
            found.setdefault(_signature(roles, each), each)
        new = {_signature(roles, each) for each in unexpected}
        return Tried(found, frozenset(found.keys() - new), "" if until is not None else result.digest)


def _signature(roles: Roles, violation: Violation) -> Signature:
    return signature_of_broken(violation.text) if violation.checker == BROKEN else roles.signature(violation)


def _end_when_shown(one: Run, roles: Roles, until: Signature) -> None:
    (watched,) = [each for each in one.judging.checkers if each.name == until.checker] or (None,)
    if watched is None:
        return
    checker, looked = watched, 0

    def look() -> None:
        nonlocal looked
        new, looked = checker.violations[looked:], len(checker.violations)
        if _shows(new, roles, until):
            one.world.stopped = "the wanted violation was shown"
        elif one.world.now_us < one.scenario.ends_us:
            one.world.at(one.world.now_us + LOOK_US, look)

    one.world.at(LOOK_US, look)


def _shows(violations: Iterable[Violation], roles: Roles, wanted: Signature) -> bool:
    return any(not each.liveness and roles.signature(each) == wanted for each in violations)


def _of_hosts(given: Mapping[str, T] | None, hosts: set[str]) -> dict[str, T]:
    """The caller's code for members that the shrunk scenario still has."""
    return {host: each for host, each in (given or {}).items() if host in hosts}
