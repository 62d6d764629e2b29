"""One attempt of whoever explores: does this scenario, with this seed, still break the same rule?

A violation is the same if the same checker finds the same kind, about entities that are the same in role: the same
group, a member of the same group, a partition of the same topic, a broker. So members and partitions may be numbered
anew when others are taken away.
"""

import re
import time
from collections.abc import Iterable, Mapping
from typing import TypeVar

from attrs import frozen

from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.listener import Listener
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.exploring.schedules import SentMessages
from kemu.emulator.findings import Violation
from kemu.emulator.runner import Run, result_of
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.recorder import Recorder
from kemu.protocol.names import host_of

T = TypeVar("T")

BROKEN = "broken"
"""In place of a checker's name: a machine failed an assertion of its own."""
LOOK_US = 500_000
"""How often a run is looked at, to end it as soon as it has shown what was asked for."""


@frozen
class Signature:
    """What makes two violations the same."""

    checker: str
    kind: str
    roles: tuple[str, ...]
    """What the entities are: "group g", "member of g", "partition of orders", "broker"; anything else as it is."""

    def words(self) -> str:
        """As reports say it: "one-owner two-owners (member of g, partition of orders)"."""
        about = f" ({', '.join(self.roles)})" if self.roles else ""
        return f"{self.checker} {self.kind}".rstrip() + about


class Roles:
    """What the entities of a scenario's violations are."""

    def __init__(self, scenario: Scenario) -> None:
        self._topics = sorted({*scenario.topics, *scenario.created_topics()}, key=len, reverse=True)
        self._groups = set(scenario.groups)
        self._group_of = {host: group for host, group, _ in scenario.member_names()}
        self._brokers = {*scenario.broker_names(), *scenario.added_broker_names()}

    def of(self, entity: str) -> str:
        """One entity's role."""
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
        """What makes another violation the same as this one."""
        roles = tuple(dict.fromkeys(self.of(entity) for entity in violation.entities))
        return Signature(violation.checker, violation.kind, roles)


def signature_of_broken(broke: str) -> Signature:
    """Of a machine that failed an assertion: what it said, numbers and names of hosts aside."""
    said = broke.splitlines()[0].partition(": ")[2] or broke
    return Signature(BROKEN, re.sub(r"\b[a-z]?\d+\b", "#", said)[:120], ())


@frozen
class Tried:
    """What a run found: the violations (a machine that broke is one) and their signatures."""

    found: Mapping[Signature, Violation]
    """By signature, the first of each, in the order of time."""
    expected: frozenset[Signature]
    """Those of them that the scenario expects."""
    digest: str = ""
    """Of its trace, if it was not ended early."""

    def worst(self) -> Signature | None:
        """The one that makes the verdict: something bad before something late, the first of each; None: it holds."""
        new = [(signature, each) for signature, each in self.found.items() if signature not in self.expected]
        bad = [signature for signature, each in new if not each.liveness]
        return next(iter([*bad, *(signature for signature, _ in new)]), None)


class Trials:
    """Runs scenarios for whoever explores, counted; ``listeners``, ``applications``: as ``runner.run`` takes them."""

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

    def run(
        self,
        scenario: Scenario,
        seed: int,
        until: Signature | None = None,
        *,
        recorder: Recorder | None = None,
        sent: SentMessages | None = None,
    ) -> Tried:
        """One run; it ends as soon as it has shown ``until``, unless that is something that comes too late.

        Args:
            recorder: told all of it.
            sent: keeps what is sent between hosts until everything is healed.

        Raises:
            ScenarioError: a configuration that a machine refuses.
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
            one.world.stopped = "it has shown what was asked for"
        elif one.world.now_us < one.scenario.ends_us:
            one.world.at(one.world.now_us + LOOK_US, look)

    one.world.at(LOOK_US, look)


def _shows(violations: Iterable[Violation], roles: Roles, wanted: Signature) -> bool:
    return any(not each.liveness and roles.signature(each) == wanted for each in violations)


def _of_hosts(given: Mapping[str, T] | None, hosts: set[str]) -> dict[str, T]:
    """Code of the caller's for members that are still there."""
    return {host: each for host, each in (given or {}).items() if host in hosts}
