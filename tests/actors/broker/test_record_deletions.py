"""DeleteRecords at its leader, one step at a time. KIP-107; Kafka's ReplicaManager, DelayedDeleteRecords."""

import pytest

from kemu.actors.machine import Received
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import DeletedRecords, DeleteRecords, DeleteRecordsReply, RecordsToDelete
from kemu.protocol.notes.replication import LogStartMoved
from tests.actors.broker.replica_world import Bench

S = 1_000_000


def led() -> Bench:
    """b0 leads, all replicas have ten records, all brokers know the live ones."""
    bench = Bench(3)
    bench.elect(0, (0, 1, 2))
    bench.tell_brokers()
    bench.settle(S)
    bench.produce("b0", 10)
    bench.settle(2 * S)
    return bench


def delete(bench: Bench, offset: int, *, at: str = "b0", timeout_ms: int = 5_000, topic: str = "t") -> None:
    """Send an admin's DeleteRecords."""
    row = RecordsToDelete(topic=topic, partition=0, offset=offset)
    bench.ask(at, DeleteRecords(partitions=(row,), timeout_ms=timeout_ms), 2, sender="admin")


def answers(bench: Bench) -> list[DeletedRecords]:
    """The answers to admins."""
    found = [reply.partitions for _, reply in bench.replies if isinstance(reply, DeleteRecordsReply)]
    return [row for rows in found for row in rows]


def starts(bench: Bench) -> list[int]:
    """The log start of each broker."""
    return [bench.replica(name).log.start_offset for name in sorted(bench.brokers)]


@pytest.mark.parametrize(("offset", "start"), [(4, 4), (-1, 10), (10, 10)])
def test_the_leader_deletes_at_once_and_answers_when_the_followers_have_fetched_that(offset: int, start: int) -> None:
    """The low watermark is the lowest log start of all live replicas; -1 stands for the high watermark."""
    bench = led()
    delete(bench, offset)
    assert (starts(bench), answers(bench)) == ([start, 0, 0], [])

    bench.settle(2 * S)

    assert starts(bench) == [start] * 3
    (row,) = answers(bench)
    assert (row.error, row.low_watermark) == (ErrorCode.NONE, start)
    whys = [(name, fact.why) for name, fact in bench.notes if isinstance(fact, LogStartMoved)]
    assert sorted(whys) == [("b0", "delete-records"), ("b1", "leader"), ("b2", "leader")]


def test_nothing_else_is_read_from_its_connection_until_it_is_answered() -> None:
    """``SocketServer`` mutes a channel while its request is served, in the purgatory, too."""
    bench = led()
    for number, offset in enumerate((4, -2), 1):
        row = RecordsToDelete(topic="t", partition=0, offset=offset)
        bench.step("b0", Received("admin", 900, number, 2, DeleteRecords(partitions=(row,), timeout_ms=5_000)))
    assert (starts(bench), answers(bench)) == ([4, 0, 0], [])

    bench.settle(2 * S)

    assert [row.error for row in answers(bench)] == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


def test_what_is_deleted_already_is_answered_with_where_the_logs_start() -> None:
    """``maybeIncrementLogStartOffset`` never lowers the start."""
    bench = led()
    delete(bench, 6)
    bench.settle(2 * S)
    delete(bench, 2)
    bench.settle(2 * S)

    assert [row.low_watermark for row in answers(bench)] == [6, 6]
    assert starts(bench) == [6] * 3


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"offset": 11}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": -2}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 1, "at": "b1"}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"offset": 1, "topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_cannot_be_deleted_is_refused_and_nothing_happens(how: dict[str, int], error: ErrorCode) -> None:
    """Above the high watermark, at another broker, or of an internal topic."""
    bench = led()
    delete(bench, **how)  # type: ignore[arg-type]

    assert [row.error for row in answers(bench)] == [error]
    assert starts(bench) == [0, 0, 0]


def test_a_follower_that_fetches_nothing_makes_it_time_out_while_it_lives() -> None:
    """REQUEST_TIMED_OUT, but the records are deleted; a failed broker is not waited for."""
    bench = led()
    bench.crash("b2")
    delete(bench, 5)
    bench.settle(6 * S)
    assert [row.error for row in answers(bench)] == [ErrorCode.REQUEST_TIMED_OUT]
    assert starts(bench)[:2] == [5, 5]

    bench.brokers["b0"].manager.live_brokers.pop(2)  # as UpdateMetadata says when its session has ended
    delete(bench, 7)
    bench.settle(2 * S)

    assert [row.low_watermark for row in answers(bench)][1:] == [7]


def test_a_deposed_leader_answers_who_waits() -> None:
    """``DelayedDeleteRecords.tryComplete``: a former leader cannot know the low watermark."""
    bench = led()
    delete(bench, 5)
    bench.elect(1, (0, 1, 2))

    assert [row.error for row in answers(bench)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
