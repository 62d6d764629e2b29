"""Messages held at a named point of the protocol: looked at, delivered in order, lost as TCP loses; and barriers."""

import pytest

import kemu as public
from kemu.tools.testkit.cluster import EmulatedCluster, NoEffect, NotInTime, stable

pytestmark = pytest.mark.trio

SESSION = {"session.timeout.ms": 10_000}


async def test_a_held_message_can_be_looked_at_and_delivered(kemu: EmulatedCluster) -> None:
    """The group waits for the sync of its leader; when that goes on, the generation completes."""
    group = await kemu.group(members=2, config=SESSION)
    with kemu.hold(api="SyncGroup", sender="c1") as held:
        assert held.messages == ()
        with pytest.raises(NoEffect, match="nothing of it is held"):
            held.deliver()
        await held.arrives(1, within_ms=10_000)
        (sync,) = held.messages
        assert (sync.api, sync.sender.split("/")[0], sync.message.generation) == ("SyncGroup", "c1", 1)
        assert sync.receiver.split("/")[0] == group.coordinator
        assert sync.sent_ms <= kemu.now_ms
        await kemu.sleep_ms(2_000)
        assert group.state == "CompletingRebalance"
        held.deliver()
        await group.until(stable, within_ms=1_000)
        assert held.messages == ()
    kemu.finish()


async def test_what_is_delivered_keeps_its_order_and_the_rest_stays(kemu: EmulatedCluster) -> None:
    """Heartbeats of two members: one goes on, the other's stays."""
    group = await kemu.group(members=2, config=SESSION)
    await group.until(stable)
    with kemu.hold(api="Heartbeat") as held:
        await held.arrives(2, within_ms=8_000)
        first, second = held.messages
        assert {first.sender, second.sender} == {"c1", "c2"}
        held.deliver(1)
        assert [each.sender for each in held.messages] == [second.sender]
        await held.arrives(2, within_ms=8_000)
        assert [each.sender for each in held.messages] == [second.sender, first.sender], "its next one is held again"
    await kemu.sleep_ms(3_000)
    assert stable(group)


async def test_a_message_is_lost_with_its_connection(kemu: EmulatedCluster) -> None:
    """The member learns of the disconnect, and joins again."""
    group = await kemu.group(members=2, config=SESSION)
    with kemu.hold(api="SyncGroup", sender="c2") as held:
        with pytest.raises(NoEffect, match="no message is held"):
            held.lose()
        await held.arrives(1, within_ms=10_000)
        held.lose()
        assert held.messages == ()
    await group.until(stable, within_ms=60_000)
    assert kemu.finish().verdict == "holds"


async def test_a_barrier_lets_all_go_when_all_are_there(kemu: EmulatedCluster) -> None:
    """JoinGroup of three members, whenever they come; until then nobody is a member."""
    group = await kemu.group(members=3, config=SESSION)
    with kemu.barrier(api="JoinGroup", count=3) as barrier:
        await barrier.arrives(2, within_ms=10_000)
        assert group.generation == -1
        await barrier.opens(within_ms=10_000)
        assert barrier.over
    assert kemu.notes("JoinPhaseCompleted") == []
    await group.until(stable, within_ms=10_000)
    assert group.members == ("c1", "c2", "c3")
    (completed, *_) = kemu.notes("JoinPhaseCompleted")
    assert completed.fact.generation == 1


async def test_a_barrier_that_never_fills_is_told(kemu: EmulatedCluster) -> None:
    await kemu.group(members=2, config=SESSION)
    with kemu.barrier(api="JoinGroup", count=3) as barrier:
        with pytest.raises(NotInTime, match="hold JoinGroup any -> any until those of 3 are there"):
            await barrier.opens(within_ms=2_000)
        with pytest.raises(NotInTime, match="5 are held"):
            await barrier.arrives(5, within_ms=1_000)


async def test_single_messages_are_rules_and_acts_too(kemu: EmulatedCluster) -> None:
    """``delay`` and ``lose``: the nth of an API from now on."""
    group = await kemu.group(members=2, config=SESSION)
    await group.until(stable)
    with kemu.rule("delay", api="Heartbeat", sender="c1", nth=2, by="4s") as late:
        await late.hits(1, within_ms=10_000)
    kemu.do("lose", api="Heartbeat", sender="c2")
    await kemu.sleep_ms(8_000)
    with pytest.raises(public.ScenarioError, match='"SincGroup" is no message; did you mean "SyncGroup"'):
        kemu.do("lose", api="SincGroup")
    assert [fault.fired for fault in kemu.finish().faults] == [1, 1]


async def test_what_was_held_and_delivered_is_a_scenario_that_runs_again_alike(kemu: EmulatedCluster) -> None:
    """Holding and delivering are lines of the plan."""
    group = await kemu.group(members=2, config=SESSION)
    with kemu.hold(api="SyncGroup", sender="c1") as held:
        await held.arrives(1)
        await kemu.sleep_ms(1_500)
        held.deliver()
        await group.until(stable)
    outcome = kemu.finish()

    given = kemu.as_scenario()
    again = public.run(given)

    def turns(result: public.Outcome) -> list[object]:
        return [(each.group, each.started_us, each.members, each.reason) for each in result.figures.rebalances]

    assert [type(entry.action).__name__ for entry in given.plan] == ["Hold", "Deliver"]
    assert [fault.fired for fault in again.faults] == [fault.fired for fault in outcome.faults]
    assert turns(again) == turns(outcome)
