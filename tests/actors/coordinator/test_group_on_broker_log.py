"""A coordinator whose records the broker of its process keeps: its requests, and its reactions to the broker's
messages.

Source: ReplicaManager.appendRecords, GroupCoordinator.onElection and onResignation.
"""

from typing import Any

import attrs
import pytest

from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.coordinator.on_broker_log import BrokerLog
from kemu.actors.machine import Effect, LinkDown, Note, Received, Record, Send, StartTimer, TimerFired, Told
from kemu.protocol.commands import Start
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetToCommit,
    TopicPartitions,
)
from kemu.protocol.messages.offsets_log import (
    AppendGroups,
    AppendGroupsReply,
    LeadGroups,
    LeadGroupsReply,
    ResignGroups,
    ResignGroupsReply,
)
from kemu.protocol.messages.records import StoredOffset, group_record, offset_record
from kemu.protocol.names import offsets_partition_of
from kemu.protocol.notes.groups import GroupLoaded, GroupRequestAnswered, GroupUnloaded, OffsetCommitted
from tests.actors.coordinator.coordinator_harness import metadata
from tests.actors.coordinator.test_group_failover import group_of, stored

LOAD_US = 5_000
TIMEOUT_US = 5_000_000
NUMBER = offsets_partition_of("g")
COMMIT = OffsetCommit(group="g", offsets=(OffsetToCommit(topic="t", partition=0, offset=7),))
FETCH = OffsetFetch(group="g", topics=(TopicPartitions(topic="t", partitions=(0,)),))


class Desk:
    """A coordinator, and the test in the place of its broker and its clients."""

    def __init__(self, kind: str = "scala", *, life: int = 1, linger_ms: int = 0) -> None:
        name = "b0/coordinator"
        self.coordinator = Coordinator(
            name,
            0,
            BrokerConfig(coordinator_kind=kind, group_coordinator_append_linger_ms=linger_ms),
            lambda machine: BrokerLog(machine, "b0", LOAD_US, commit_timeout_us=TIMEOUT_US),
            life=life,
        )
        self._last = 0
        self.coordinator.step(0, Told(Start()))

    def asks(self, peer: str, message: Any, version: int = 0) -> list[Effect]:
        """The effects of a request."""
        self._last += 1
        return list(self.coordinator.step(0, Received(peer, self._last, self._last, version, message)))

    def answers(self, send: Send, error: E, base_offset: int = 0) -> list[Effect]:
        """The effects of the broker's answer to an append."""
        reply = AppendGroupsReply(error=error, base_offset=base_offset)
        return list(self.coordinator.step(0, Received("b0", 0, send.request_id, 0, reply)))

    def leads(self, epoch: int, *records: Record) -> list[Effect]:
        """The effects of the broker's new leadership."""
        return self.asks("b0", LeadGroups(partition=NUMBER, leader_epoch=epoch, records=records))


def only(effects: list[Effect], kind: type) -> Any:
    """The one message of this kind that was sent."""
    (found,) = [each for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]
    return found


def error_of(effects: list[Effect]) -> E:
    """The error in the answer to a commit or a fetch."""
    (send,) = [each for each in effects if isinstance(each, Send)]
    rows = getattr(send.message, "outcomes", None) or getattr(send.message, "offsets", None)
    return E(rows[0].error if rows else send.message.error)


def test_a_record_is_appended_at_the_broker_and_told_when_it_has_it() -> None:
    """acks=all: nothing is told to a client that a coordinator elected later would not know."""
    desk = Desk()
    only(desk.leads(4), LeadGroupsReply)

    asked = only(desk.asks("c", COMMIT, 8), AppendGroups)
    assert (asked.to, asked.message.partition, asked.message.leader_epoch) == ("b0", NUMBER, 4)
    assert len(asked.message.records) == 1

    assert error_of(desk.answers(asked, E.NONE)) is E.NONE


@pytest.mark.parametrize("broken", [False, True])
def test_an_append_that_fails_or_is_lost_is_not_coordinator_to_the_client(broken: bool) -> None:
    """NOT_LEADER_OR_FOLLOWER of the log becomes NOT_COORDINATOR (storeGroup's error mapping)."""
    desk = Desk()
    desk.leads(4)
    asked = only(desk.asks("c", COMMIT, 8), AppendGroups)

    assert list(desk.coordinator.step(0, LinkDown("somebody"))) == []
    failed = desk.coordinator.step(0, LinkDown("b0")) if broken else desk.answers(asked, E.NOT_LEADER_OR_FOLLOWER)

    assert error_of(list(failed)) is E.NOT_COORDINATOR


