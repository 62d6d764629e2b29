"""Strategies: which schedules come next, smallest first, and what came to something new is varied first."""

import shlex
from itertools import islice

import pytest

from kemu.emulator.exploring.schedules import (
    SEED_ORDER,
    STRATEGIES,
    OrderStrategy,
    Ran,
    SentMessage,
    StrategyOptions,
    as_do,
)
from kemu.emulator.plan.actions import LateMessage, LinkPriorities, TieOrder
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.scenario.files import load_scenario, with_actions

S = 1_000_000
SENT = [
    SentMessage("Heartbeat", "c1", "b0", 1),
    SentMessage("JoinGroup", "c1", "b0", 1),
    SentMessage("Heartbeat", "c1", "b0", 2),
    SentMessage("SyncGroup", "c1", "b0", 1),
    SentMessage("StoreOps", "b0", "admin", 1),
]
ONE_SPAN = StrategyOptions(spans_us=(S,), hosts=("c1", "b0"))


def schedules(strategy: OrderStrategy, count: int, new: tuple[Plan, ...] = ()) -> list[Plan]:
    """The next so many, each run sending the same; ``new``: those that come to something new."""
    found = []
    for _ in range(count):
        schedule = strategy.next()
        if schedule is None:
            break
        found.append(schedule)
        strategy.learn(Ran(schedule=schedule, sent=SENT, new=int(schedule in new)))
    return found


def late(*which: tuple[str, int], by_us: int = S) -> Plan:
    return tuple(At(0, LateMessage(api=api, sender="c1", receiver="b0", nth=nth, by_us=by_us)) for api, nth in which)


def test_delays_are_enumerated_smallest_first_and_rare_messages_before_frequent_ones() -> None:
    """Every set of up to two, none twice, none of a host that no plan can name; then there are none left."""
    found = schedules(STRATEGIES["delays"](ONE_SPAN), 100)

    join, sync, first, second = ("JoinGroup", 1), ("SyncGroup", 1), ("Heartbeat", 1), ("Heartbeat", 2)
    assert found[:5] == [SEED_ORDER, late(join), late(sync), late(first), late(second)]
    assert len(found) == len(set(found)) == 1 + 4 + 6
    assert {frozenset(each) for each in found[5:]} == {
        frozenset(late(a, b)) for a, b in ((first, join), (first, second), (first, sync), (join, second), (join, sync))
    } | {frozenset(late(second, sync))}


def test_what_came_to_something_new_is_varied_before_its_turn() -> None:
    """Another span, one more delay; in turns with the systematic list, which keeps its order."""
    kept = late(("JoinGroup", 1))
    found = schedules(STRATEGIES["delays"](ONE_SPAN), 7, new=(kept,))

    assert found[1] == kept
    after = found[2:]
    assert late(("JoinGroup", 1), by_us=2 * S) in after
    assert late(("JoinGroup", 1), by_us=S // 2) in after
    assert [each for each in after if each in (late(("SyncGroup", 1)), late(("Heartbeat", 1)))] == [
        late(("SyncGroup", 1)),
        late(("Heartbeat", 1)),
    ]


def test_only_messages_that_are_asked_for_are_delayed() -> None:
    options = StrategyOptions(spans_us=(S, 3 * S), messages=("SyncGroup",), bound=1)
    found = schedules(STRATEGIES["delays"](options), 10)

    assert found == [SEED_ORDER, late(("SyncGroup", 1)), late(("SyncGroup", 1), by_us=3 * S)]


def test_ties_and_priorities_are_numbered_after_the_seeds_own_order() -> None:
    """Change points are drawn among as many messages as the plain run has; depth d needs d - 1 of them."""
    options = StrategyOptions(grain_us=5_000, within_us=2 * S, depth=4)
    ties = schedules(STRATEGIES["ties"](options), 3)
    pct = schedules(STRATEGIES["pct"](options), 3)

    assert ties == [SEED_ORDER, *((At(0, TieOrder(order=n, grain_us=5_000)),) for n in (1, 2))]
    assert pct[1:] == [
        (At(0, LinkPriorities(order=n, within_us=2 * S, changes=3, messages=len(SENT))),) for n in (1, 2)
    ]


def test_the_plain_strategy_is_the_seeds_own_order_once() -> None:
    assert schedules(STRATEGIES["plain"](ONE_SPAN), 5) == [SEED_ORDER]


@pytest.mark.parametrize("strategy", ["ties", "pct", "delays"])
def test_a_schedule_can_be_said_on_the_command_line(strategy: str) -> None:
    """What is printed is what ran."""
    scenario = load_scenario("steady-group")
    for schedule in islice(schedules(STRATEGIES[strategy](ONE_SPAN), 9), 1, 9):
        said = [shlex.split(shlex.quote(as_do(entry)))[0] for entry in schedule]
        assert with_actions(scenario, said).plan == (*scenario.plan, *schedule)
