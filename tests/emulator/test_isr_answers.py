"""AlterIsr: what a lost answer to the controller's ISR write makes of the ISR."""

import pytest

from kemu.emulator.draws import DrawSet
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions import Crash, Duplicate, Hold
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.runner import run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import DEFAULT_DRAWS, Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.watching.panel import Panel
from kemu.protocol.replication import IsrPath

S = 1_000_000


def scenario(plan: Plan, *, calm: bool = False) -> Scenario:
    """Two partitions on every broker, short sessions and lags, no group; ``calm``: an exact rhythm."""
    config = {"replica.fetch.backoff.ms": 200, "replica.high.watermark.checkpoint.interval.ms": 1_000}
    replication = ReplicationSpec(session_us=2 * S, lag_us=4 * S, isr_path=IsrPath.CONTROLLER, config=config)
    return Scenario(
        name="isr-answers",
        duration_us=35 * S,
        brokers=BrokersSpec(replication=replication, config={"offsets.topic.num.partitions": 1}),
        topics={"orders": TopicSpec(partitions=2, records_per_s=40)},
        producers={"request.timeout.ms": 2_000},
        draws=DrawSet("calm" if calm else DEFAULT_DRAWS),
        checks=ChecksSpec(stable_within_us=30 * S),
        plan=plan,
    )


def _plan(*rows: tuple[float, Action]) -> Plan:
    return tuple(At(int(at_s * S), action) for at_s, action in rows)


LOST_ANSWERS = _plan(
    (8, Hold(sender="b2", api="Fetch", for_us=10 * S)),
    (9, Duplicate(api="StoreOps", sender="b0", nth=1)),
    (9, Duplicate(api="StoreOps", sender="b1", nth=1)),
)
"""A follower falls out of the ISR; the answers to the leaders' ISR writes are lost with their connections."""

UNDECIDED_EXPAND = _plan(
    (7, Hold(sender="b2", api="Fetch", for_us=8 * S)),
    (14.2, Hold(sender="zk", receiver="b0", for_us=8 * S)),
    (14.2, Hold(sender="zk", receiver="b1", for_us=8 * S)),
    (15.5, Hold(sender="b2", api="Fetch", for_us=7 * S)),
)
"""b2 joins the ISRs again, the store's answers to the leaders are late, and b2 falls behind meanwhile."""


@pytest.mark.parametrize(("plan", "calm"), [(LOST_ANSWERS, True), (LOST_ANSWERS, False), (UNDECIDED_EXPAND, True)])
def test_a_lost_answer_to_the_controllers_isr_write_is_kafkas_own_disagreement(plan, calm):
    """AlterIsr: the controller does not know its write, the leader waits for another epoch (see ``UnknownIsrs``)."""
    panel = Panel()
    made = scenario(plan, calm=calm)
    result = run(made, seed=1, loop="bare", panel=panel)

    assert not result.broke and not result.violations
    unknown = panel.unknown_isrs.of(("orders", 0))
    assert unknown is not None and unknown.leader_waits
    assert unknown.believed_isr != panel.states["orders", 0].isr


@pytest.mark.parametrize("plan", [LOST_ANSWERS, UNDECIDED_EXPAND])
def test_a_lost_answer_is_forgotten_with_the_next_election(plan):
    """A broker's process comes back: the controller reads the states that it writes, and all agree again."""
    panel = Panel()
    faults = (*plan, At(26 * S, Crash(host="b1", mode="process", for_us=4 * S)))
    result = run(scenario(faults, calm=True), seed=1, loop="bare", panel=panel)

    assert not result.broke and not result.violations
    assert panel.unknown_isrs.of(("orders", 0)) is None
    assert sorted(panel.states["orders", 0].isr) == [0, 1, 2]
