"""Single messages, barriers, held ones, ties and priorities: each changes an order that the network may have."""

from typing import Any

import attrs
import pytest

from kemu.emulator import facts
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.plan import actions
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.entries import At, Receives, When
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.trace.recorder import MemoryRecorder
from kemu.emulator.trace.rows import RECEIVED
from kemu.emulator.trace.traces import PacketRecord, Step
from kemu.protocol.names import host_of
from tests.emulator.engine.toys import Watcher

S = 1_000_000
MS = 1_000
SETTLED = 15 * S


def scenario(*plan: Action, at_us: int = 0, seconds: int = 40, members: int = 3) -> Scenario:
    return Scenario(
        name="orders",
        draws="calm",
        duration_us=seconds * S,
        brokers=BrokersSpec(count=1),
        topics={"t": TopicSpec(partitions=4, records_per_s=10)},
        groups={"g": GroupSpec(topics=("t",), members=members, config={"session.timeout.ms": 10_000})},
        checks=ChecksSpec(stable_within_us=120 * S),
        plan=tuple(At(at_us, each) for each in plan),
    )


class Compared:
    """A run with every packet."""

    def __init__(self, given: Scenario, seed: int = 1) -> None:
        self.recorder, self.watcher = MemoryRecorder(), Watcher()
        self.run = Run(given, seed=seed, loop="bare", recorder=self.recorder, observers=[self.watcher])
        assert not self.run.run_with(run_plain)
        self.fired = self.run.injector.counts()
        self.packets = [each for each in self.recorder.records if isinstance(each, PacketRecord)]
        judged = self.run.judging.finish(self.run.world.now_us, "")
        assert judged.verdict == "holds", judged.violations[:3]

    def sent(self, api: str, sender: str, to: str = "b0") -> list[PacketRecord]:
        """Requests of an API, each once."""
        return [each for each in self.packets if (each.api, each.sender, host_of(each.to)) == (api, sender, to)]

    def of(self, kind: type) -> list[Any]:
        return [seen.fact for seen in self.watcher.facts if type(seen.fact) is kind]


def took_us(packet: PacketRecord) -> int:
    return packet.due_us - packet.at_us


def test_only_the_message_that_is_meant_comes_later() -> None:
    """The third heartbeat of c2, and what is behind it on the connection."""
    plain = Compared(scenario())
    late = Compared(scenario(actions.LateMessage(api="Heartbeat", sender="c2", nth=3, by_us=900 * MS)))

    assert late.fired == [1]
    before, after = plain.sent("Heartbeat", "c2"), late.sent("Heartbeat", "c2")
    assert [took_us(each) for each in after[:2]] == [took_us(each) for each in before[:2]]
    assert took_us(after[2]) == took_us(before[2]) + 900 * MS
    assert took_us(after[3]) < 10 * MS
    assert took_us(late.sent("Heartbeat", "c1")[2]) < 10 * MS


def test_an_answer_can_be_the_one_that_comes_later() -> None:
    late = Compared(scenario(actions.LateMessage(api="SyncGroupReply", receiver="c1", by_us=2 * S)))

    assert late.fired == [1]
    (slow,) = [each for each in late.packets if each.api == "SyncGroup" and each.to == "c1" and took_us(each) > S]
    assert slow.sender.startswith("b0")


