"""The story of a run: turning points, in order, the routine left out."""

import click
import pytest

from kemu.emulator import facts
from kemu.emulator.facts import Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import GroupBecame, GroupLoaded, JoinPhaseCompleted, RequestRefused
from kemu.protocol.notes.replication import (
    BecameController,
    BrokersChanged,
    ControllerResigned,
    ControllerWriteRefused,
    IsrChanged,
    IsrChangeFailed,
    IsrWriteRefused,
    LeaderElectedForPartition,
    LogDirFailed,
    LogOfAnotherTopic,
    SessionEnded,
    StoreTookOver,
    TopicDeleted,
    TopicDeletionHalted,
    TopicDeletionQueued,
)
from kemu.tools.report.first_screen import events_text
from kemu.tools.report.reasons import short_members, short_reason
from kemu.tools.report.story import Story, clock_text, span_text

SECOND = 1_000_000
REFUSED = IsrWriteRefused(
    topic="t", partition=0, leader=0, leader_epoch=1, isr=(0, 1), controller_epoch=2, known_isr=(0, 1, 2), zk_version=3
)


def became(old: str, new: str, generation: int, why: str) -> GroupBecame:
    """A group changed its state."""
    return GroupBecame(group="g", old=old, new=new, generation=generation, why=why)


def told(*rows: tuple[float, str, object]) -> list[str]:
    """The lines of a story that saw (second, actor, fact)."""
    story = Story()
    for number, (second, actor, fact) in enumerate(rows):
        story.see(Seen(number, round(second * SECOND), actor, 1, fact))
    return [f"{clock_text(line.at_us)} {line.text()}" for line in story.lines]


def test_a_rebalance_is_told_when_it_begins_and_when_it_ends_with_what_it_took() -> None:
    """States between are routine."""
    joined = JoinPhaseCompleted(group="g", generation=3, protocol="range", leader="m1", members=("m1", "m2"))
    lines = told(
        (1, "b0/coordinator", became("Stable", "PreparingRebalance", 2, "m2 joined")),
        (2, "b0/coordinator", became("PreparingRebalance", "CompletingRebalance", 3, "all joined")),
        (2, "b0/coordinator", joined),
        (3.5, "b0/coordinator", became("CompletingRebalance", "Stable", 3, "the leader's assignment is in the log")),
    )

    assert lines == [
        "00:01.000 g rebalances: m2 joined",
        "00:03.500 g is Stable: generation 3, 2 members, after 2.5 s",
    ]


def test_a_rebalance_that_begins_again_is_counted_from_its_first_beginning() -> None:
    """What a member sees is one stop."""
    lines = told(
        (1, "b0/coordinator", became("Stable", "PreparingRebalance", 2, "m2 joined")),
        (2, "b0/coordinator", became("CompletingRebalance", "PreparingRebalance", 3, "m3 joined")),
        (4, "b0/coordinator", became("PreparingRebalance", "Empty", 4, "nobody came")),
    )

    assert lines[1:] == ["00:02.000 g rebalances again: m3 joined", "00:04.000 g is Empty: generation 4, after 3.0 s"]


def test_a_clean_end_says_how_long_it_took() -> None:
    """A member in its callbacks, a broker in its controlled shutdown: what was asked is not done at once."""
    down = facts.HostDown(host="c1", life=1, how="closed")
    closed = facts.HostClosed(host="c1", life=1, took_us=2_500_000)
    together = (4.5, "", facts.HostDown(host="c2", life=1, how="closed"))

    assert told((4.5, "", down), (4.5, "", closed)) == [
        "00:04.500 c1 closed cleanly, in 2.5 s",
    ]
    assert told((4.5, "", down), together, (4.5, "", closed)) == [
        "00:04.500 c1, c2 closed cleanly",
        "00:04.500 c1 took 2.5 s to close",
    ]


def test_a_failover_ends_what_the_old_coordinator_began() -> None:
    """The new one only knows its log."""
    loaded = GroupLoaded(group="g", state="Stable", generation=2, members=("m1",))
    lines = told(
        (1, "b0/coordinator", became("Stable", "PreparingRebalance", 2, "m2 joined")),
        (9, "b1/coordinator", loaded),
    )

    assert lines[1] == "00:09.000 b1/coordinator loaded g from the log: Stable, generation 2, 1 member"


def test_the_same_of_many_hosts_at_nearly_the_same_time_is_one_line() -> None:
    """A hundred members start; one line says so, and counts."""
    rows = [(number / 100, "", facts.HostStarted(host=f"c{number}", life=1, kept_disk=True)) for number in range(100)]
    late = (60, "", facts.HostStarted(host="c100", life=1, kept_disk=True))

    assert told(*rows, late) == [
        "00:00.000 c0, c1, c2, c3, c4, c5 and 94 more started",
        "01:00.000 c100 started",
    ]


