"""A controller that does nothing when a broker dies is caught in nearly every replicated preset in which one dies.

To each preset one line is added: a broker loses power for 40 s. Each broker is tried in turn, at two moments: the
death of the controller itself, of a broker that leads nothing, or one after which the preset's own plan elects another
controller, shows nothing.
"""

import inspect
from collections.abc import Iterator
from itertools import product

import pytest

from kemu.actors.controller import brokers
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.expectations import split
from kemu.emulator.scenario.files import load_scenario, with_actions
from kemu.emulator.scenario.presets import presets
from kemu.emulator.scenario.scenario import Scenario

BREAKS = {
    "no election when a broker dies": (
        "PartitionPhase.OFFLINE)\n        yield from self._machine.partitions.trigger_online()\n",
        "PartitionPhase.OFFLINE)\n",
    ),
    "no broker ever dies": (
        "        dead = [broker for broker in known if broker not in now]\n",
        "        dead: list[int] = []\n",
    ),
}
REPLICATED = [each.name for each in presets() if load_scenario(each.name).brokers.replication is not None]
MOMENTS_US = (20_000_000, 12_000_000)
FOR_US, WITHIN_US = 40_000_000, 60_000_000
ENOUGH = 25
SAMPLE = ("replicated-steady", "slow-follower")


def broken_methods(old: str, new: str) -> Iterator[tuple[str, object]]:
    """The controller part's methods, from its source with this text changed."""
    text = inspect.getsource(brokers)
    assert text.count(old) == 1, old
    namespace: dict[str, object] = {"__name__": brokers.__name__}
    exec(compile(text.replace(old, new), brokers.__file__, "exec"), namespace)
    for name, method in vars(namespace["BrokerChanges"]).items():
        if inspect.isfunction(method):
            yield name, method


def with_a_death(name: str, broker: str, at_us: int) -> Scenario:
    seconds = at_us // 1_000_000
    return with_actions(
        load_scenario(name), [f"crash host={broker} at={seconds}s for={FOR_US // 1_000_000}s mode=power"]
    )


def spoken_after_us(result: RunResult, scenario: Scenario, at_us: int) -> int | None:
    """How long after the broker's death something that the preset does not expect is found; None: never."""
    found = [each.at_us for each in split(result.violations, scenario.expect)[0] if each.at_us >= at_us]
    return min(found) - at_us if found else None


def caught_after_us(name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """How long after the death of a broker the checkers speak, for the first broker by whose death they do."""
    for at_us, broker in product(MOMENTS_US, load_scenario(name).broker_names()):
        scenario = with_a_death(name, broker, at_us)
        with monkeypatch.context() as broken:
            for method, code in broken_methods(*BREAKS[what]):
                broken.setattr(brokers.BrokerChanges, method, code)
            after_us = spoken_after_us(run(scenario, seed=1, loop="bare"), scenario, at_us)
        if after_us is not None and after_us <= WITHIN_US:
            assert spoken_after_us(run(scenario, seed=1, loop="bare"), scenario, at_us) is None, (
                "the checkers speak without the break, too"
            )
            return after_us
    return None


@pytest.mark.parametrize("what", BREAKS)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_controller_that_ignores_a_death_is_caught_within_a_minute(name, what, monkeypatch):
    assert caught_after_us(name, what, monkeypatch) is not None


@pytest.mark.soak
@pytest.mark.parametrize("what", BREAKS)
def test_a_controller_that_ignores_a_death_is_caught_in_nearly_every_preset(what, monkeypatch):
    after_us = {name: caught_after_us(name, what, monkeypatch) for name in REPLICATED}

    missed = [name for name, each in after_us.items() if each is None]
    print(f"{what}: caught in {len(REPLICATED) - len(missed)} of {len(REPLICATED)} presets; not in {missed}")
    assert len(REPLICATED) - len(missed) >= ENOUGH
