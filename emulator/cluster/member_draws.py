"""What a member draws: the work of its application above all, in proportion to what its topics bring."""

from collections.abc import Mapping

from kemu.emulator.chance import Choices
from kemu.emulator.draws import Drawn
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.draws import MILLION, DrawName

SAID_BY_SETTINGS: Mapping[DrawName, str] = {
    DrawName.RECORD_WORK: "emulated_process_us_per_record",
    DrawName.CALLBACK_REVOKED: "emulated_on_revoked_ms",
    DrawName.CALLBACK_LOST: "emulated_on_lost_ms",
    DrawName.CALLBACK_ASSIGNED: "emulated_on_assigned_ms",
}
"""Draws that a consumer's key decides where it is set."""


def member_draws(
    choices: Choices, scenario: Scenario, group: str, owner: str, said: frozenset[str], *, warm: bool = False
) -> Drawn:
    """The draws of a member's life.

    ``said``: the settings it has, which go before draws of the same thing. ``warm``: its process has run others before.
    """
    decided = [name for name, setting in SAID_BY_SETTINGS.items() if setting in said]
    if DrawName.RECORD_WORK in decided:
        decided.append(DrawName.POLL_WORK)
    without = frozenset(name for name in decided if not scenario.draws.is_set(name))
    if warm:
        without |= {DrawName.FIRST_JOIN}
    scaled = {} if scenario.draws.is_set(DrawName.POLL_WORK) else {DrawName.POLL_WORK: work_share(scenario, group)}
    return Drawn(choices, scenario.draws, owner, without=without, scaled=scaled)


def work_share(scenario: Scenario, group: str) -> int:
    """How much of a poll's drawn work counts, in millionths, so that members work ``group.load`` of their time at most.

    When something new arrives for a member every G us on average, one that works W us for each poll that returned
    something and then polls again works W of W + G us. Something arrives with each of a producer's ticks, or more
    rarely if a member's part of the records does.
    """
    draws, spec = scenario.draws, scenario.groups[group]
    load, work, record = (draws.of(name) for name in (DrawName.GROUP_LOAD, DrawName.POLL_WORK, DrawName.RECORD_WORK))
    if load is None or work is None or not work.mean or not spec.members:
        return MILLION
    arrivals = records = 0
    for topic in spec.topics:
        if topic not in scenario.topics or not scenario.topics[topic].records_per_s:
            continue
        rate = scenario.topics[topic].records_per_s
        tick_us = scenario.producer_config(topic).emulated_batch_interval_ms * 1_000
        arrivals += min(rate * MILLION // spec.members, MILLION * MILLION // max(tick_us, 1))
        records += rate * MILLION // spec.members
    if not arrivals:
        return MILLION
    gap_us = MILLION * MILLION // arrivals
    by_records = min(records * (record.mean if record is not None else 0) // MILLION, load.mean)
    work_us = gap_us * (load.mean - by_records) // (MILLION - min(load.mean, MILLION - 1))
    return min(MILLION, work_us * MILLION // work.mean)