def test_a_fault_is_told_before_what_it_did() -> None:
    """It is reported after it: the world does, then says."""
    lines = told(
        (5, "", facts.HostDown(host="b0", life=1, how="power")),
        (5, "", facts.DiskTailLost(host="b0", log="t-0", records=2, end_offset=-1)),
        (5, "", facts.FaultApplied(index=0, kind="lose-disk-tail", text="power cut at b0")),
    )

    assert [line[10:] for line in lines] == [
        "fault 0: power cut at b0",
        "b0 crashed (power lost)",
        "b0 lost the last 2 records of t-0",
    ]


def test_a_live_story_is_told_at_once() -> None:
    """Line by line, nothing gathered."""
    said: list[str] = []
    story = Story(said.append)
    for number in range(2):
        story.see(Seen(number, number, "", 1, facts.HostStarted(host=f"c{number}", life=1, kept_disk=True)))

    assert said == ["00:00.000  c0 started", "00:00.000  c1 started"]


def test_spans_are_rounded_for_the_eye() -> None:
    """Exact figures are in the JSON."""
    assert [span_text(us) for us in (0, 12_345, 999_000, 1_500_000, 119_000_000, 125_000_000)] == [
        "0 ms", "12 ms", "999 ms", "1.5 s", "119.0 s", "2 min 5 s",
    ]  # fmt: skip
    assert clock_text(65_250_000) == "01:05.250"


def elected(partition: int, leader: int, isr: tuple[int, ...], strategy: str) -> LeaderElectedForPartition:
    """The controller chose a leader for a partition of t."""
    return LeaderElectedForPartition(
        topic="t", partition=partition, leader=leader, leader_epoch=1, isr=isr, controller_epoch=1, strategy=strategy,
        unclean=False,
    )  # fmt: skip


def shrunk(partition: int, *isr: int) -> IsrChanged:
    """The ISR of a partition of t became this."""
    return IsrChanged(topic="t", partition=partition, leader=1, leader_epoch=1, isr=isr, zk_version=1, why="")


def test_elections_and_isr_changes_of_many_partitions_are_one_line_each() -> None:
    """New partitions are no elections; partitions in a row are drawn together."""
    lines = told(
        *[(1, "b2/controller", elected(number, 0, (0, 1), "new")) for number in range(4)],
        *[(5, "b2/controller", elected(number, 1, (0, 1), "offline")) for number in range(3)],
        (5, "b2/controller", elected(3, -1, (0,), "offline")),
        *[(6, "b1", shrunk(number, 1)) for number in (0, 1, 2)],
        (20, "b1", shrunk(1, 1, 0)),
    )

    assert lines == [
        "00:05.000 b1 elected leader of t-0..2 (offline)",
        "00:05.000 no leader elected for t-3 (offline)",
        "00:06.000 b0 removed from the ISR of t-0..2",
        "00:20.000 b0 added to the ISR of t-1 again",
    ]


def test_a_zombie_controller_is_told_from_the_loss_of_its_session_to_its_resignation() -> None:
    """Who controls, and who still thinks so."""
    lines = told(
        (1, "b0/controller", BecameController(broker_id=0, controller_epoch=1)),
        (7, "zk", SessionEnded(session_id=3, client="b0/controller", why="expired")),
        (8, "b1/controller", BecameController(broker_id=1, controller_epoch=2)),
        (8.5, "b1/controller", BrokersChanged(controller_epoch=2, new=(), dead=(0,), bounced=())),
        (9, "b0/controller", ControllerWriteRefused(broker_id=0, controller_epoch=1, path="/controller_epoch")),
        (9, "b0/controller", ControllerResigned(broker_id=0, controller_epoch=1, why="broker 1 controls")),
        (10, "b1/controller", REFUSED),
        (20, "zk", StoreTookOver(zxid=1 << 32, nodes=40, sessions=3)),
        (99, "zk", SessionEnded(session_id=4, client="b1/controller", why="closed")),
    )

    assert lines == [
        "00:01.000 b0 elected controller, epoch 1",
        "00:07.000 the store ended the session of b0/controller: expired",
        "00:08.000 b1 elected controller, epoch 2",
        "00:08.500 the controller sees deleted broker b0",
        "00:09.000 the store fenced b0: a write of a deposed controller",
        "00:09.000 b0 resigned as controller of epoch 1: broker 1 controls",
        "00:10.000 the store refused the controller's ISR (0, 1) of t-0 (version mismatch): "
        "the ISR stays (0, 1, 2), and b0 waits for another leader epoch",
        "00:20.000 the store recovered: 3 sessions, each with its full timeout from now on",
    ]


