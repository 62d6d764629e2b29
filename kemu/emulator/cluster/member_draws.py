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
    choices: Choices,
    scenario: Scenario,
    group: str,
    owner: str,
    said: frozenset[str],
    *,
    warm: bool = False,
    busy: int = MILLION,
) -> Drawn:
    """The draws of a member's life.

    ``said``: the settings it has, which go before draws of the same thing. ``warm``: its process has run others before.
    ``busy``: how much of what is drawn its machine takes to go on with something, in millionths.
    """
    decided = [name for name, setting in SAID_BY_SETTINGS.items() if setting in said]
    if DrawName.RECORD_WORK in decided:
        decided.append(DrawName.POLL_WORK)
    without = frozenset(name for name in decided if not scenario.draws.is_set(name))
    if warm:
        without |= {DrawName.FIRST_JOIN}
    shares = work_shares(scenario, group)
    scaled = {name: share for name, share in shares.items() if not scenario.draws.is_set(name)}
    scaled |= dict.fromkeys((DrawName.HAND_OVER, DrawName.FOLLOWER_SYNC, DrawName.FIRST_JOIN), busy)
    return Drawn(choices, scenario.draws, owner, without=without, scaled=scaled)


def work_shares(scenario: Scenario, group: str) -> Mapping[DrawName, int]:
    """How much of the drawn work counts, in millionths, so that members work ``group.load`` of their time at most.

    Records first, up to three quarters of that; what is left is for polls. Each time something arrives a member that
    waits polls and works: at most once a record, and at most once for each broker of its partitions and each of a
    producer's ticks. (What arrives while it works waits for the next poll, so that it works a little less than that.)
    """
    draws, spec = scenario.draws, scenario.groups[group]
    load, work, record = (draws.of(name) for name in (DrawName.GROUP_LOAD, DrawName.POLL_WORK, DrawName.RECORD_WORK))
    if load is None or not spec.members:
        return {}
    polls = records = 0  # in a million seconds, of one member
    for name in spec.subscribed_to(scenario.topics):
        topic = scenario.topics.get(name)
        if topic is None or not topic.records_per_s:
            continue
        mine = topic.records_per_s * MILLION // spec.members
        tick_us = scenario.producer_config(name).emulated_batch_interval_ms * 1_000
        answers = min(scenario.brokers.count, -(-topic.partitions // spec.members))
        polls += min(mine, answers * MILLION * MILLION // max(tick_us, 1))
        records += mine
    if not records:
        return {}
    shares: dict[DrawName, int] = {}
    by_records = records * (0 if record is None else record.mean) // MILLION
    if by_records > (most := load.mean * 3 // 4):
        shares[DrawName.RECORD_WORK] = MILLION * most // by_records
        by_records = most
    if work is not None and work.mean:
        work_us = MILLION * (load.mean - by_records) // polls
        shares[DrawName.POLL_WORK] = min(MILLION, work_us * MILLION // work.mean)
    return shares