def test_a_log_that_is_not_empty_takes_its_time_to_load() -> None:
    """onElection: COORDINATOR_LOAD_IN_PROGRESS until the log is read."""
    desk = Desk()

    effects = desk.leads(4, offset_record("g", "t", 0, StoredOffset(7, -1, "", 0)))

    (timer,) = [each for each in effects if isinstance(each, StartTimer)]
    assert (timer.key, timer.after_us) == (("load", str(NUMBER)), LOAD_US)
    assert error_of(desk.asks("c", FETCH, 7)) is E.COORDINATOR_LOAD_IN_PROGRESS
    loaded = desk.coordinator.step(LOAD_US, TimerFired(timer.key))
    assert [type(note.fact) for note in loaded if isinstance(note, Note)] == [GroupLoaded]


def test_what_the_broker_leads_no_more_is_given_up_until_it_leads_again() -> None:
    """onResignation under the epoch of the leadership. The next election has a higher epoch; lower ones are ignored."""
    desk = Desk()
    desk.leads(4, offset_record("g", "t", 0, StoredOffset(7, -1, "", 0)))
    desk.coordinator.step(0, TimerFired(("load", str(NUMBER))))
    waiting = only(desk.asks("c", COMMIT, 8), AppendGroups)

    stale = desk.asks("b0", ResignGroups(partition=NUMBER, leader_epoch=3))
    effects = desk.asks("b0", ResignGroups(partition=NUMBER, leader_epoch=4))

    assert [type(each.message) for each in stale if isinstance(each, Send)] == [ResignGroupsReply]
    only(effects, ResignGroupsReply)
    assert [type(note.fact) for note in effects if isinstance(note, Note)][-1] is GroupUnloaded
    (answer,) = [each for each in effects if isinstance(each, Send) and each.to == "c"]
    assert answer.message.outcomes[0].error is E.NOT_COORDINATOR
    assert desk.answers(waiting, E.NONE) == []
    assert error_of(desk.asks("c", FETCH, 7)) is E.NOT_COORDINATOR
    desk.leads(5)
    assert error_of(desk.asks("c", FETCH, 7)) is E.NONE


def test_a_broker_that_leads_again_in_its_epoch_hands_out_ids_that_none_of_its_lives_did() -> None:
    """No controller saw it restart, so that its epoch stands; GroupMetadata.generateMemberId draws a UUID."""
    protocols = (JoinProtocol(name="range", metadata=metadata("t")),)
    join = JoinGroup(group="g", session_timeout_ms=8_000, protocol_type="consumer", protocols=protocols)
    before, after = Desk(life=1), Desk(life=2)
    before.leads(4)
    handed_out = error_and_id(before.asks("c", join, 4))

    after.leads(4, group_record(group_of(stored(handed_out[1]))))
    after.coordinator.step(0, TimerFired(("load", str(NUMBER))))
    another = error_and_id(after.asks("c", join, 4))
    after.asks("c", attrs.evolve(join, member_id=another[1]), 4)

    assert handed_out[0] is another[0] is E.MEMBER_ID_REQUIRED
    assert list(after.coordinator.groups["g"].members.by_id) == [handed_out[1], another[1]]


def error_and_id(effects: list[Effect]) -> tuple[E, str]:
    """The error and member id in the answer to a join."""
    reply = only(effects, JoinGroupReply).message
    return reply.error, reply.member_id


def test_nobody_else_has_anything_to_say_about_the_log() -> None:
    """A message that is neither a client's request nor the broker's is a mistake of whoever wired it."""
    request = AppendGroups(partition=0, leader_epoch=0, records=())
    with pytest.raises(AssertionError, match="not a request of a coordinator"):
        Desk().asks("c", request)
    with pytest.raises(AssertionError, match="not a request of a coordinator"):
        Coordinator("b0/coordinator", 0, BrokerConfig()).step(0, Received("c", 1, 1, 0, request))


# --- Java's coordinator ----------------------------------------------------------------------------------------------