def test_a_failed_log_directory_is_told_with_what_lay_there() -> None:
    """By topic and number."""
    lines = told(
        (1, "b0", LogDirFailed(log_dir=1, partitions=(("t", 2), ("t", 0)))),
        (2, "b1", LogDirFailed(log_dir=0, partitions=())),
    )

    assert lines == [
        "00:01.000 log directory 1 of b0 failed, with t-0, t-2",
        "00:02.000 log directory 0 of b1 failed, with no online replica",
    ]


def test_a_log_left_over_that_keeps_its_broker_out_is_told() -> None:
    """Nobody but an operator removes it."""
    assert told((1, "b3", LogOfAnotherTopic(topic="t", partition=1, topic_id="9", topic_id_of_log="4"))) == [
        "00:01.000 b3 does not replicate t-1: its log is of a deleted topic of that name (INCONSISTENT_TOPIC_ID)"
    ]


def test_a_deletion_is_told_with_what_it_waits_for() -> None:
    """From the wish to the end."""
    lines = told(
        (1, "b0/controller", TopicDeletionQueued(topic="t")),
        (1, "b0/controller", TopicDeletionHalted(topic="t", why="it is being reassigned")),
        (9, "b0/controller", TopicDeleted(topic="t")),
    )

    assert lines == [
        "00:01.000 topic t queued for deletion",
        "00:01.000 the deletion of t waits: it is being reassigned",
        "00:09.000 topic t deleted",
    ]


def test_hosts_that_die_at_different_times_are_told_each_at_its_own() -> None:
    """A death is told beside its fault; hosts that one fault takes at once share a line."""
    lines = told(
        *((5, "", facts.HostDown(host=host, life=1, how="process")) for host in ("b0", "b2")),
        (6.824, "", facts.HostDown(host="b1", life=1, how="process")),
        (7, "", facts.HostPaused(host="c1")),
        (8, "", facts.HostPaused(host="c2")),
    )

    assert lines == [
        "00:05.000 b0, b2 crashed (process killed)",
        "00:06.824 b1 crashed (process killed)",
        "00:07.000 c1 paused",
        "00:08.000 c2 paused",
    ]


def test_a_line_about_several_hosts_says_when_the_last_one_joined_it() -> None:
    """The line has the time of the first."""
    start = [facts.HostStarted(host=f"c{number}", life=1, kept_disk=True) for number in (1, 2, 3)]

    assert told((1, "", start[0]), (1.5, "", start[1]), (3.25, "", start[2])) == [
        "00:01.000 c1, c2, c3 started, the last at 00:03.250"
    ]


def test_a_leader_whose_request_to_a_controller_has_no_answer_is_told_once_until_its_isr_changes() -> None:
    """AlterPartitionManager has one request at a time; to a host without power it waits for its socket's timeout."""
    failed = IsrChangeFailed(topic="t", partition=0, leader_epoch=1, isr=(0, 1), why="OPERATION_NOT_ATTEMPTED")
    changed = IsrChanged(topic="t", partition=0, leader=0, leader_epoch=1, isr=(0, 1), zk_version=2, why="expand")
    lines = told((10, "b0", failed), (10.5, "b0", failed), (40, "b0", changed), (50, "b0", failed))

    assert lines == [
        "00:10.000 b0 cannot change the ISR of t-0 yet: the controller did not answer its last request",
        "00:50.000 b0 cannot change the ISR of t-0 yet: the controller did not answer its last request",
    ]


def test_a_restart_says_how_long_the_host_was_down() -> None:
    """The plan says 8 s; what was drawn, and the start itself, make it longer."""
    lines = told(
        (10, "", facts.HostDown(host="c1", life=1, how="power")),
        (20.4, "", facts.HostStarted(host="c1", life=2, kept_disk=True)),
    )

    assert lines == ["00:10.000 c1 crashed (power lost)", "00:20.400 c1 restarted, 10.4 s after it went down"]


