"""The time until a member's polling thread continues with new input: draws of the set ``life``."""

from collections.abc import Mapping
from itertools import pairwise

import pytest

from kemu.protocol.commands import Close, Start
from kemu.protocol.draws import DrawName
from kemu.protocol.messages.group import Heartbeat, JoinGroup, LeaveGroup, OffsetCommit, SyncGroup
from kemu.protocol.notes.groups import PartitionsAssigned, PartitionsRevoked
from tests.actors.consumer.consumer_harness import LATENCY_US, Harness

MS = 1_000
REBALANCE_IN_PROGRESS = 27


class Fixed:
    """Draws that always come out the same; what is not named is not drawn."""

    def __init__(self, spans_us: Mapping[DrawName, int]) -> None:
        self._spans_us = spans_us

    def us(self, name: DrawName, calm_us: int, of_us: int = 0, at_us: int = -1) -> int:
        return self._spans_us.get(name, calm_us)

    def identity(self, readable: str) -> str:
        return readable


def member(spans_us: Mapping[DrawName, int], *, leader: str = "") -> Harness:
    harness = Harness(draws=Fixed(spans_us), start=False)
    harness.cluster.leader = leader
    harness.cluster.given = (("t", 0),) if leader else None
    harness.tell(Start())
    return harness.stable()


def rejoined(harness: Harness) -> Harness:
    """It hears of a rebalance by its next heartbeat, and has its next assignment."""
    harness.run(100 * MS)
    harness.forget()
    harness.answer_next("Heartbeat", REBALANCE_IN_PROGRESS)
    return harness.run_until(lambda: bool(harness.facts(PartitionsAssigned)))


def spans_of(harness: Harness) -> list[int]:
    """Times from each answer to the next step: commit, join, sync, callback."""
    at = {type(message): at_us for at_us, _, message in harness.sent if not isinstance(message, Heartbeat)}
    beats = [at_us for at_us, _, message in harness.sent if isinstance(message, Heartbeat)]
    assigned = next(at_us for at_us, note in harness.noted_at if isinstance(note, PartitionsAssigned))
    moments = [beats[0], at[OffsetCommit], at[JoinGroup], at[SyncGroup], assigned]
    return [later - earlier - 2 * LATENCY_US for earlier, later in pairwise(moments)]


def test_a_leader_goes_on_later_after_each_answer_and_after_the_callback() -> None:
    """As recorded with kafka-clients 3.4.1: heartbeat to commit, callback to join, join to sync, sync to callback."""
    harness = rejoined(member({DrawName.HAND_OVER: 7 * MS, DrawName.REJOIN_NOTICE: 2 * MS}))

    assert spans_of(harness) == [2 * MS, 7 * MS, 7 * MS, 7 * MS]
    assert harness.facts(PartitionsRevoked)


def test_a_follower_takes_a_time_of_its_own_from_join_to_sync() -> None:
    """As recorded: it has no assignment to make, and comes before its leader about as often as after it."""
    draws = {DrawName.HAND_OVER: 7 * MS, DrawName.FOLLOWER_SYNC: 3 * MS}

    assert spans_of(rejoined(member(draws, leader="c0-1"))) == [0, 7 * MS, 3 * MS, 7 * MS]
    assert spans_of(rejoined(member(draws))) == [0, 7 * MS, 7 * MS, 7 * MS], "a leader's is another"
    assert spans_of(rejoined(member({DrawName.HAND_OVER: 7 * MS}, leader="c0-1"))) == [0, 7 * MS, 0, 7 * MS]


def test_without_the_draw_nothing_is_later() -> None:
    """The set calm, for leader and follower."""
    assert spans_of(rejoined(member({}))) == [0] * 4
    assert spans_of(rejoined(member({}, leader="c0-1"))) == [0] * 4


def test_the_first_join_of_a_process_takes_longer_also_for_a_follower() -> None:
    """As recorded: classes are loaded between the answer to JoinGroup and SyncGroup, and before the first callback."""
    cold = {DrawName.HAND_OVER: 7 * MS, DrawName.FOLLOWER_SYNC: 3 * MS, DrawName.FIRST_JOIN: 50 * MS}
    for leader in ("", "c0-1"):
        harness = member(cold, leader=leader)
        at = {type(message): at_us for at_us, _, message in harness.sent}
        assigned = next(at_us for at_us, note in harness.noted_at if isinstance(note, PartitionsAssigned))

        assert at[SyncGroup] - at[JoinGroup] - 2 * LATENCY_US == 50 * MS
        assert assigned - at[SyncGroup] - 2 * LATENCY_US == 50 * MS
        assert spans_of(rejoined(harness)) == [0, 7 * MS, 3 * MS if leader else 7 * MS, 7 * MS]


@pytest.mark.parametrize("draw", [DrawName.HAND_OVER, DrawName.FIRST_JOIN])
def test_heartbeats_begin_after_half_of_the_delay_before_the_assignment(draw: DrawName) -> None:
    """``JoinGroupResponseHandler`` (3.4.1, 3.9.1) enables the heartbeat thread, and then computes the assignment."""
    harness = member({draw: 50 * MS})
    harness.run_until(lambda: bool(harness.requests(Heartbeat)))
    joined_us = max(at_us for at_us, _, message in harness.sent if isinstance(message, JoinGroup))

    assert harness.now_us - (joined_us + 2 * LATENCY_US) == (3_000 + 25) * MS


def test_a_process_needs_a_time_of_its_own_for_its_second_join() -> None:
    """From MEMBER_ID_REQUIRED to the JoinGroup with the id, as recorded; later joins take the time of a hand-over."""
    harness = member({DrawName.HAND_OVER: 7 * MS, DrawName.FIRST_ID: 40 * MS})

    first, second = (at_us for at_us, _, message in harness.sent if isinstance(message, JoinGroup))
    assert second - first - 2 * LATENCY_US == 40 * MS
    assert spans_of(rejoined(harness)) == [0, 7 * MS, 7 * MS, 7 * MS]


def test_records_are_polled_while_a_hand_over_waits() -> None:
    """The thread that comes late to the rebalance may still return from poll() with records."""
    harness = member({DrawName.REJOIN_NOTICE: 500 * MS})
    harness.run(100 * MS)
    harness.forget()
    harness.answer_next("Heartbeat", REBALANCE_IN_PROGRESS)
    harness.run_until(lambda: bool(harness.requests(Heartbeat)))
    harness.append(("t", 0), 4)
    harness.run(100 * MS)

    assert not harness.requests(JoinGroup)
    harness.run(2_000 * MS)
    assert harness.requests(JoinGroup)
    assert harness.cluster.committed[("t", 0)] == 4


def test_an_application_notices_between_two_polls_that_it_should_close() -> None:
    """As recorded: a loop of poll(100 ms) that looks at a flag closed 6 to 156 ms after it was told."""
    harness = member({DrawName.CLOSE_NOTICE: 60 * MS})
    harness.run(100 * MS)
    harness.forget()
    told_us = harness.now_us
    harness.tell(Close())
    harness.run_until(lambda: harness.consumer.finished)

    commit = next(at_us for at_us, _, message in harness.sent if isinstance(message, OffsetCommit))
    assert commit - told_us == 60 * MS
    assert harness.requests(LeaveGroup)