GENERATION = 3
MEMBER = stored("m")
HEARTBEAT = Heartbeat(group="g", generation=GENERATION, member_id="m")
STABLE_FETCH = OffsetFetch(group="g", topics=(TopicPartitions(topic="t", partitions=(0,)),), require_stable=True)
ANOTHER = OffsetCommit(
    group="g", generation=GENERATION, member_id="m", offsets=(OffsetToCommit(topic="t", partition=0, offset=9),)
)


def with_a_member(kind: str) -> Desk:
    """A coordinator of a group with one member, Stable in ``GENERATION``."""
    desk = Desk(kind)
    desk.leads(4, group_record(group_of(MEMBER, generation=GENERATION)))
    desk.coordinator.step(0, TimerFired(("load", str(NUMBER))))
    return desk


def timer_of(effects: list[Effect]) -> StartTimer:
    """The wait that began."""
    (timer,) = [each for each in effects if isinstance(each, StartTimer) and each.key[0] == "write"]
    return timer


def sends(effects: list[Effect]) -> list[object]:
    """The messages sent."""
    return [each.message for each in effects if isinstance(each, Send)]


@pytest.mark.parametrize(("kind", "acks", "version"), [("java", 1, 1), ("scala", -1, 0), ("scala-2.4", -1, 0)])
def test_java_appends_to_the_leader_alone_and_waits_itself(kind: str, acks: int, version: int) -> None:
    """CoordinatorPartitionWriter.append: requiredAcks = 1; GroupMetadataManager.scala: -1, timed by the broker."""
    effects = with_a_member(kind).asks("c", ANOTHER, 8)

    asked = only(effects, AppendGroups)
    assert (asked.message.required_acks, asked.version) == (acks, version)
    waits = [each.after_us for each in effects if isinstance(each, StartTimer) and each.key[0] == "write"]
    assert waits == ([TIMEOUT_US] if acks == 1 else [])


def test_heartbeats_leaves_and_stable_fetches_wait_for_what_was_appended_before_them() -> None:
    """CoordinatorContext.append: an operation without records is answered once the last written offset is committed."""
    desk = with_a_member("java")
    asked = only(desk.asks("c", ANOTHER, 8), AppendGroups)

    assert sends(desk.asks("c", HEARTBEAT, 3)) == []
    assert sends(desk.asks("c", STABLE_FETCH, 7)) == []
    assert error_of(desk.asks("c", FETCH, 7)) is E.NONE  # a read, of what is committed
    told = sends(desk.answers(asked, E.NONE))

    assert [type(each) for each in told] == [OffsetCommitReply, HeartbeatReply, OffsetFetchReply]
    assert isinstance(told[1], HeartbeatReply) and told[1].error is E.NONE
    assert isinstance(told[2], OffsetFetchReply) and told[2].offsets[0].offset == 9
    assert sends(desk.asks("c", HEARTBEAT, 3)) == [HeartbeatReply(error=E.NONE)]


def test_refusals_of_heartbeats_and_scalas_answers_wait_for_nothing() -> None:
    """An exception completes the event at once; GroupCoordinator.scala answers from memory."""
    for kind in ("java", "scala"):
        desk = with_a_member(kind)
        desk.asks("c", ANOTHER, 8)
        assert error_of(desk.asks("c", attrs.evolve(HEARTBEAT, generation=2), 3)) is E.ILLEGAL_GENERATION
    assert sends(desk.asks("c", HEARTBEAT, 3)) == [HeartbeatReply(error=E.NONE)]


def test_a_commit_that_takes_too_long_is_refused_and_counts_all_the_same() -> None:
    """CoordinatorRuntime.OperationTimeout reverts nothing: COORDINATOR_NOT_AVAILABLE, and later the offset is there."""
    desk = with_a_member("java")
    effects = desk.asks("c", ANOTHER, 8)
    asked, timer = only(effects, AppendGroups), timer_of(effects)

    assert error_of(list(desk.coordinator.step(0, TimerFired(timer.key)))) is E.COORDINATOR_NOT_AVAILABLE
    (before,) = sends(desk.asks("c", FETCH, 7))
    waits = desk.asks("c", HEARTBEAT, 3)
    late = desk.answers(asked, E.NONE)
    (after,) = sends(desk.asks("c", FETCH, 7))

    assert isinstance(before, OffsetFetchReply) and before.offsets[0].offset == -1
    assert sends(waits) == [] and sends(late) == [HeartbeatReply(error=E.NONE)]
    assert [type(each.fact) for each in late if isinstance(each, Note)] == [OffsetCommitted, GroupRequestAnswered]
    assert isinstance(after, OffsetFetchReply) and after.offsets[0].offset == 9


