"""Jepsen's anomalies in the history of a run: each found where it is, and explained where a run's facts explain it."""

from pathlib import Path

import pytest
from attrs import evolve

from kemu.actors.broker.partition_log import PartitionLog, SequenceCheck
from kemu.actors.consumer.fetching import Fetching
from kemu.emulator.exploring.history import EXPLANATIONS, Anomaly, History, Occurrence
from kemu.emulator.facts import Healed, HostStarted, Seen
from kemu.emulator.findings import LOSS_REASONS, UNCLEAN, Loss
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.trace.recorder import MemoryRecorder
from kemu.emulator.watching.panel import Panel
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import (
    EpochRead,
    OffsetCommitted,
    OffsetRemoved,
    PartitionHosted,
    PartitionsAssigned,
    PartitionsRevoked,
    PositionSet,
    Processed,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.ranges import (
    ChildConsumerStarted,
    ParallelRebalance,
    RangeCommitted,
    RangeEpochRead,
    RangeOpened,
    RangePositionSet,
    RangeProcessed,
)
from kemu.protocol.notes.replication import BecameLeader, LogStartMoved, RecordsReplicated

MUTATIONS = Path(__file__).parents[2] / "mutations"
PAST_BUGS_FOLDER = Path(__file__).parents[3] / "kemu" / "emulator" / "past_bugs" / "scenarios"
AT = ("orders", 0)


class Told:
    """A history by hand: a partition of 100 acknowledged records, and a member of a group that owns it."""

    def __init__(self, records: int = 100):
        self.panel = Panel()
        self.history = History(self.panel)
        self.seq = self.at_us = 0
        self.tell("", HostStarted(host="c1", life=1, kept_disk=True))
        self.tell("b0", PartitionHosted(topic="orders", partition=0, end_offset=0))
        if records:
            self.write(0, records)

    def tell(self, actor: str, fact: object, *, step: bool = True, life: int = 1) -> None:
        self.seq += step
        self.at_us += 1_000_000
        seen = Seen(self.seq, self.at_us, actor, life, fact)
        for handler in self.panel.handlers_of(type(fact)):
            handler(seen, fact)
        self.history.see(seen)

    def write(self, base: int, count: int, broker: str = "b0", acknowledged: bool = True, sequence: int = -1) -> None:
        at = {"topic": "orders", "partition": 0, "base_offset": base, "count": count}
        producer = 7 if sequence >= 0 else -1
        epoch = min(producer, 0)
        self.tell(broker, RecordsAppended(**at, producer_id=producer, producer_epoch=epoch, sequence=sequence))
        if acknowledged:
            self.tell("p1", RecordsAcknowledged(**at))

    def own(self, offset: int | None = 0, why: str = "committed", member: str = "c1") -> None:
        self.tell(member, PartitionsAssigned(group="g", member_id="m", generation=1, added=(AT,), owned=(AT,)))
        if offset is not None:
            self.place(offset, why, member)

    def place(self, offset: int, why: str, member: str = "c1") -> None:
        self.tell(member, PositionSet(group="g", member_id="m", topic="orders", partition=0, offset=offset, why=why))
        self.tell(member, EpochRead(topic="orders", partition=0, offset=offset, leader_epoch=0, life=1))

    def revoke(self) -> None:
        self.tell("c1", PartitionsRevoked(group="g", member_id="m", generation=1, revoked=(AT,), owned=()))

    def poll(self, first: int, last: int, *, member: str = "c1", step: bool = True, life: int = 1) -> None:
        self.tell(member, self.part(Processed, first, last), step=step, life=life)

    def part(self, kind: type, first: int, last: int) -> object:
        return kind(
            group="g", member_id="m", generation=1, topic="orders", partition=0, first=first, last=last, started_us=0
        )

    def finish(self, *losses: Loss) -> list[tuple[str, int, int, str]]:
        """(anomaly, first, last, explained)."""
        return [
            (each.anomaly.value, each.first, each.last, each.explained)
            for each in self.history.finish(self.at_us, losses)
        ]


def test_polls_that_follow_each_other_are_no_anomaly():
    told = Told()
    told.own()
    told.poll(0, 40)
    told.poll(40, 100)
    assert told.finish() == []


def test_records_passed_over_are_a_poll_skip_and_lost_writes():
    """jepsen.tests.kafka: poll-skip, lost-write."""
    told = Told()
    told.own()
    told.poll(0, 40)
    told.poll(43, 100)
    found = told.history.finish(told.at_us)
    assert {(each.anomaly, each.first, each.last, each.explained, each.who) for each in found} == {
        (Anomaly.POLL_SKIP, 40, 42, "", "c1"),
        (Anomaly.LOST_WRITE, 40, 42, "", "g"),
    }


def test_a_position_that_is_not_kept_is_a_skip_too():
    """The first poll is compared with where the member said that it begins."""
    told = Told()
    told.own(10)
    told.poll(12, 100)
    assert ("poll skip", 10, 11, "") in told.finish()


def test_parts_of_one_step_are_one_poll():
    """jepsen.tests.kafka: int-poll-skip, int-nonmonotonic-poll."""
    told = Told()
    told.own()
    told.poll(0, 40)
    told.poll(43, 50, step=False)
    told.poll(45, 100, step=False)
    assert sorted(told.finish()) == [
        ("internal nonmonotonic poll", 45, 49, ""),
        ("internal poll skip", 40, 42, ""),
        ("lost write", 40, 42, ""),
    ]


def test_a_member_that_goes_back_by_itself_is_a_nonmonotonic_poll():
    """jepsen.tests.kafka: nonmonotonic-poll."""
    told = Told()
    told.own()
    told.poll(0, 60)
    told.poll(50, 100)
    assert told.finish() == [("nonmonotonic poll", 50, 59, "")]


def test_a_committed_position_without_a_rebalance_explains_nothing():
    told = Told()
    told.own()
    told.poll(0, 60)
    told.place(50, "committed")
    told.poll(50, 100)
    assert told.finish() == [("nonmonotonic poll", 50, 59, "")]


def test_a_rebalance_in_between_explains_where_a_member_goes_on():
    """Another member worked from 40 to 60, and the first goes on behind it; then it begins before what it had read."""
    told = Told()
    told.own()
    told.poll(0, 40)
    told.revoke()
    told.own(40, member="c2")
    told.poll(40, 60, member="c2")
    told.own(60)
    told.poll(60, 80)
    told.revoke()
    told.own(70)
    told.poll(70, 100)
    assert told.finish() == [("poll skip", 40, 59, "rebalance"), ("nonmonotonic poll", 70, 79, "rebalance")]


def test_a_new_life_of_a_member_is_compared_with_nothing():
    told = Told()
    told.own()
    told.poll(0, 60)
    told.poll(20, 100, life=2)
    assert told.finish() == []


@pytest.mark.parametrize(
    ("why", "explained"), [("seek", "seek"), ("latest", "reset policy"), ("truncated", "truncation")]
)
def test_a_position_that_was_set_in_the_open_explains_itself(why, explained):
    """What an application or auto.offset.reset leaves out is lost in the open; a told truncation leaves nothing out."""
    told = Told()
    told.own()
    told.poll(0, 40)
    told.place(60, why)
    told.poll(60, 100)
    found = told.finish()
    assert ("poll skip", 40, 59, explained) in found
    unexplained = why in ("truncated", "latest")  # the log has the position 40: no reset was due
    assert ("lost write", 40, 59, "" if unexplained else explained) in found


def test_deleted_records_are_no_skip_without_a_reason_unless_they_were_passed_over_before():
    """Retention explains what nobody had come to; a record that was skipped before it was deleted stays lost."""
    told = Told()
    told.own()
    told.poll(0, 30)
    told.poll(32, 40)
    told.tell("b0", LogStartMoved(topic="orders", partition=0, start_offset=60, end_offset=100, why="retention"))
    told.poll(60, 100)
    assert sorted(told.finish()) == [
        ("lost write", 30, 31, ""),
        ("lost write", 40, 59, "deleted records"),
        ("poll skip", 30, 31, ""),
        ("poll skip", 40, 59, "deleted records"),
    ]


def test_an_operators_offset_explains_what_it_leaves_out():
    told = Told()
    told.own()
    told.poll(0, 40)
    told.revoke()
    by_hand = OffsetCommitted(group="g", topic="orders", partition=0, offset=70, generation=-1, member_id="")
    told.tell("b0/coordinator", by_hand)
    told.own(70)
    told.poll(70, 100)
    lost = [each for each in told.finish() if each[0] == "lost write"]
    assert lost == [("lost write", 40, 69, "offsets set by an operator")]


@pytest.mark.parametrize(("deleted", "explained"), [(False, ""), (True, "offsets set by an operator")])
def test_where_offsets_were_deleted_an_operators_offset_leaves_out_all_before_it(deleted, explained):
    """Without them the group would have begun anew (earliest), and come to what it had passed over."""
    told = Told()
    told.own()
    told.poll(0, 40)
    told.poll(43, 70)
    told.revoke()
    told.tell("b0/coordinator", committed(70, generation=1))
    if deleted:
        told.tell("b0/coordinator", OffsetRemoved(group="g", topic="orders", partition=0, why="told"))
    told.tell("b0/coordinator", committed(80, generation=-1))
    told.own(80)
    told.poll(80, 100)
    assert [each for each in told.finish() if each[0] == "lost write"] == [
        ("lost write", 40, 42, explained),
        ("lost write", 70, 79, "offsets set by an operator"),
    ]


def committed(offset: int, generation: int) -> OffsetCommitted:
    return OffsetCommitted(
        group="g", topic="orders", partition=0, offset=offset, generation=generation, member_id="m" * (generation > 0)
    )


def test_what_the_second_consumer_works_off_is_read():
    """KIP-333: the member jumps, its second consumer reads what lies between; another one after it begins anew."""
    told = Told()
    told.own()
    told.place(80, "jumped")
    told.tell("c1", ChildConsumerStarted(group="g"))
    told.tell("c1/catch-up", RangePositionSet(group="g", topic="orders", partition=0, offset=0))
    told.tell("c1/catch-up", RangeEpochRead(topic="orders", partition=0, offset=0, leader_epoch=0, life=1))
    told.tell("c1", told.part(RangeProcessed, 0, 50))
    told.poll(80, 100)
    told.tell("c1", ChildConsumerStarted(group="g"))
    told.tell("c1/catch-up", RangePositionSet(group="g", topic="orders", partition=0, offset=40))
    told.tell("c1/catch-up", RangeEpochRead(topic="orders", partition=0, offset=40, leader_epoch=0, life=1))
    told.tell("c1", told.part(RangeProcessed, 40, 80))
    assert told.finish() == []


def test_a_second_consumer_that_leaves_out_records_of_its_range_is_caught():
    """KIP-333: from range to range it goes without a word; inside one it may leave nothing out."""
    told = Told()
    told.own()
    told.tell("c1", ParallelRebalance(group="g"))
    in_log = {"group": "g", "topic": "orders", "partition": 0, "generation": 1, "member_id": "m"}
    told.tell("b0/coordinator", RangeOpened(**in_log, start=0, end=50, position=1))
    told.tell("b0/coordinator", RangeOpened(**in_log, start=60, end=80, position=2))
    told.place(80, "jumped")
    told.tell("c1", ChildConsumerStarted(group="g"))
    told.tell("c1/catch-up", RangePositionSet(group="g", topic="orders", partition=0, offset=0))
    told.tell("c1/catch-up", RangeEpochRead(topic="orders", partition=0, offset=0, leader_epoch=0, life=1))
    told.tell("c1", told.part(RangeProcessed, 5, 50))
    told.tell("c1", told.part(RangeProcessed, 60, 80))
    told.poll(80, 100)
    told.tell("b0/coordinator", RangeCommitted(**in_log, offset=80, position=3))
    told.tell("b0/coordinator", OffsetCommitted(**in_log, offset=100, position=4))
    assert sorted(told.finish()) == [
        ("lost write", 0, 4, ""),
        ("lost write", 50, 59, ""),
        ("poll skip", 0, 4, ""),
        ("poll skip", 50, 59, "second consumer"),
    ]


def lead(told: Told, broker: str, epoch: int, end: int, epochs: tuple[tuple[int, int], ...]) -> None:
    if epochs:  # copied from the leader of epoch 0
        copied = RecordsReplicated(topic="orders", partition=0, base_offset=0, count=end, leader_epoch=0, life=1)
        told.tell(broker, copied)
    fact = BecameLeader(
        topic="orders",
        partition=0,
        leader_epoch=epoch,
        isr=(0, 1),
        end_offset=end,
        high_watermark=end,
        epochs=epochs,
    )
    told.tell(broker, fact)


@pytest.mark.parametrize("expected", [True, False])
def test_a_record_that_the_log_lost_and_another_took_the_place_of_is_lost(expected):
    """A record is an offset and an epoch: reading another at its offset is reading past it. LOSS_REASONS has it."""
    told = Told(records=0)
    lead(told, "b0", 0, 0, ())
    told.write(0, 50)
    told.own()
    told.poll(0, 40)
    lead(told, "b1", 1, 40, ((0, 0),))
    told.write(40, 20, broker="b1")
    told.place(40, "truncated")
    told.tell("c1", EpochRead(topic="orders", partition=0, offset=40, leader_epoch=1, life=1))
    told.poll(40, 60)
    losses = [Loss(told.at_us, "orders-0", 40, 49, UNCLEAN)] if expected else []
    assert told.finish(*losses) == [("lost write", 40, 49, f"expected loss: {UNCLEAN}" if expected else "")]


def test_a_batch_at_two_offsets_of_a_log_is_a_duplicate():
    """jepsen.tests.kafka: duplicate. Here by producer id, epoch and sequence."""
    told = Told(records=0)
    told.write(0, 10, sequence=0)
    told.write(10, 10, sequence=0)
    assert [each for each in told.finish() if each[0] == "duplicate"] == [("duplicate", 10, 19, "")]


def test_a_batch_that_comes_again_when_the_log_has_lost_it_is_explained():
    told = Told(records=0)
    lead(told, "b0", 0, 0, ())
    told.write(0, 10)
    told.write(10, 10, acknowledged=False, sequence=0)
    lead(told, "b1", 1, 10, ((0, 0),))
    told.write(10, 5, broker="b1", acknowledged=False)
    told.write(15, 10, broker="b1", sequence=0)
    assert [each for each in told.finish() if each[0] == "duplicate"] == [("duplicate", 15, 24, "truncation")]


def test_what_nobody_came_to_is_unseen_and_explained_while_somebody_may_still_read_it():
    told = Told()
    told.own()
    told.poll(0, 60)
    assert told.finish() == [("unseen", 60, 99, "still to be read")]


def test_what_a_healed_and_idle_group_leaves_is_unseen_without_a_reason():
    """Nobody has read anything for a minute, and nothing is broken any more."""
    told = Told()
    told.own()
    told.poll(0, 60)
    told.tell("", Healed())
    told.at_us += 61 * 1_000_000
    assert told.finish() == [("unseen", 60, 99, "")]


def test_what_no_group_reads_is_unseen_and_explained_as_long_as_the_log_has_it():
    """A record that the log has lost cannot be read by whoever comes: nothing but an expected loss explains that."""
    told = Told(records=0)
    lead(told, "b0", 0, 0, ())
    told.write(0, 50)
    lead(told, "b1", 1, 40, ((0, 0),))
    assert told.finish() == [("unseen", 0, 39, "no reader"), ("unseen", 40, 49, "")]


def test_work_done_twice_by_two_members_is_no_anomaly():
    """At least once: ``reprocessed`` counts it."""
    told = Told()
    told.own()
    told.poll(0, 60)
    told.own(20, member="c2")
    told.poll(20, 100, member="c2")
    assert told.finish() == []


def test_every_reason_of_loss_reasons_is_an_explanation():
    assert {f"expected loss: {why}" for why in LOSS_REASONS} < set(EXPLANATIONS)


# --- whole runs ----------------------------------------------------------------------------------------------------


def history_of(scenario, seed: int = 1, recorder: MemoryRecorder | None = None) -> tuple[Occurrence, ...]:
    panel = Panel()
    listening = History(panel)
    result = run(scenario, seed=seed, loop="bare", observers=(listening,), panel=panel, recorder=recorder)
    return listening.finish(result.virtual_us, result.losses)


def unexplained(found: tuple[Occurrence, ...]) -> set[str]:
    return {each.anomaly.value for each in found if not each.explained}


SHORT = ("duration=25s",)


@pytest.mark.parametrize(
    ("preset", "excused"),
    [
        ("steady-group", {"unseen"}),
        ("rolling-restart-dynamic", {"unseen", "poll skip"}),
        ("cooperative-rolling-restart", {"unseen"}),
        ("broker-crash-and-return", set()),
        ("unclean-election", {"nonmonotonic poll", "unseen"}),
        ("two-of-three-lost", {"unseen"}),
        ("catch-up-child-dies", set()),
        ("catch-up-retention", {"lost write", "poll skip"}),
        ("disk-tail-lost", {"nonmonotonic poll"}),
    ],
)
def test_presets_have_no_anomaly_that_nothing_explains(preset, excused):
    found = history_of(load_scenario(preset))
    assert not [each for each in found if not each.explained]
    assert {each.anomaly.value for each in found} == excused
    assert all(each.explained in EXPLANATIONS for each in found)


@pytest.mark.parametrize(("reset", "excused"), [("earliest", {"unseen"}), ("latest", {"unseen", "lost write"})])
def test_a_group_whose_offsets_were_deleted_begins_anew_and_that_is_no_anomaly(reset, excused):
    """KIP-496: what came while nobody was there is read again, or left out by the reset policy, which explains it."""
    plan = (
        "remove-members group=g count=6 at=15s",
        "delete-offsets group=g topic=orders at=20s",
        "start-host host=c1 at=30s",
    )
    steady = with_values(load_scenario("steady-group"), ["duration=45s", f"auto.offset.reset={reset}"])
    found = history_of(with_actions(steady, plan))
    assert not [each for each in found if not each.explained]
    assert {each.anomaly.value for each in found} == excused
    lost = [each for each in found if each.anomaly is Anomaly.LOST_WRITE]
    assert {each.explained for each in lost} == ({"reset policy"} if reset == "latest" else set())


def test_what_an_operators_offset_leaves_out_of_ranges_is_explained():
    """KIP-333: an offset of 60 in the midst of open ranges ends them; what lay before it in them is nobody's now."""
    preset = load_scenario("catch-up-rebalance")
    plan = (
        "remove-members group=g count=1 at=36s",
        "reset-offsets group=g topic=events to=offset offset=60 at=40s",
        "start-host host=c1 at=50s",
    )
    found = history_of(with_actions(evolve(preset, plan=preset.plan[:1]), plan))
    lost = [each for each in found if each.anomaly is Anomaly.LOST_WRITE]
    assert {(each.partition, each.last, each.explained) for each in lost} == {
        (f"events-{number}", 59, "offsets set by an operator") for number in range(4)
    }


def test_a_trace_has_the_same_history_as_its_run():
    recorder = MemoryRecorder()
    live = history_of(load_scenario("catch-up-retention"), recorder=recorder)
    panel = Panel()
    again = History(panel)
    last_us = 0
    for seen in recorder.facts():
        for handler in panel.handlers_of(type(seen.fact)):
            handler(seen, seen.fact)
        again.see(seen)
        last_us = seen.at_us
    assert again.finish(last_us) == live != ()


def test_a_consumer_that_leaves_out_the_last_record_of_a_poll_is_caught(monkeypatch):
    drain = Fetching.drain

    def short(fetching, at_most):
        return [
            part if part.last - part.first < 4 else part._replace(last=part.last - 1)
            for part in drain(fetching, at_most)
        ]

    monkeypatch.setattr(Fetching, "drain", short)
    assert unexplained(history_of(with_values(load_scenario("steady-group"), SHORT))) == {"poll skip", "lost write"}


def test_a_consumer_that_returns_the_last_record_again_is_caught(monkeypatch):
    drain = Fetching.drain

    def early(fetching, at_most):
        return [part if part.first < 10 else part._replace(first=part.first - 1) for part in drain(fetching, at_most)]

    monkeypatch.setattr(Fetching, "drain", early)
    assert unexplained(history_of(with_values(load_scenario("steady-group"), SHORT))) == {"nonmonotonic poll"}


def test_a_broker_that_does_not_know_a_batch_again_is_caught(monkeypatch):
    """KIP-98: an answer to a producer is lost, and the batch comes twice."""
    monkeypatch.setattr(PartitionLog, "check", lambda *_: SequenceCheck(ErrorCode.NONE, -1, -1))
    assert unexplained(history_of(load_scenario(str(MUTATIONS / "lost_produce_replies.toml")))) == {"duplicate"}


@pytest.mark.parametrize("wrong", [True, False])
def test_what_followers_truncated_by_their_high_watermarks_is_a_lost_write(tmp_path, wrong):
    """KAFKA-1211: what was acknowledged is cut off, and a member that was down meanwhile reads past it."""
    text = (PAST_BUGS_FOLDER / "kafka-1211.toml").read_text()
    if not wrong:
        text = text.replace('bugs = ["KAFKA-1211"]\n', "")
    file = tmp_path / "read.toml"
    file.write_text(text + '\n[groups.g]\ntopics = ["orders"]\nmembers = 1\n')
    scenario = with_actions(load_scenario(str(file)), ["crash host=c1 at=2s for=15s"])
    found = history_of(scenario, seed=5)
    assert unexplained(found) == ({"lost write"} if wrong else set())
