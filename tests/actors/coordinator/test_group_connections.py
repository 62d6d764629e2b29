"""One request at a time per connection at a coordinator: the next one is read after the answer to the one before.

Kafka's protocol guide: "The broker's request processing allows only a single in-flight request per connection". Source:
``SocketServer.Processor.processCompletedReceives``: the channel is muted until the answer is on its way.
"""

from kemu.actors.machine import LinkDown
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import Heartbeat, LeavingMember
from kemu.protocol.notes.groups import LateCommit, MemberRemoved, OffsetCommitted
from tests.actors.coordinator.coordinator_harness import GROUP, Ask, Bench, Formed


def rebalancing() -> tuple[Bench, Formed]:
    """c1 and c2 are a group, and c1 rejoins; all requests of c1 use one connection."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    bench.connection = 7_000
    assert bench.join("c1", formed.ids["c1"]).reply is None
    return bench, formed


def test_a_heartbeat_waits_behind_the_sync_of_its_member() -> None:
    """A member that waits for a slow leader gets no answer to its heartbeats, and may give up its coordinator."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    bench.join("c1", formed.ids["c1"])
    generation = bench.join("c2", formed.ids["c2"]).reply.generation
    bench.connection = 7_000
    parked = bench.sync("c2", formed.ids["c2"], generation)
    beat = bench.ask("c2", Heartbeat(group=GROUP, generation=generation, member_id=formed.ids["c2"]))
    assert (parked.reply, beat.reply) == (None, None)
    bench.connection = 0

    bench.sync("c1", formed.ids["c1"], generation, {})

    assert (parked.error, beat.error) == (ErrorCode.NONE, ErrorCode.NONE)


def test_a_member_that_leaves_while_it_joins_is_heard_when_its_join_is_answered() -> None:
    """LeaveGroup lies behind its JoinGroup: the generation still counts on it, and another one follows."""
    bench, formed = rebalancing()
    leave = bench.leave("c1", LeavingMember(member_id=formed.ids["c1"]))
    assert leave.reply is None
    assert not bench.noted(MemberRemoved)
    bench.connection = 0

    joined = bench.join("c2", formed.ids["c2"])

    assert (joined.error, joined.reply.generation) == (ErrorCode.NONE, formed.generation + 1)
    assert joined.reply.leader == formed.ids["c1"]
    assert leave.error is ErrorCode.NONE
    assert [each.member_id for each in bench.noted(MemberRemoved)] == [formed.ids["c1"]]


def test_what_was_sent_before_a_connection_broke_is_read_all_the_same() -> None:
    """The broker's kernel has the bytes; only the answers are lost."""
    bench, formed = rebalancing()
    bench.leave("c1", LeavingMember(member_id=formed.ids["c1"]))
    bench.feed(LinkDown("c1"))
    bench.connection = 0
    assert not bench.noted(MemberRemoved)

    bench.join("c2", formed.ids["c2"])

    assert [each.member_id for each in bench.noted(MemberRemoved)] == [formed.ids["c1"]]


def test_what_lies_behind_a_commit_is_read_when_that_is_written() -> None:
    """Requests are answered in order, and the second is not read before the first answer."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.connection, bench.hold_appends = 7_000, True
    who = {"member_id": formed.ids["c1"], "generation": formed.generation}
    first, second = (bench.commit("c1", offset, **who) for offset in (5, 6))
    assert len(bench.held) == 1

    bench.release()

    assert (first.reply is not None, second.reply) == (True, None)
    bench.release()
    assert second.reply is not None
    bench.connection = 0
    assert bench.committed() == 6


def commits_on_two_connections(*offsets: int) -> tuple[Bench, list[Ask], Ask]:
    """c1 commits these offsets over one connection, of which only the first is read, abandons it, and commits 90."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.connection, bench.hold_appends = 7_000, True
    who = {"member_id": formed.ids["c1"], "generation": formed.generation}
    before = [bench.commit("c1", offset, **who) for offset in offsets]
    bench.feed(LinkDown("c1"))
    bench.connection = 8_000
    return bench, before, bench.commit("c1", 90, **who)


def test_a_commit_that_is_read_after_its_connection_was_left_comes_behind_a_newer_one_and_says_so() -> None:
    """SocketServer.Processor does not see the end of a muted channel: the first answer is written, and it reads on."""
    bench, (first, second), newest = commits_on_two_connections(5, 6)

    bench.release()
    assert (first.reply is not None, second.reply, newest.reply is not None) == (True, None, True)
    bench.release()

    assert [fact.offset for fact in bench.noted(OffsetCommitted)] == [5, 90, 6]
    assert bench.committed() == 6
    (late,) = bench.noted(LateCommit)
    assert (late.first_position, late.last_position) == (bench.noted(OffsetCommitted)[2].position,) * 2


def test_a_connection_that_was_left_is_read_until_an_answer_to_it_fails() -> None:
    """Selector.pollSelectionKeys, ``sendFailed``: the reset after the first answer has arrived before the second."""
    bench, (_, _, third), _ = commits_on_two_connections(5, 6, 7)
    bench.release()
    bench.advance(100)

    bench.release()
    assert not bench.held
    bench.advance(60_000)

    assert third.reply is None
    assert [fact.offset for fact in bench.noted(OffsetCommitted)] == [5, 90, 6]


def test_a_request_that_arrives_at_a_closed_connection_is_lost() -> None:
    """Selector.close: the host no longer knows the connection when the client's delayed packet arrives."""
    bench, _, _ = commits_on_two_connections(5, 6)
    bench.release()
    bench.advance(100)
    bench.release()

    bench.connection = 7_000
    late = bench.commit("c1", 8, member_id=bench.noted(OffsetCommitted)[0].member_id, generation=1)
    bench.release()

    assert late.reply is None
    assert 8 not in [fact.offset for fact in bench.noted(OffsetCommitted)]


def test_what_is_answered_at_once_behind_the_first_answer_is_read_on() -> None:
    """The client's reset is still on its way."""
    bench, formed = rebalancing()
    beat = Heartbeat(group=GROUP, generation=formed.generation, member_id=formed.ids["c1"])
    bench.ask("c1", beat)
    bench.leave("c1", LeavingMember(member_id=formed.ids["c1"]))
    bench.feed(LinkDown("c1"))
    bench.connection = 8_000
    bench.ask("c1", beat)
    bench.connection = 0
    assert not bench.noted(MemberRemoved)

    bench.join("c2", formed.ids["c2"])

    assert [each.member_id for each in bench.noted(MemberRemoved)] == [formed.ids["c1"]]
