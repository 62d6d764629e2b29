"""The tables of the page that compares the classic and the consumer protocol."""

from typing import Any

import pytest

from kemu.tools.commands.compare import variants_of
from lab.side_by_side import (
    CONSUMER,
    INTERVALS_OF,
    PAGE,
    SHOWN,
    TABLES,
    MeasuredEvent,
    at_interval,
    costs_of,
    measured_events,
    option_table,
    phases,
    table,
    with_table,
)

EVENTS = measured_events()
JOIN = MeasuredEvent("join", "a member joins", '--do "add-members group=g at=40s"', protocols=("classic", CONSUMER))


def answer(classic: list[int] | None, consumer: list[int]) -> dict[str, Any]:
    """An answer of ``kemu compare`` whose figures all have these values by seed."""
    given = (("classic", classic), (CONSUMER, consumer))
    return {
        "variants": [
            {"protocol": name, "assignors": "", "by_seed": dict.fromkeys(SHOWN, values) if values else {}}
            for name, values in given
        ]
    }


def test_the_cost_of_an_event_is_without_the_start_of_its_group() -> None:
    """Seed by seed, and of the same protocol."""
    costs = costs_of(answer([5, 6], [9, 10]), answer([0, 1], [7, 7]))
    assert costs["classic"]["moved"] == [5, 5]
    assert costs[CONSUMER]["moved"] == [2, 3]


def test_a_cell_is_better_or_worse_only_if_the_differences_exclude_0() -> None:
    """The medians of the last table differ, and the differences of its seeds do not have one sign."""
    sure = list(table([(JOIN, costs_of(answer([5] * 40, [2] * 40), None))]))
    unsure = list(table([(JOIN, costs_of(answer([5] * 40, [2] * 15 + [6] * 25), None))]))
    idle = list(table([(JOIN, costs_of(answer([5] * 40, []), None))]))
    assert sure[2] == "| a member joins | classic | 0.00 | 0.00 | 5 | 5 |"
    assert sure[3].endswith("| 2 better | 2 better |")
    assert unsure[3].endswith("| 6 [2, 6] | 6 [2, 6] |")
    assert idle[3] == "|  | consumer | - | - | - | - |"


def test_an_interval_is_that_of_both_protocols() -> None:
    """The classic setting comes after the switch to a classic group, which the scenario is not."""
    words = at_interval(INTERVALS_OF[0], 1).words
    changes = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    assert changes[:2] == ["group.protocol=classic", "heartbeat.interval.ms=1000"]
    assert "group.consumer.heartbeat.interval.ms=1000" in changes


def test_the_page_has_the_events_and_their_options() -> None:
    """No event of the page is another one than the command's, and every table is there."""
    page = PAGE.read_text(encoding="utf-8")
    listed = page.partition("<!-- table: options -->")[2].splitlines()
    assert [line for line in listed if line.startswith("|")] == list(option_table(measured_events()))
    assert len({event.name for event in EVENTS}) == len(EVENTS)
    for name in (*TABLES, "intervals", "options"):
        assert with_table(page, name, ["x"]) != page
    assert {event.said for event in INTERVALS_OF} <= {event.said for event in EVENTS}
    with pytest.raises(ValueError, match="no lines"):
        with_table(page, "nothing", [])


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_the_protocols_of_a_call_are_known(event: MeasuredEvent) -> None:
    """``kemu compare`` takes them."""
    assert len(variants_of(None, None, "kafka-4.0", ",".join(event.protocols))) == len(event.protocols)


def test_the_phases_of_heartbeats_differ_by_seed() -> None:
    """Of both protocols: no two members of a group share a phase, and no two seeds share one."""
    for protocol in ("classic", CONSUMER):
        drawn = [phases(protocol, seed) for seed in (1, 2)]
        assert len(set(drawn[0] + drawn[1])) == 12
        assert all(each[-1] - each[0] > 0.3 for each in drawn)