@pytest.mark.parametrize(
    ("request_", "version", "error"),
    [(HEARTBEAT, 3, E.COORDINATOR_NOT_AVAILABLE), (STABLE_FETCH, 7, E.NOT_COORDINATOR)],
)
def test_what_waits_too_long_behind_an_append_is_refused(request_: object, version: int, error: E) -> None:
    """handleOperationException; handleOffsetFetchException, as older consumers know no other error there."""
    desk = with_a_member("java")
    asked = only(desk.asks("c", ANOTHER, 8), AppendGroups)
    timer = timer_of(desk.asks("c", request_, version))

    assert error_of(list(desk.coordinator.step(0, TimerFired(timer.key)))) is error
    assert [type(each) for each in sends(desk.answers(asked, E.NONE))] == [OffsetCommitReply]


def test_who_waits_for_the_watermark_of_a_partition_that_is_lost_is_told_so() -> None:
    """CoordinatorContext.unload: deferredEventQueue.failAll(NOT_COORDINATOR)."""
    desk = with_a_member("java")
    timed = desk.asks("c", ANOTHER, 8)
    desk.coordinator.step(0, TimerFired(timer_of(timed).key))
    desk.asks("c", ANOTHER, 8)
    desk.asks("c", HEARTBEAT, 3)

    told = sends(desk.asks("b0", ResignGroups(partition=NUMBER, leader_epoch=4)))

    assert [type(each) for each in told] == [ResignGroupsReply, OffsetCommitReply, HeartbeatReply]
    assert isinstance(told[1], OffsetCommitReply) and told[1].outcomes[0].error is E.NOT_COORDINATOR
    assert isinstance(told[2], HeartbeatReply) and told[2].error is E.NOT_COORDINATOR
    assert desk.answers(only(timed, AppendGroups), E.NONE) == []


def gathering(linger_ms: int = 5) -> Desk:
    """As ``with_a_member``, by a coordinator that gathers what it writes."""
    desk = Desk("java", linger_ms=linger_ms)
    desk.leads(4, group_record(group_of(MEMBER, generation=GENERATION)))
    desk.coordinator.step(0, TimerFired(("load", str(NUMBER))))
    return desk


def test_what_was_gathered_is_one_append_and_all_who_wait_for_it_are_answered_in_order() -> None:
    """flushCurrentBatch: one batch, and its deferred events complete when the high watermark has passed it."""
    desk = gathering()
    first, beat, second = desk.asks("c", ANOTHER, 8), desk.asks("c", HEARTBEAT, 3), desk.asks("d", ANOTHER, 8)
    assert sends(first) == sends(beat) == sends(second) == []

    asked = only(list(desk.coordinator.step(0, TimerFired(("linger", str(NUMBER))))), AppendGroups)
    assert (len(asked.message.records), asked.message.required_acks) == (2, 1)
    told = desk.answers(asked, E.NONE, base_offset=7)

    assert [type(each) for each in sends(told)] == [OffsetCommitReply, HeartbeatReply, OffsetCommitReply]
    notes = [each.fact for each in told if isinstance(each, Note)]
    assert [note.position for note in notes if isinstance(note, OffsetCommitted)] == [7, 8]


def test_the_time_of_a_write_runs_while_it_is_gathered() -> None:
    """CoordinatorWriteEvent.run: OperationTimeout starts when an event is deferred, not when its batch is flushed."""
    desk = gathering(linger_ms=60_000)
    timer = timer_of(desk.asks("c", ANOTHER, 8))
    assert timer.after_us == TIMEOUT_US

    assert error_of(list(desk.coordinator.step(0, TimerFired(timer.key)))) is E.COORDINATOR_NOT_AVAILABLE
    asked = only(list(desk.coordinator.step(0, TimerFired(("linger", str(NUMBER))))), AppendGroups)
    assert sends(desk.answers(asked, E.NONE)) == []
    (after,) = sends(desk.asks("c", FETCH, 7))
    assert isinstance(after, OffsetFetchReply) and after.offsets[0].offset == 9
