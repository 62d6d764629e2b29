"""The checker of Streams tasks: what rest is (I6) and what commits must not do (I9), told by hand."""

import pytest

from kemu.emulator.checkers.tasks import Tasks
from kemu.emulator.facts import DiskTailLost, Healed, HostStarted
from kemu.emulator.watching.panel import Panel
from kemu.protocol.notes.groups import OffsetCommitted, OffsetRemoved, PositionSet
from kemu.protocol.notes.streams import InstanceLeaving
from tests.emulator.streams_story import APP, COORDINATOR, S, StreamsStory, formed

BOUND_S = 60


def kinds(told: StreamsStory, until_s: float = 200) -> list[str]:
    """What the checker finds."""
    panel, checker = Panel(), Tasks(BOUND_S * S)
    checker.attach(panel)
    for seen in told.seen():
        panel.see(seen)
        checker.see(seen)
    checker.finish(round(until_s * S))
    return [each.kind for each in checker.violations]


def healed(told: StreamsStory, at_s: float = 50) -> StreamsStory:
    """All is well from then on."""
    told.say(at_s, "", Healed())
    return told


def learning() -> StreamsStory:
    """c learns 0_0 from 21 on."""
    told = formed()
    told.start(20, "c")
    told.decide(21, {"a": "0 1", "b": "2 3", "c": "| learn 0"})
    told.copy(21, "c", "0", "learner", "CREATED", "RESTORING", "RUNNING")
    return told


def get_it(told: StreamsStory, at_s: float) -> StreamsStory:
    """c gets what it learned."""
    told.decide(at_s, {"a": "1", "b": "2 3", "c": "0"})
    told.copy(at_s, "a", "0", "active", "SUSPENDED", "CLOSED")
    told.copy(at_s, "c", "0", "active", "RESTORING", "RUNNING")
    return told


def test_an_application_that_rests_when_all_is_healed_keeps_the_rule() -> None:
    """I6: all tasks run, nobody learns."""
    assert kinds(healed(formed())) == []


def test_a_learner_that_never_gets_its_task_is_no_rest() -> None:
    """I6; before the bound is over nobody can say."""
    assert kinds(healed(learning())) == ["not-at-rest"]
    assert kinds(healed(learning()), until_s=100) == []


@pytest.mark.parametrize(("at_s", "found"), [(100, []), (120, ["not-at-rest"])])
def test_a_learner_may_get_its_task_within_the_bound_and_not_later(at_s: float, found: list[str]) -> None:
    """I6: 60 s from the healing at 50."""
    assert kinds(get_it(healed(learning()), at_s)) == found


def test_what_disturbs_an_application_later_starts_the_bound_again() -> None:
    """A host that starts at 90."""
    told = healed(learning())
    told.say(90, "", HostStarted(host="p9", life=1, kept_disk=True))

    assert kinds(get_it(told, 120)) == []


def test_a_load_outside_the_band_of_the_leader_is_no_rest() -> None:
    """I6, stage 4: 4 of 4 tasks on one of two instances, 20 % are tolerated."""
    told = StreamsStory(imbalance="0.2")
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1 2 3", "b": ""})
    told.runs(2, a="0 1 2 3")

    assert kinds(healed(told)) == ["not-at-rest"]


def test_where_all_leave_tasks_stay_where_they_are() -> None:
    """Spec of the learner design, scaling operations: without recipients nothing moves, and that is rest."""
    told = StreamsStory(imbalance="0.2")
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1 2 3", "b": ""}, leaving="a b")
    told.runs(2, a="0 1 2 3")
    for name in "ab":
        told.say(2, name, InstanceLeaving(application=APP, instance=name, leaving=True))

    assert kinds(healed(told)) == []


def committed(offset: int, generation: int = 1) -> OffsetCommitted:
    """a commits an offset of in-0."""
    return OffsetCommitted(group=APP, topic="in", partition=0, offset=offset, generation=generation, member_id="a-id")


def begins(offset: int, why: str = "committed") -> PositionSet:
    """Somebody starts to read in-0."""
    return PositionSet(group=APP, member_id="a-id", topic="in", partition=0, offset=offset, why=why)


def test_a_committed_offset_does_not_go_back() -> None:
    """I9."""
    told = formed()
    told.say(10, COORDINATOR, committed(100))
    told.say(11, COORDINATOR, committed(99))

    assert kinds(told) == ["committed-back"]


@pytest.mark.parametrize(
    "between",
    [
        committed(50, generation=-1),
        OffsetRemoved(group=APP, topic="in", partition=0, why="told"),
        DiskTailLost(host="b0", log="__consumer_offsets-0", records=9, end_offset=0),
        begins(20, "reset"),
    ],
    ids=["an operator's reset", "removed", "lost", "reset"],
)
def test_what_moved_the_committed_offset_back_from_outside_excuses_it(between: object) -> None:
    """I9: "except after an injected reset"."""
    told = formed()
    told.say(10, COORDINATOR, committed(100))
    told.say(11, COORDINATOR if isinstance(between, OffsetCommitted | OffsetRemoved) else "a/t1", between)
    told.say(12, COORDINATOR, committed(60))

    assert kinds(told) == []


@pytest.mark.parametrize(("why", "offset", "found"), [("committed", 100, []), ("committed", 101, ["records-skipped"])])
def test_who_begins_behind_the_committed_offset_leaves_a_gap(why: str, offset: int, found: list[str]) -> None:
    """I9: "gaps never"."""
    told = formed()
    told.say(10, COORDINATOR, committed(100))
    told.say(11, "b/t1", begins(offset, why))

    assert kinds(told) == found


def test_where_nothing_is_committed_an_application_begins_at_the_beginning() -> None:
    """``auto.offset.reset`` of Streams is earliest."""
    told = formed()
    told.say(10, "a/t1", begins(0, "reset"))
    told.say(11, "b/t1", begins(7, "reset"))

    assert kinds(told) == ["records-skipped"]
