"""The verbs of control, in a run without a clock: waits, the state, leaders and events."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kemu.emulator.control.controls import Controls, _Reader
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.runner import Run, controls_of
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.protocol.wire.schema import STRUCTS
from kemu.protocol.wire.values import VALUES

S = 1_000_000
SCENARIO = """
duration = "30s"
draws = "calm"
[brokers]
count = 3
config = { "group.initial.rebalance.delay.ms" = 0 }
[brokers.replication]
factor = 3
session = "6s"
[topics.orders]
partitions = 2
rate = "4/s"
[groups.g]
topics = ["orders"]
members = 2
config = { "session.timeout.ms" = 6000 }
[clients]
names = ["app"]
"""
PLAIN = SCENARIO.replace('[brokers.replication]\nfactor = 3\nsession = "6s"\n', "")


class _Reply:
    """Collects the lines of an answer. ``room``: the number of lines that fit."""

    def __init__(self, controls: Controls, room: int = 1_000_000) -> None:
        self._controls = controls
        self.room = room
        self.rows: list[dict[str, Any]] = []
        self.is_open = True
        self.is_stream = False

    def put(self, line: bytes) -> bool:
        if self.room:
            self.rows.append(json.loads(line))
            self.room -= 1
            return True
        return False

    def stream(self) -> None:
        self.is_stream = True

    def end(self) -> None:
        self.is_open = False

    @property
    def row(self) -> dict[str, Any]:
        """The only line of an answer that has ended."""
        assert not self.is_open
        (row,) = self.rows
        return row


def answers(*orders: tuple[float, str], until_s: int = 15, scenario: str = SCENARIO) -> tuple[Run, list[_Reply]]:
    """A run that gets these orders at these seconds, and the answers."""
    one = Run(scenario_from_toml(scenario), seed=1, loop="bare", checkers=())
    one.begin()
    controls = controls_of(one, None)
    replies = [_Reply(controls) for _ in orders]
    for (at_s, text), reply in zip(orders, replies, strict=True):
        one.world.at(int(at_s * S), lambda text=text, reply=reply: controls.take(text.encode(), reply))  # type: ignore[misc]
    assert one.run_until(run_plain, until_s * S) == ""
    return one, replies


WAITS: Mapping[str, str] = {
    "wait group g Stable members=2 within 8s": "group g: state Stable, members 2, generation 2",
    'wait "group g Stable members=2" within 8s': "group g: state Stable, members 2, generation 2",
    '{"wait": "group g Stable", "within": "8s"}': "group g: state Stable",
    "wait leader orders-0 b0": "partition orders-0: leader b0, isr 3, epoch 0",
    "wait partition orders-1 isr=3 leader!=none": "partition orders-1: leader b1, isr 3",
    "wait broker b2 up": "broker b2: state up, life 1",
    "wait client app down connections=0": "client app: state down, connections 0",
    "wait host c1 life>=1": "host c1: state up, life 1",
    "wait group g lag<=1000 generation>1 coordinator!=none": "group g: state ",
}


def test_a_wait_is_answered_when_its_condition_is_true() -> None:
    """At the earliest moment: a wait from the first second on, and a wait for a state that is there already."""
    _, replies = answers(*((at_s, order) for at_s in (0, 12) for order in WAITS))
    early, late = replies[: len(WAITS)], replies[len(WAITS) :]

    for reply, (order, seen) in zip(early, WAITS.items(), strict=True):
        assert reply.row["seen"].startswith(seen), order
        assert reply.row["holds"] in order
        assert 0 <= reply.row["at_us"] < 8 * S
    assert [reply.row["at_us"] for reply in late] == [12 * S] * len(WAITS)


def test_a_wait_in_vain_says_what_was_seen_at_the_end() -> None:
    _, (reply, unknown) = answers((12, "wait group g members=3 within 2500ms"), (12, "wait group x Stable within 1s"))

    assert reply.row["error"] == "not within 2500ms: group g members=3"
    assert reply.row["seen"].startswith("group g: state Stable, members 2")
    assert reply.row["at_us"] == 14_500_000
    assert unknown.row["seen"] == "group x: state Empty, members 0, generation 0, lag 0, coordinator b2"


def test_waits_follow_a_failover_from_the_crash_to_the_return() -> None:
    """The group has no state while no broker coordinates the group, and the state of the log afterwards."""
    _, (gone, down, unknown, moved, back, left) = answers(
        (12, 'crash host="coordinator of g" mode=process for=9s'),
        (12, "wait broker b0 down"),
        (12, "wait group g Unknown"),
        (12.1, "wait group g Stable members=2 within 15s"),
        (20, "wait isr orders-0 3 within 9s"),
        (12.1, "wait leader orders-0 b1 within 10s"),
        until_s=30,
    )

    assert gone.row["done"] == "crash coordinator of g (process) for 9s"
    assert down.row["at_us"] == unknown.row["at_us"] == 12 * S
    assert moved.row["at_us"] > 15 * S, moved.row
    assert "coordinator b2" in moved.row["seen"]
    assert left.row["at_us"] <= moved.row["at_us"]
    assert back.row["at_us"] > 21 * S


def test_a_wait_for_a_trigger_begins_now() -> None:
    """Triggers have the keys of ``when`` in a plan; an earlier occurrence does not count."""
    _, replies = answers(
        (12, "wait noted HighWatermarkAdvanced topic=orders partition=0"),
        (12, "wait sends Heartbeat by=c1 nth=2 within 9s"),
        (12, '{"wait": {"receives": "Heartbeat", "by": "coordinator of g"}, "within": "9s"}'),
        (12, "wait noted GroupBecame new=Stable within 1s"),
        until_s=22,
    )

    noted, sent, received, vain = [reply.row for reply in replies]
    assert 12 * S < noted["at_us"] < 13 * S
    assert received["at_us"] < sent["at_us"] < 21 * S
    assert vain["error"] == 'not within 1s: {"noted": "GroupBecame", "new": "Stable"}'


def test_lag_counts_records_behind_the_commits() -> None:
    """Without a commit, all records of a partition count. The group has read everything after its end of work."""
    _, (before, paused, behind, caught_up) = answers(
        (0.001, "state"),
        (12, "pause host=c1 for=6s"),
        (12, "wait group g lag>=12 within 8s"),
        (18.5, "wait lag g 8 within 10s"),
        until_s=28,
    )

    rows = before.row["groups"]["g"]
    assert (rows["lag"], rows["offsets"]["orders-0"]["committed"]) == (0, None)
    assert "done" in paused.row
    assert 12 * S < behind.row["at_us"] <= 18 * S
    assert "holds" in caught_up.row


@pytest.mark.parametrize("scenario", [SCENARIO, PLAIN], ids=["replicated", "not replicated"])
def test_the_state_has_groups_topics_brokers_clients_and_the_time(scenario: str) -> None:
    _, (reply, leader) = answers((12, "state"), (12, "leader orders-1"), scenario=scenario)

    state, isr = reply.row, ["b1", "b2", "b0"] if scenario == SCENARIO else ["b1"]
    assert state["at_us"] == 12 * S
    assert state["brokers"] == {f"b{node}": {"state": "up", "life": 1} for node in range(3)}
    assert state["clients"] == {"app": {"host": "x-app", "state": "down", "life": 0, "connections": []}}
    partition = state["topics"]["orders"]["orders-1"]
    assert (partition["leader"], partition["isr"], partition["replicas"]) == ("b1", isr, isr)
    assert leader.row == {"partition": "orders-1", **partition}
    group = state["groups"]["g"]
    assert (group["state"], len(group["members"])) == ("Stable", 2)
    members = list(group["members"].values())
    assert sorted(each["client"] for each in members) == ["c1", "c2"]
    assert sorted(name for each in members for name in each["assigned"]) == ["orders-0", "orders-1"]
    assert [each["owned"] for each in members] == [each["assigned"] for each in members]
    assert {each["generation"] for each in members} == {group["generation"]}
    assert group["lag"] == sum(each["end"] - (each["committed"] or 0) for each in group["offsets"].values())


WRONG: Mapping[str, str] = {
    "stat": '"stat" is no verb and no action; did you mean "state"?',
    "leader": 'write "leader PARTITION", such as "leader orders-0"',
    "leader orders-7": '"orders-7" is no partition; did you mean "orders-',
    "wait": 'write "wait CONDITION within 10s", such as',
    "wait group": '"group" names no group',
    "wait group g": '"group g" compares nothing: write "group payments Stable members=2"',
    "wait group g Stabel": '"Stabel" is no state and no comparison of a group; did you mean "Stable"?',
    "wait group g member=2": '"member" is no field of a group; did you mean "members"?',
    "wait group g members=two": '"members=two": members must be a whole number',
    "wait group g state>Stable": 'state is a text, so only "=" and "!=" compare it',
    "wait groups g Stable": '"groups" is no subject of a condition; did you mean "group"?',
    "wait broker b7 up": '"b7" is no broker; known: b0, b1, b2',
    "wait partition orders isr=3": '"orders" is no partition',
    "wait client nobody up": '"nobody" is no client; known: app',
    "wait group g Stable within": 'write the time at the end: "within 10s"',
    "wait group g Stable within soon": "within: 'soon' is no duration",
    "wait noted": 'write "wait noted NAME"',
    "wait noted GroupBecome": 'did you mean "GroupBecame"?',
    "wait noted GroupBecame group=x": '"x" is no group',
    '{"wait": 5}': '"5" is no subject of a condition',
    '{"wait": "group g Stable", "until": "9s"}': '"until" is no key of this order',
    '{"leader": 5}': "an order needs one of the keys",
    '{"events": ["Nothing"]}': '"Nothing" is no kind of event',
    '{"events": [[]]}': '"[]" is no kind of event',
    "events GroupBecome": '"GroupBecome" is no kind of event; did you mean "GroupBecame"?',
    '{"state": true, "of": "g"}': '"of" is no key of this order',
    "crash host=b7": 'host: "b7" is no host',
    "crash host=x-app": "x-app is down already",
}


def test_a_wrong_order_gets_one_answer_and_changes_nothing() -> None:
    one, replies = answers(*((12, order) for order in WRONG))

    for reply, (order, text) in zip(replies, WRONG.items(), strict=True):
        assert text in reply.row["error"], order
        assert "a bug of kemu" not in reply.row["error"], order
    assert [entry.action.words() for entry in one.injector.plan] == ["crash x-app (power)"]


def test_events_are_the_facts_of_the_wanted_kinds_in_order() -> None:
    _, (all_of_them, some, _) = answers(
        (12, "events"),
        (12, "events GroupBecame MemberRemoved HostDown"),
        (13, "crash host=c1 mode=process"),
        until_s=24,
    )

    assert all_of_them.is_stream and some.is_stream
    assert all_of_them.rows.pop(0) == {"events": [], "at_us": 12 * S}
    assert some.rows.pop(0)["events"] == ["GroupBecame", "MemberRemoved", "HostDown"]
    kinds = [row["fact"]["type"] for row in some.rows]
    assert kinds[0] == "HostDown"
    assert {"GroupBecame", "MemberRemoved"} <= set(kinds) <= {"GroupBecame", "MemberRemoved", "HostDown"}
    assert [row for row in all_of_them.rows if row["fact"]["type"] in kinds] == some.rows
    became = next(row for row in some.rows if row["fact"]["type"] == "GroupBecame")
    assert became["actor"].endswith("/coordinator") and became["fact"]["group"] == "g"
    times = [row["at_us"] for row in all_of_them.rows]
    assert times == sorted(times) and times[0] >= 12 * S


def test_a_slow_reader_of_events_hears_how_many_it_missed() -> None:
    one = Run(scenario_from_toml(SCENARIO), seed=1, loop="bare")
    reply = _Reply(controls_of(one, None), room=1)
    reader = _Reader(reply, frozenset())
    for _ in range(3):
        reader.tell("GroupBecame", b'{"event": 1}')
    reply.room = 2
    reader.tell("GroupBecame", b'{"event": 2}')

    assert reply.rows == [{"event": 1}, {"missed": 2}, {"event": 2}]


def test_no_fact_has_a_field_that_json_refuses() -> None:
    """Keys of JSON are texts, so a fact with a table needs another form."""
    for name, cls in VALUES.items():
        assert not any("dict" in str(spec.annotation).lower() for spec in STRUCTS[cls]), name


def test_a_wait_whose_reader_has_gone_is_forgotten() -> None:
    one = Run(scenario_from_toml(SCENARIO), seed=1, loop="bare", checkers=())
    controls = controls_of(one, None)
    reply = _Reply(controls)
    one.begin()
    one.world.at(S, lambda: controls.take(b"wait group g members=9 within 20s", reply))
    one.world.at(2 * S, reply.end)
    assert one.run_until(run_plain, 3 * S) == ""
    assert controls._waits == []
