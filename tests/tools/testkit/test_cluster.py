"""An emulated cluster inside an async test: this file's tests run the Trio shell from their own Trio loop."""

from collections.abc import Mapping

import pytest
import trio

import kemu as public
from kemu.protocol.names import TopicPartition
from kemu.tools.testkit.cluster import EmulatedCluster, NoEffect, NotInTime, Violated, rebalancing, stable

pytestmark = pytest.mark.trio

SESSION = {"session.timeout.ms": 10_000}


async def test_a_crashed_member_is_dropped_within_its_session_timeout(kemu: EmulatedCluster) -> None:
    """Wait for a state, act, wait for the next; the clock is the cluster's."""
    began_s = trio.current_time()
    group = await kemu.group("g", topics={"orders": 6}, members=3, config=SESSION)
    await group.until(stable, within_ms=20_000)
    assert group.members == ("c1", "c2", "c3")
    assert sorted(set(group.owners.values())) == ["c1", "c2", "c3"]

    kemu.do("crash", host="c2")
    crashed_ms = kemu.now_ms
    await group.until(rebalancing, within_ms=11_000)
    await group.until(stable, within_ms=11_000)

    assert 0 < kemu.now_ms - crashed_ms <= 22_000
    assert group.members == ("c1", "c3")
    assert set(group.owners.values()) == {"c1", "c3"}
    assert group.coordinator in ("b0", "b1", "b2")
    assert group.leader in ("c1", "c3")
    (removed,) = kemu.notes("MemberRemoved", group="g")
    assert removed.at_us <= kemu.now_ms * 1_000 + 1_000
    kemu.check("one-owner", "commits")
    assert trio.current_time() - began_s < 20, "virtual seconds are not waited for"


async def test_a_crashed_member_is_one_until_the_coordinator_expires_its_session(kemu: EmulatedCluster) -> None:
    """Members are the coordinator's view, not which hosts run."""
    group = await kemu.group("g", topics={"orders": 6}, members=3, config=SESSION)
    await group.until(stable, within_ms=20_000)

    kemu.do("crash", host="c2")
    await kemu.sleep_ms(1_000)
    assert group.members == ("c1", "c2", "c3")
    assert not kemu.notes("MemberRemoved", group="g")

    await group.until(rebalancing, within_ms=11_000)
    assert group.members == ("c1", "c3")


async def test_members_are_those_that_a_new_coordinator_loads(kemu: EmulatedCluster) -> None:
    """The view survives the coordinator's restart."""
    group = await kemu.group("g", topics={"orders": 6}, members=3, static=True, config=SESSION)
    await group.until(stable, within_ms=20_000)

    kemu.do("restart", host=group.coordinator)
    await group.until(lambda group: bool(kemu.notes("GroupLoaded", group="g")), within_ms=30_000)
    assert group.members == ("c1", "c2", "c3")


