"""Every preset that moves partitions, with controllers and brokers that die in the midst of its steps, many seeds each.

``python -m tests.soak_reassignment --seeds 1:300`` prints one line per preset, and one for every run that is not as it
should be: all checkers on (no committed record lost, no replica left where it does not belong), and in the end every
partition has arrived, or waits for what the controller named (nobody to go to, a replica that is not in sync). Four of
five seeds run a cheaper form of the preset (an append a second, no longer than a minute), so that 300 seeds of all take
some twenty minutes on one core. A verdict says whether no host crashed, because the drawn moment never came. It also
lists what did not recover for reasons of Kafka's own (``kemu.emulator.findings.STAYS_DEGRADED``); what stays blocked
for such a reason (``STAYS_BLOCKED``) has a line of its own.
``tests/emulator/cluster/test_reassignment_soak.py`` runs the same over a few seeds.
"""

import argparse
from collections.abc import Sequence
from functools import partial

import attrs

from kemu.emulator.chance import Seeded
from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import Crash, PartitionsReassignment
from kemu.emulator.plan.entries import At, Noted, When
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.presets import presets
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.notes.replication import (
    BecameController,
    ReassignmentFinished,
    ReassignmentStarted,
    ReassignmentStepStarted,
    ReassignmentWaits,
)
from tests.soaking import made, report, said, seeds_of, standing, sweep


def _moves(name: str) -> bool:
    return any(isinstance(entry.action, PartitionsReassignment) for entry in load_scenario(name).plan)


PRESETS = tuple(each.name for each in presets() if _moves(each.name))
MOMENTS = ("ReassignmentStepStarted", "ReassignmentStepCommitted")
MOST_CRASHES = 3
LONGEST_US, AFTER_US = 60_000_000, 20_000_000
"""How long a cheaper run lasts, if nothing of its plan comes later; and how long after that."""
AS_IT_IS_EVERY = 5
"""Of so many seeds one runs the preset as it is."""


class Waiting:
    """An observer: which partitions are on their way, and what the controller last said they wait for."""

    def __init__(self) -> None:
        self.for_what: dict[tuple[str, int], str] = {}

    def wants(self, kind: type) -> bool:
        """What the controller says of reassignments."""
        moves = (ReassignmentStarted, ReassignmentStepStarted, ReassignmentWaits, ReassignmentFinished)
        return kind is BecameController or kind in moves

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        fact = seen.fact
        if type(fact) is BecameController:
            # it will say what the store has; what it has not was never accepted
            self.for_what = {}
            return
        at = (fact.topic, fact.partition)
        if type(fact) is ReassignmentFinished:
            self.for_what.pop(at, None)
        elif type(fact) is ReassignmentStepStarted:
            self.for_what[at] = fact.waits_for
        else:
            self.for_what[at] = fact.why if type(fact) is ReassignmentWaits else ""


def cheap(scenario: Scenario) -> Scenario:
    """Fewer appends, which are most of a run's steps, and no time after everything has happened."""
    fewer = with_values(scenario, ("emulated.batch.interval.ms=1000",))
    last_us = max(entry.at_us for entry in scenario.plan if isinstance(entry, At))
    return attrs.evolve(fewer, duration_us=min(fewer.duration_us, max(LONGEST_US, last_us + AFTER_US)))


def drawn(name: str, seed: int, *, as_it_is: bool, settings: Sequence[str] = ()) -> Scenario:
    """A preset in which, 1 to 3 times, the controller or a broker dies when a step begins or is committed.

    Args:
        settings: ``KEY=VALUE`` of the scenario on top (``with_values``).
    """
    scenario = with_values(load_scenario(name), settings)
    if not as_it_is:
        scenario = cheap(scenario)
    chance = Seeded(seed).stream("crashes mid-step")
    entries = []
    for _ in range(1 + chance.below(MOST_CRASHES)):
        host = "controller" if chance.below(2) else f"b{chance.below(scenario.brokers.count)}"
        moment = Noted(note=MOMENTS[chance.below(2)], nth=1 + chance.below(8))
        crash = Crash(host=host, mode=("power", "process")[chance.below(2)], for_us=chance.between(1, 15) * 1_000_000)
        entries.append(When(moment, crash, after_us=chance.below(3) * chance.below(1_000_000)))
    return attrs.evolve(scenario, plan=(*scenario.plan, *entries))


def one_seed(name: str, seed: int, *, as_it_is: bool = False, settings: Sequence[str] = ()) -> tuple[str, str]:
    """The verdict, and what is wrong with the run."""
    waiting = Waiting()
    scenario = drawn(name, seed, as_it_is=as_it_is or seed % AS_IT_IS_EVERY == 0, settings=settings)
    result = made(scenario, seed=seed, observers=(waiting,))
    if result.verdict != "holds":
        return result.verdict, said(result)
    moves = result.figures.reassignment
    named = sum(1 for why in waiting.for_what.values() if why)
    left = moves.unfinished if moves is not None else 0
    if left > named:
        return "stuck", f"{left} partitions did not arrive, {named} of them wait for a named reason: {waiting.for_what}"
    died = any(fault.fired for fault in result.faults[len(load_scenario(name).plan) :])
    stays = "".join(f", {why}" for why in dict.fromkeys(each.why for each in result.unmended))
    return ("waits" if left else "arrived") + ("" if died else " (nobody died)") + stays + standing(result), ""


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="1:300")
    parser.add_argument("--presets", default=",".join(PRESETS))
    chosen = parser.parse_args()
    cases = [(name, partial(one_seed, name)) for name in chosen.presets.split(",")]
    report(sweep(cases, chosen.seeds))


if __name__ == "__main__":
    main()