def test_a_long_reason_of_kafka_is_short_in_the_line_and_whole_on_demand() -> None:
    """Kafka 3.4 logs the reason of the client, too."""
    why = "Adding new member c1-b0.1-7 with group instance id None; client reason: rebalance failed due to X"
    story = Story()
    story.see(Seen(1, SECOND, "b0/coordinator", 1, became("Stable", "PreparingRebalance", 2, why)))

    (line,) = story.lines
    assert line.text() == "g rebalances: c1 joined"
    assert line.text(verbose=True) == f"g rebalances: {why}"


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        ("Removing member c1-b0.1-1 on LeaveGroup; client reason: the consumer is being closed", "c1 left"),
        (
            "Removing member c1-b0.1-1 on LeaveGroup; client reason: consumer poll timeout has expired.",
            "c1 left (poll timeout)",
        ),
        ("explicit `LeaveGroup` request for (c1-b0.1-1, c2-b0.1-2) members.", "c1, c2 left"),
        ("removing member c2/t1-b1.1-3 on heartbeat expiration.", "c2/t1 expired"),
        ("Leader c2-b0.1-8 re-joining group during Stable; client reason: cached metadata has changed",
         "leader c2 rejoined (metadata changed)"),
        ("Updating metadata for member c2/t1-b1.1-3 during Stable", "c2/t1 rejoined"),
        ("Removing Set(c1-b0.1-1) on pending sync request expiration", "c1 did not sync in time"),
        ("Error NOT_COORDINATOR when storing group assignment during SyncGroup (member: c1-b0.1-1)",
         "assignment not stored: NOT_COORDINATOR"),
        ("billing 1 with member id 3fa85f64-5717-4562-b3fc-2c963f66afa6 joined", "billing 1 joined"),
        ("c1 with member id 3fa85f64-5717-4562-b3fc-2c963f66afa6: session expired", "c1: session expired"),
        ("m2 joined", "m2 joined"),
    ],
)  # fmt: skip
def test_reasons_of_both_coordinators_have_a_short_form(reason: str, short: str) -> None:
    """An unknown reason stays as it is."""
    assert short_reason(reason) == short


def test_member_ids_are_short_where_one_member_has_the_client_id() -> None:
    """Two members of one client stay apart."""
    assert short_members("c1-b0.1-1 and c2-b0.1-2") == "c1 and c2"
    assert short_members("c1-b0.1-1, c1-b0.1-4, c2-b0.1-2") == "c1-b0.1-1, c1-b0.1-4, c2"


def test_uuids_of_members_are_short_and_tell_the_members_of_a_client_apart() -> None:
    """As many digits as needed, at least four."""
    one, two, three = (
        "c1-3fa85f64-5717-4562-b3fc-2c963f66afa6",
        "c1-3fa85f64-5717-4999-b3fc-2c963f66afa6",
        "my-app-9b2e61f0-5717-4562-b3fc-2c963f66afa6",
    )
    assert short_members(f"{one}, {three}, {one}") == "c1, my-app, c1"
    assert short_members(f"{one} {one.replace('3fa8', 'bbbb')}") == "c1-3fa8 c1-bbbb"
    assert short_members(f"({one}) ({two})") == "(c1-3fa85f64-5717-45) (c1-3fa85f64-5717-49)"
    assert short_reason(f"removing member {three} on heartbeat expiration.") == "my-app expired"


def test_the_first_screen_has_the_ten_most_important_events_and_counts_their_like() -> None:
    """Starts are the least important; the plan's entries are all there."""
    story = Story()
    for number in range(8):
        at_us = 10 * number * SECOND
        story.see(Seen(number, at_us, "", 1, facts.HostStarted(host=f"c{number}", life=1, kept_disk=True)))
        story.see(Seen(number, at_us + SECOND, "", 1, facts.FaultApplied(index=number, kind="crash", text="crash")))
        story.see(Seen(number, at_us + SECOND, "", 1, facts.HostDown(host=f"c{number}", life=1, how="power")))
    lines = [click.unstyle(line) for line in events_text(story.lines, 80)]

    assert lines[0] == "What happened (10 of 24 events; --verbose prints all)"
    assert len(lines) == 11
    assert sum("fault" in line for line in lines) == 8
    assert "  00:01.000  c0 crashed (power lost) (8 times until 01:11)" in lines


def test_fenced_requests_about_offsets_are_counted_by_group_and_error() -> None:
    """A retried request, and a request of another API, are no fenced requests."""
    story = Story()
    refusals = [
        ("g", "OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH),
        ("h", "OffsetCommit", ErrorCode.ILLEGAL_GENERATION),
        ("g", "OffsetFetch", ErrorCode.UNKNOWN_MEMBER_ID),
        ("g", "OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH),
        ("g", "OffsetCommit", ErrorCode.REBALANCE_IN_PROGRESS),
        ("g", "Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for group, api, error in refusals:
        fact = RequestRefused(group=group, api=api, member_id="m1", error=error)
        story.see(Seen(0, 0, "b0/coordinator", 1, fact))

    assert list(story.fenced_text()) == [
        "  fenced requests of g: 2 OffsetCommit (STALE_MEMBER_EPOCH), 1 OffsetFetch (UNKNOWN_MEMBER_ID)",
        "  fenced requests of h: 1 OffsetCommit (ILLEGAL_GENERATION)",
    ]
    assert story.lines == []