async def test_others_in_the_loop_have_their_turns_meanwhile(kemu: EmulatedCluster) -> None:
    """The loop is a task among others, as everything in Trio."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.lowlevel.checkpoint()
            ticks += 1

    group = await kemu.group(members=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        await group.until(stable)
        nursery.cancel_scope.cancel()
    assert ticks > 10


async def test_what_does_not_come_about_is_told_with_what_did(kemu: EmulatedCluster) -> None:
    """The state, and the last lines of the story."""
    group = await kemu.group(members=2)
    with pytest.raises(
        NotInTime, match=r"not within 1s of virtual time.*: g is <lambda>(.|\n)*group g: (.|\n)*started"
    ):
        await group.until(lambda each: each.generation > 100, within_ms=1_000)
    assert kemu.now_ms == 1_000


async def test_a_rule_lasts_as_long_as_its_with_and_counts_what_it_hit(kemu: EmulatedCluster) -> None:
    """Heartbeats of c1 are held back until three were."""
    group = await kemu.group(members=2, config=SESSION)
    await group.until(stable)
    with kemu.rule("hold", sender="c1", api="Heartbeat") as held:
        assert held.count == 0
        await held.hits(1, within_ms=8_000)
        assert held.count == 1
        with pytest.raises(NotInTime, match="took effect 100 times"):
            await held.hits(100, within_ms=500)
    await kemu.sleep_ms(6_000)
    assert stable(group)
    assert group.members == ("c1", "c2")


async def test_what_has_no_effect_is_an_error(kemu: EmulatedCluster) -> None:
    """A fault that never fired is no test; a host that nobody is, is told as in a file."""
    group = await kemu.group(members=2)
    await group.until(stable)
    kemu.do(public.Crash(host="c2"))
    with pytest.raises(NoEffect, match="c2 is down already"):
        kemu.do(public.Crash(host="c2"))
    with pytest.raises(public.ScenarioError, match="c22"):
        kemu.do("crash", host="c22")
    for order in (public.DeleteTopic(topic="t"), "delete-topic"):
        with pytest.raises(public.ScenarioError, match='"delete-topic" needs brokers that replicate'):
            kemu.do(order, **({"topic": "t"} if isinstance(order, str) else {}))
    with pytest.raises(ValueError, match="no group here"):
        await kemu.group("other")
    with pytest.raises(ValueError, match="runs already"):
        await kemu.group("g", members=5)
    with pytest.raises(ValueError, match="is no checker"):
        kemu.check("one-owners")


async def test_what_a_test_did_is_a_scenario_that_runs_again_alike(kemu: EmulatedCluster) -> None:
    """Without the test: every act is a line of its plan, at the same microsecond."""
    group = await kemu.group(members=3, config=SESSION)
    await group.until(stable)
    kemu.do(public.Crash(host="c2", for_us=5_000_000))
    with kemu.rule("hold", sender="c1", api="Heartbeat") as held:
        await held.hits(1)
    await kemu.sleep_ms(20_000)
    outcome = kemu.finish()

    again = public.run(kemu.as_scenario())

    def turns(result: public.Outcome) -> list[object]:
        return [(each.group, each.started_us, each.members, each.reason) for each in result.figures.rebalances]

    assert [type(entry.action).__name__ for entry in kemu.as_scenario().plan] == ["Crash", "Hold"]
    assert [fault.fired for fault in again.faults] == [fault.fired for fault in outcome.faults]
    assert turns(again) == turns(outcome)
    assert len(turns(again)) >= 2


async def test_code_of_the_tests_own_runs_in_it(kemu: EmulatedCluster) -> None:
    """A listener, a loop around a consumer, an assignor."""
    heard: list[str] = []

    class Listening:
        def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> public.Took:
            return public.Took()

        on_lost = on_revoked

        def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> public.Took:
            heard.extend(f"{topic}-{number}" for topic, number in partitions)
            return public.Took(5_000)

    loops: list[public.ConsumerConfig] = []

    def loop(config: public.ConsumerConfig) -> public.PollLoop:
        loops.append(config)
        return public.PollLoop(config)

    group = await kemu.group(
        members=2, listeners={"c1": Listening()}, applications={"c2": loop}, assignors=AllToOne, topics={"orders": 4}
    )
    await group.until(stable)
    await kemu.until(lambda: len(group.owners) == 4, within_ms=10_000)

    (owner,) = set(group.owners.values())
    assert heard == ([] if owner == "c2" else ["orders-0", "orders-1", "orders-2", "orders-3"])
    assert [config.client_id for config in loops] == ["c2"]
    assert kemu.own_code


class AllToOne:
    """An assignor of a user's own: the first member by id gets everything."""

    name = "all-to-one"
    version = 0
    protocols = (public.RebalanceProtocol.EAGER,)

    def user_data(self, memory: public.Memory | None) -> bytes | None:
        """Nothing of its own goes into the subscription."""
        return None

    def assign(self, topics: public.Topics, members: Mapping[str, public.Subscriber]) -> public.Assignment:
        """All to the first."""
        first = min(members)
        everything = [(topic, number) for topic, count in topics.partitions.items() for number in range(count)]
        return {member: everything if member == first else [] for member in members}


async def test_a_violation_is_raised_when_the_test_asks(kemu: EmulatedCluster) -> None:
    """And by ``finish``, with the whole outcome."""
    group = await kemu.group(members=2)
    await group.until(stable)
    checker = next(each for each in kemu.inside.judging.checkers if each.name == "one-owner")
    checker.violation(kemu.inside.judging.panel.now, "two-owners", ("g", "orders-0"), "made up by a test")

    with pytest.raises(Violated, match="made up by a test"):
        kemu.check()
    kemu.check("commits")
    with pytest.raises(Violated, match="violated: one-owner") as caught:
        kemu.finish()
    assert caught.value.outcome is not None
    checker.violations.clear()
    kemu.outcome = public.run(kemu.as_scenario())
