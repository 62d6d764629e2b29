"""The draws of a member, mainly the work of its application, in proportion to the load of its topics."""

from collections.abc import Mapping
from math import isqrt

from kemu.emulator.chance import Choices
from kemu.emulator.draws import Drawn
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.draws import LOADED, MILLION, DrawName

SAID_BY_SETTINGS: Mapping[DrawName, str] = {
    DrawName.RECORD_WORK: "emulated_process_us_per_record",
    DrawName.CALLBACK_REVOKED: "emulated_on_revoked_ms",
    DrawName.CALLBACK_LOST: "emulated_on_lost_ms",
    DrawName.CALLBACK_ASSIGNED: "emulated_on_assigned_ms",
}
"""Draw -> consumer's key that replaces the draw if the scenario sets the key."""
AT_ONCE = 2
"""Number of other members of a process that start without slowing each other down, such as on two cores."""


def member_draws(
    choices: Choices,
    scenario: Scenario,
    group: str,
    owner: str,
    said: frozenset[str],
    *,
    warm: bool = False,
    busy: int = MILLION,
    process: str = "",
    began_us: int = 0,
) -> Drawn:
    """Return the draws of a member's life.

    Args:
        said: set keys of the member's configuration; a set key replaces the draw of the same time.
        warm: whether the member's process has run before.
        busy: load of the member's machine, a factor of ``LOADED`` and of the times for ids, in millionths; its
            square root is a factor of heartbeats' delays.
        process: name of the process that the member shares with others; "": its own.
        began_us: time at which this process started.
    """
    decided = [name for name, setting in SAID_BY_SETTINGS.items() if setting in said]
    if DrawName.RECORD_WORK in decided:
        decided.append(DrawName.POLL_WORK)
    without = tuple([name for name in decided if not scenario.draws.is_set(name)])
    if warm:
        without += (DrawName.FIRST_ID, DrawName.FIRST_JOIN)
    shares = work_shares(scenario, group)
    scaled = {name: share for name, share in shares.items() if not scenario.draws.is_set(name)}
    scaled |= dict.fromkeys(LOADED, busy)
    scaled[DrawName.HEARTBEAT_WAIT] = isqrt(busy * MILLION)
    scaled[DrawName.FIRST_ID] = busy
    if process:
        others = scenario.groups[group].members - 1
        scaled[DrawName.FIRST_ID] = busy * max(others, AT_ONCE) // AT_ONCE
        scaled[DrawName.FIRST_TURN] = busy * others // AT_ONCE
    scaled = {name: factor for name, factor in scaled.items() if factor != MILLION}
    return Drawn(choices, scenario.draws, owner, without=without, scaled=scaled, process=process, began_us=began_us)


def work_shares(scenario: Scenario, group: str) -> Mapping[DrawName, int]:
    """Return factors of the drawn work, in millionths. With these factors, members work at most ``group.load`` of their
    time.

    Work on records may use up to three quarters of the working time, and work of polls the rest. A waiting member polls
    whenever records arrive: at most once per record, and at most once per broker of its partitions and tick of a
    producer. Records that arrive during work wait for the next poll, so a member works slightly less.
    """
    draws, spec = scenario.draws, scenario.groups[group]
    load, work, record = (draws.of(name) for name in (DrawName.GROUP_LOAD, DrawName.POLL_WORK, DrawName.RECORD_WORK))
    if load is None or not spec.members:
        return {}
    polls = records = 0  # of one member in a million seconds
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