def test_several_lines_count_the_same_messages() -> None:
    """A delay does not end the judging: the next line counts the message, too, and delays add up."""
    first = actions.LateMessage(api="Heartbeat", sender="c2", nth=2, by_us=500 * MS)
    late = Compared(scenario(first, attrs.evolve(first, nth=4), attrs.evolve(first, nth=2, by_us=100 * MS)))

    assert late.fired == [1, 1, 1]
    took = [took_us(each) // (100 * MS) for each in late.sent("Heartbeat", "c2")[:5]]
    assert took == [0, 6, 0, 5, 0]


def test_a_late_message_does_not_cross_a_split_that_came_after() -> None:
    """What delays was there first, and what is also held is held: it arrives when the split has healed."""
    slow = actions.Slow(sender="c1", add_us=5 * MS)
    split = When(Receives(api="Heartbeat", by="b0", to="c1", nth=3), actions.Isolate(host="c1", for_us=4 * S))
    given = scenario(slow)
    driven = Compared(attrs.evolve(given, plan=(*given.plan, split)))

    assert driven.fired[1] > 0
    began, ended = (seen.at_us for seen in driven.watcher.facts if getattr(seen.fact, "kind", "") == "isolate")
    assert ended - began == 4 * S
    crossing = [each for each in driven.packets if began < each.at_us < ended and "c1" in (each.sender, each.to)]
    assert crossing
    assert {each.verdict for each in crossing} == {"held"}


def test_a_lost_message_takes_its_connection_with_it_and_its_client_asks_again() -> None:
    lost = Compared(scenario(actions.LostMessage(api="SyncGroup", sender="c2")))

    assert lost.fired == [1]
    assert [each.verdict for each in lost.sent("SyncGroup", "c2")][:1] == ["lost"]
    assert len(lost.sent("JoinGroup", "c2")) > len(Compared(scenario()).sent("JoinGroup", "c2"))


def test_a_barrier_opens_when_enough_senders_are_there() -> None:
    """Heartbeats go each their own way; behind a barrier all three arrive within a latency of the last one."""
    driven = Compared(scenario(actions.Barrier(api="Heartbeat", count=3), at_us=SETTLED))

    ended = [seen.at_us for seen in driven.watcher.facts if type(seen.fact) is facts.FaultEnded]
    held = [each for each in driven.packets if each.verdict == "held" and each.api == "Heartbeat"]
    released = [each for each in driven.packets if each.verdict == "released"]
    assert {each.sender for each in held} == {"c1", "c2", "c3"}
    assert ended == [max(each.at_us for each in held)], "it is over when the last has come"
    assert {each.at_us for each in released} == set(ended)
    assert {each.packet_id for each in held} <= {each.packet_id for each in released}
    assert all(took_us(each) < 10 * MS for each in released)
    assert driven.fired == [3]


def test_a_barrier_that_never_fills_ends_after_its_time() -> None:
    driven = Compared(scenario(actions.Barrier(api="Heartbeat", count=4, for_us=5 * S), at_us=SETTLED))

    (ended,) = [seen.at_us for seen in driven.watcher.facts if type(seen.fact) is facts.FaultEnded]
    assert ended == SETTLED + 5 * S


def test_deliver_lets_the_first_go_and_keeps_the_others_in_order() -> None:
    """Of what all members send from their next heartbeat on; then all of it, when the hold ends."""
    given = scenario(actions.Hold(api="Heartbeat", for_us=9 * S), at_us=SETTLED)
    deliver = At(SETTLED + 6 * S, actions.Deliver(api="Heartbeat", count=1))
    driven = Compared(attrs.evolve(given, plan=(*given.plan, deliver)))

    assert driven.fired[1] == 1
    released = [each for each in driven.packets if each.verdict == "released"]
    early = [each for each in released if each.at_us == SETTLED + 6 * S]
    assert [each.api for each in early].count("Heartbeat") == 1
    assert {each.sender for each in early} == {early[0].sender}
    for member in ("c1", "c2", "c3"):
        ids = [each.packet_id for each in released if each.sender == member]
        assert ids == sorted(ids)
        due = [each.due_us for each in released if each.sender == member]
        assert due == sorted(set(due)), "in the order they were sent"


def test_deliver_without_anything_held_says_so() -> None:
    driven = Compared(scenario(actions.Deliver(), at_us=SETTLED))

    assert driven.fired == [0]
    assert "no effect, nothing of it is held" in driven.of(facts.FaultApplied)[0].text


def _orders(order: int, grain_us: int) -> tuple[str, ...]:
    """Who joined when, by a grain at which joins meet."""
    plan = (actions.TieOrder(order=order, grain_us=grain_us),)
    driven = Compared(scenario(*plan, seconds=15), seed=3)
    steps = [each for each in driven.recorder.records if isinstance(each, Step) and each.event[0] == RECEIVED]
    joins = {
        each.packet_id: each.sender for each in driven.packets if each.api == "JoinGroup" and host_of(each.to) == "b0"
    }
    return tuple(joins[each.event[1]] for each in steps if each.event[1] in joins)


def test_ties_have_an_order_of_their_own() -> None:
    """The same number is the same run; some other number another order, while latencies stay as the seed has them."""
    orders = [_orders(number, 20 * MS)[:3] for number in range(6)]

    assert _orders(2, 20 * MS)[:3] == orders[2]
    assert len(set(orders)) > 1
    assert all(sorted(each) == ["c1", "c2", "c3"] for each in orders)


def test_with_a_grain_packets_arrive_at_its_multiples_and_in_order() -> None:
    driven = Compared(scenario(actions.TieOrder(order=1, grain_us=10 * MS)))

    ends_us = driven.run.scenario.heal_at_us
    late = [each for each in driven.packets if each.verdict == "sent" and each.at_us < ends_us]
    on_grain = [each for each in late if each.due_us % (10 * MS) == 0]
    assert len(on_grain) > 0.9 * len([each for each in late if took_us(each) > 60])
    ways: dict[tuple[int, str], int] = {}
    for each in late:
        assert each.due_us > ways.get((each.connection, each.sender), -1)
        ways[each.connection, each.sender] = each.due_us


def test_ties_without_a_grain_move_nothing_but_ties() -> None:
    """What the network draws stays: so do all packets until the first tie."""
    plain, other = Compared(scenario()), Compared(scenario(actions.TieOrder(order=5)))

    assert other.fired == [1]
    assert [took_us(each) for each in plain.packets[:20]] == [took_us(each) for each in other.packets[:20]]


@pytest.mark.parametrize("of", ["links", "hosts"])
def test_priorities_make_some_links_come_behind_others_within_their_bound(of: str) -> None:
    driven = Compared(scenario(actions.LinkPriorities(order=4, of=of, within_us=400 * MS), seconds=20))

    sent = [each for each in driven.packets if each.verdict == "sent" and took_us(each) > 60]
    of_link: dict[tuple[str, str], set[int]] = {}
    for each in sent:
        if each.at_us > 5 * S and each.at_us < 20 * S:
            who = each.sender.split("/")[0], each.to.split("/")[0] if of == "links" else ""
            of_link.setdefault(who, set()).add(took_us(each) // (20 * MS))
    assert max(max(each) for each in of_link.values()) * 20 <= 200, "the first half of the span"
    assert len({min(each) for each in of_link.values()}) > 1
    assert driven.fired[0] > 100


def test_a_change_point_moves_a_link_behind_all_others() -> None:
    plan = actions.LinkPriorities(order=4, within_us=400 * MS, changes=1, messages=200)
    driven = Compared(scenario(plan, seconds=20))

    late = [each for each in driven.packets if each.verdict == "sent" and took_us(each) >= 400 * MS]
    links = {(host_of(each.sender), host_of(each.to)) for each in late if each.at_us < 20 * S}
    assert len(links) == 1


@pytest.mark.parametrize(
    "action",
    [
        actions.LateMessage(api="JoinGroup", by_us=3 * S),
        actions.LostMessage(api="JoinGroup"),
        actions.Barrier(api="JoinGroup", count=2),
        actions.TieOrder(order=3, grain_us=5 * MS),
        actions.LinkPriorities(order=3, within_us=S, changes=2),
    ],
    ids=lambda action: type(action).__name__,
)
def test_a_schedule_is_a_line_of_the_plan_and_the_same_again(action: Action) -> None:
    """Same scenario, same seed, same trace; and both loops."""
    given = scenario(action, seconds=20)
    first, again = run(given, seed=7, loop="bare"), run(given, seed=7, loop="trio")

    assert first.digest == again.digest
    assert first.verdict == "holds"
    assert first.faults[0].fired > 0
