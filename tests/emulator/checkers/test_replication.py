"""Invariants of replication by example: correct runs are not reported; each broken rule is, by its checker."""

import pytest

from kemu.emulator.checkers.idempotence import Idempotence
from kemu.emulator.checkers.no_lost_record import NoLostRecord
from kemu.protocol.nodes import (
    CONTROLLER_EPOCH,
    ISR_CHANGES,
    ReplicaAssignment,
    config_data,
    delete_path,
    epoch_data,
    topic_config_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.replication import IsrProposed, LogStartMoved
from tests.emulator.checkers.cluster_story import BROKERS, TOPIC, ClusterStory, begun, caught, holds, lost


@pytest.fixture
def story():
    """b0 leads in epoch 0, all are in sync, ten records are committed and acknowledged."""
    return begun()


def test_the_fixture_holds(story):
    story.elect(1, (1, 2), end=10, watermark=5)
    story.commit(10, 5, 2)
    story.acknowledge(10, 5)

    holds(story)


# --- I1, I2, I3 ----------------------------------------------------------------------------------------------------


def test_two_leaders_of_one_epoch(story):
    story.lead(1, end=10, epoch=0)

    caught(story, "leadership", "b1 leads t-0 in epoch 0, in which b0 led it")


def test_a_leader_that_changes_the_epoch(story):
    story.write_state(0, (0, 1), epoch=1, client="b0")

    caught(story, "leadership", "the leader epoch went from 0 to 1")


def test_a_controller_epoch_that_does_not_rise(story):
    story.node(CONTROLLER_EPOCH, epoch_data(1), what="set")

    caught(story, "leadership", "made the controller epoch 1 after 1")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (topic_path(TOPIC), topic_data({0: ReplicaAssignment(BROKERS)})),
        (delete_path(TOPIC), b""),
        (f"{ISR_CHANGES}/isr_change_0000000001", b""),
    ],
)
def test_a_deposed_controller_that_writes_anything(story, path, data):
    story.new_controller(1)
    story.node(path, data, what="set", client="b0/controller")

    caught(story, "leadership", f"b0/controller has set {path}; b1/controller is the controller")


@pytest.mark.parametrize(("path", "data"), [("/brokers/ids/0", b""), (topic_config_path(TOPIC), config_data([]))])
def test_a_deposed_controller_may_register_its_broker_and_write_configs(story, path, data):
    story.new_controller(1)
    story.node(path, data, client="b0/controller")

    holds(story)


@pytest.mark.parametrize(
    ("leader", "isr", "text"),
    [(2, (0, 1), "leader 2 is not in the ISR (0, 1)"), (-1, (), "the ISR is empty")],
)
def test_a_state_that_no_controller_writes(story, leader, isr, text):
    story.write_state(leader, isr)

    caught(story, "leadership", text)


@pytest.mark.parametrize(("isr", "is_caught"), [((1, 2), False), ((1,), True)])
def test_a_controller_writes_what_the_leader_asked_for_whatever_a_deposed_one_asks_for_since(story, isr, is_caught):
    """b0 does not know yet that b1 leads, and asks for an ISR of its own epoch: that is refused (KIP-497)."""
    story.write_state(1, (1,))
    story.lead(1, end=10, watermark=10)
    story.propose(1, (1, 2), (1, 2))
    story.by("b0", IsrProposed(topic=TOPIC, partition=0, leader_epoch=0, isr=(0,), counted=(0, 1, 2)))
    story.write_state(1, isr, epoch=1, client=story.controller)

    if is_caught:
        caught(story, "leadership", f"it left the leader epoch at 1, and no leader requested {isr}")
    else:
        holds(story)


# --- I4, I5: what is committed ---------------------------------------------------------------------------------------


def dropped() -> ClusterStory:
    """b0 leads with b1 and b2; the controller takes b2 out of the replicas, and dies before it leaves the ISR."""
    story = begun()
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((0, 1))}), what="set")
    return story


def test_who_left_the_replicas_is_in_the_isr_until_somebody_takes_it_out():
    """``stopRemovedReplicasOfReassignedPartition`` comes after the list: the next controller knows nothing of it."""
    story = dropped()
    story.propose(0, (0, 1, 2), (0, 1, 2))
    story.write_state(0, (0, 1, 2), client="b0")
    story.new_controller(1)
    story.write_state(0, (0, 2))
    story.write_state(0, (0,))

    holds(story)


@pytest.mark.parametrize(
    ("goes_on", "isr"),
    [
        (lambda story: None, "(0, 1, 2)"),
        (lambda story: (story.new_controller(1), story.write_state(0, (0, 1))), "(0, 1, 2)"),
    ],
)
def test_who_left_the_replicas_is_not_left_in_the_isr_nor_brought_back(goes_on, isr):
    """By the controller that took it out of the list, by one that found it out of the ISR."""
    story = dropped()
    goes_on(story)
    story.write_state(0, (0, 1, 2))

    caught(story, "leadership", f"the ISR {isr} is not within the replicas (0, 1)")


def test_a_replica_joins_the_isr_with_everything(story):
    story.write_state(0, (0, 1), client="b0")
    story.commit(10, 5, 1)
    story.copy(2, 10, 5)
    story.propose(0, (0, 1, 2), counted=(0, 1, 2))
    story.write_state(0, (0, 1, 2), client="b0")

    holds(story)


def test_a_replica_that_joins_the_isr_too_early(story):
    story.write_state(0, (0, 1), client="b0")
    story.commit(10, 5, 1)
    story.propose(0, (0, 1, 2), counted=(0, 1, 2))
    story.write_state(0, (0, 1, 2), client="b0")

    caught(story, "replicas", "b2 is in the ISR of t-0 without records 10 to 14, which are committed")


def test_a_replica_that_joins_the_isr_with_other_records(story):
    """As long as the leader's log, but its end is another one's: the same offsets are not the same records."""
    story.write_state(0, (0, 1))
    story.lead(0, end=10, watermark=10)
    story.follow(1, end=10)
    story.copy(2, 10, 5, epoch=0)  # from the leader's former epoch
    story.commit(10, 5, 1)
    story.propose(0, (0, 1, 2), counted=(0, 1, 2))
    story.write_state(0, (0, 1, 2), client="b0")

    caught(story, "replicas", "b2 is in the ISR of t-0 without records 10 to 14, which are committed")


def test_a_high_watermark_that_passes_an_in_sync_replica(story):
    story.append(0, 10, 5)
    story.copy(1, 10, 5)
    story.advance(0, 15)

    caught(story, "replicas", "b2 is in the ISR of t-0 without records 10 to 14, which are committed")


def test_a_leader_without_what_was_committed(story):
    story.cut(1, 10, 8)
    story.elect(1, (1, 2), end=8)

    texts = [each.text for each in story.judged()[0]]
    assert "b1 is in the ISR of t-0 without records 8 to 9, which are committed" in texts
    assert "b1 leads t-0 in epoch 1 without records 8 to 9, which were committed" in texts


def test_a_producer_that_is_told_too_early(story):
    story.append(0, 10, 5)
    story.acknowledge(10, 5)

    caught(story, "replicas", "p1 got records to 14 of t-0 acknowledged; committed are those to 9")


def test_a_producer_that_asks_the_leader_alone_may_be_told_early():
    """Before Kafka 3.0 that is the default (KIP-679)."""
    story = begun()
    story.produce(acks=1)
    story.append(0, 10, 5)
    story.acknowledge(10, 5)

    holds(story)


def test_an_unclean_election_that_the_topic_forbids(story):
    story.write_state(0, (0,))
    story.write_state(2, (2,))

    caught(story, "replicas", "made b2 the leader of t-0, which was not in its ISR (0,); the topic forbids unclean")


def test_whether_a_topic_allows_unclean_elections_is_what_its_settings_say_last():
    story = begun(unclean=True)
    story.allow_unclean("false")
    story.write_state(0, (0,))
    story.write_state(2, (2,))

    caught(story, "replicas", "the topic forbids unclean elections")


# --- Kafka's rules -------------------------------------------------------------------------------------------------


def unclean(story: ClusterStory) -> None:
    """b0 alone is in sync and dies with five records that nobody else has; b2 leads."""
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.commit(10, 5)
    story.acknowledge(10, 5)
    story.down("b0")
    story.elect(2, (2,), end=10)


def test_an_unclean_election_loses_what_the_leader_did_not_have():
    story = begun(unclean=True)
    unclean(story)
    story.commit(10, 3)
    story.acknowledge(10, 3)

    assert lost(story) == [("unclean-election", 10, 14)]


def test_an_unclean_election_excuses_no_record_that_the_elected_replica_had_by_then():
    """b2 had ten records when the store had its election, and leads with five."""
    story = begun(unclean=True)
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.commit(10, 5)
    story.down("b0")
    story.write_state(2, (2,))
    story.cut(2, 10, 5)
    story.lead(2, end=5)

    caught(story, "replicas", "b2 leads t-0 in epoch 2 without records 5 to 9, which were committed")


def test_a_topic_may_be_set_to_allow_unclean_elections_later(story):
    story.allow_unclean("true")
    unclean(story)

    assert lost(story) == [("unclean-election", 10, 14)]


def test_a_controller_that_dies_before_it_hears_of_its_unclean_election_has_held_it_all_the_same():
    """What counts is what stands in the store: the next controller tells the brokers."""
    story = begun(unclean=True)
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.commit(10, 5)
    story.write_state(2, (2,))
    story.new_controller(1)
    story.write_state(2, (2,))
    story.lead(2, end=10)

    assert lost(story) == [("unclean-election", 10, 14)]


def test_a_leader_deposed_by_an_unclean_election_goes_on_for_itself():
    story = begun(unclean=True)
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.write_state(2, (2,))
    story.append(0, 10, 5)
    story.advance(0, 15, epoch=1)
    story.position(10)
    story.read_epoch(10, 1)
    story.process(10, 15)
    story.lead(2, end=10)
    story.append(2, 10, 5)
    story.advance(2, 15)

    assert lost(story) == []


def test_the_last_replica_standing_loses_what_it_had_not_flushed():
    """KIP-966."""
    story = begun()
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.commit(10, 5)
    story.lose_unflushed(0, 3, 12)
    story.restore(0, 12, (0, 0), (1, 10))
    story.elect(0, (0,), end=12)

    assert lost(story) == [("unflushed", 12, 14)]


def deleted_by_the_leader() -> ClusterStory:
    """b0 alone is in sync, and deletes records 0 to 3 of ten."""
    story = begun()
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.by("b0", LogStartMoved(topic=TOPIC, partition=0, start_offset=4, end_offset=10, why="delete-records"))
    return story


def test_records_that_a_leader_deleted_are_not_lost_with_its_disk():
    """KIP-107: a power cut may take the new log start, too; the records were deleted all the same."""
    story = deleted_by_the_leader()
    story.lose_unflushed(0, 10, 0)
    story.restore(0, 0)
    story.elect(0, (0,), end=0)

    assert lost(story) == [("unflushed", 4, 9)]


def test_records_behind_those_that_a_leader_deleted_are_missed():
    story = deleted_by_the_leader()
    story.down("b0")
    story.restore(0, 0)
    story.write_state(0, (0,))

    caught(story, "replicas", "without records 4 to 9, which are committed")


def test_a_power_cut_after_which_all_was_on_the_disk_excuses_nothing(story):
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.commit(10, 5)
    story.down("b0")
    story.restore(0, 12, (0, 0), (1, 10))
    story.write_state(0, (0,))

    caught(story, "replicas", "without records 12 to 14, which are committed")


def test_a_power_cut_excuses_what_the_replica_had_and_nothing_that_came_later():
    """It comes back without what it had not flushed (12 to 14), and is elected without what came meanwhile, too."""
    story = begun()
    story.commit(10, 5, 1, 2)
    story.lose_unflushed(1, 3, 12)
    story.write_state(0, (0, 2))
    story.lead(0, end=15, watermark=15)
    story.commit(15, 5, 2)
    story.restore(1, 12, (0, 0))
    story.allow_unclean("false")
    story.write_state(1, (1,), client="b0", epoch=story.epoch)

    caught(story, "replicas", "without records 15 to 19, which are committed")


def test_a_power_cut_excuses_nothing_that_was_on_the_disk(story):
    """Offset 12 is where the disk ends; that the broker finds less is its own mistake."""
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.commit(10, 5)
    story.lose_unflushed(0, 3, 12)
    story.restore(0, 11, (0, 0), (1, 10))
    story.write_state(0, (0,))

    caught(story, "replicas", "without records 11 to 11, which are committed")


def test_an_unclean_election_excuses_nothing_that_was_written_after_it():
    """Records 10 to 14 of epoch 1 were lost by it; those of epoch 2 are promised like any other."""
    story = begun(unclean=True)
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.commit(10, 5)
    story.write_state(2, (2,))
    story.lead(2, end=10)
    story.append(2, 10, 5)
    story.position(10)
    story.read_epoch(10, 2)
    story.process(10, 15)

    caught(story, "replicas", "read records 10 to 14 of t-0 from epoch 2")


def test_a_topic_that_is_created_again_is_watched_in_its_second_life(story):
    """Readers of the former topic may report what they had; of the new one they read what is committed."""
    story.commit(10, 5, 1, 2)
    story.position(10)
    story.delete_topic(0, 1, 2)
    story.process(10, 15)
    story.create_topic()
    story.write_state(0, (0, 1, 2), epoch=0)
    story.lead(0, end=0)
    story.append(0, 0, 20)
    story.process(15, 20)

    caught(story, "replicas", "read records 15 to 19 of t-0")


def untold_leader() -> ClusterStory:
    """b0 leads t-0 in epoch 1 when the topic is deleted, and is not told; b1 leads the topic that is created again."""
    told = begun()
    told.elect(0, (0, 1, 2), end=10, watermark=10)
    told.delete_topic(1, 2)
    told.create_topic()
    told.write_state(1, (1, 2), epoch=0)
    told.lead(1)
    told.follow(2)
    return told


def test_a_leader_that_heard_nothing_of_a_deletion_goes_on_with_the_log_of_the_deleted_topic():
    """``hasConsistentTopicId`` keeps it from the new topic, and nothing from taking what clients send it."""
    story = untold_leader()
    story.append(0, 10, 5)
    story.advance(0, 15, epoch=1)
    story.acknowledge(10, 5)
    story.commit(0, 3, 2)
    story.acknowledge(0, 3)

    violations, losses, _ = story.judged(NoLostRecord(), Idempotence())
    assert ([each.text for each in violations], losses) == ([], [])


@pytest.mark.parametrize(
    ("breaks", "text"),
    [
        (
            lambda story: story.append(1, 10, 5),
            "b1 continues t-0 at 10; by its disk and its writes the log ends at 0",
        ),
        (
            lambda story: story.append(0, 12, 5),
            "b0 continues t-0 at 12; by its disk and its writes the log ends at 10",
        ),
        (lambda story: story.advance(0, 9, epoch=1), "b0's high watermark of t-0 went back from 10 to 9"),
        (
            lambda story: story.acknowledge(0, 11),
            "p1 got records to 10 of t-0 acknowledged; committed are those to -1",
        ),
        (
            lambda story: story.copy(2, 3, 1),
            "b2 continues t-0 at 3; by its disk and its writes the log ends at 0",
        ),
    ],
)
def test_a_deletion_that_was_not_heard_of_excuses_nothing_else(breaks, text):
    """What the new topic's brokers do, what the old log cannot have, what is told of records that neither has."""
    story = untold_leader()
    breaks(story)

    caught(story, "replicas", text)


def test_a_log_of_a_deleted_topic_that_joins_the_new_one_is_watched_there():
    """Before topic ids a LeaderAndIsr of a higher epoch is heeded: what is behind its records is."""
    story = untold_leader()
    story.elect(1, (1, 2))
    story.write_state(1, (1, 2))
    story.follow(0, 10)
    story.copy(0, 0, 3)

    caught(story, "replicas", "b0 continues t-0 at 0; by its disk and its writes the log ends at 10")


def test_a_leader_that_was_told_of_the_deletion_has_no_excuse():
    """It stopped, so that what it goes on with is nobody's log."""
    story = begun()
    story.delete_topic(0, 1, 2)
    story.create_topic()
    story.write_state(1, (1, 2), epoch=0)
    story.lead(1)
    story.follow(2)
    story.advance(0, 15, epoch=0)

    caught(story, "replicas", "b0's high watermark of t-0 is 15, but its log ends at 0")


def test_a_disk_that_came_back_empty_is_an_excuse(story):
    story.down("b0")
    story.start("b0", kept_disk=False)
    story.write_state(0, (0,))
    story.lead(0, end=0)

    assert lost(story) == [("lost-disk", 0, 9)]


def test_a_disk_that_lost_its_tail_is_an_excuse(story):
    story.lose_tail(0, 4, 6)
    story.restore(0, 6, (0, 0))
    story.elect(0, (0,), end=6)

    assert lost(story) == [("lost-tail", 6, 9)]


def test_a_disk_is_an_excuse_only_until_its_replica_has_everything_again(story):
    story.lose_tail(1, 4, 6)
    story.write_state(0, (0, 2))
    story.lead(0, end=10, watermark=10)
    story.restore(1, 6, (0, 0))
    story.follow(1, end=6)
    story.copy(1, 6, 4, epoch=0)
    story.propose(0, (0, 2, 1), counted=(0, 2, 1))
    story.write_state(0, (0, 2, 1), client="b0")
    story.cut(1, 10, 8)
    story.write_state(1, (1,))

    texts = [each.text for each in story.judged()[0]]
    assert "b1 is in the ISR of t-0 without records 8 to 9, which are committed" in texts


def test_what_a_leader_alone_acknowledged_may_go_with_it():
    story = begun()
    story.produce(acks=1)
    story.append(0, 10, 3)
    story.acknowledge(10, 3)
    story.append(0, 13, 2)
    story.acknowledge(13, 2)
    story.copy(1, 10, 1)
    story.down("b0")
    story.elect(1, (1, 2), end=11)

    assert lost(story) == [("acks", 11, 14)]


def test_what_a_leader_alone_acknowledged_and_all_got_is_not_lost():
    story = begun()
    story.produce(acks=1)
    story.append(0, 10, 5)
    story.acknowledge(10, 5)
    story.copy(1, 10, 5)
    story.copy(2, 10, 5)
    story.advance(0, 15)
    story.elect(1, (1, 2), end=15)

    assert lost(story) == []


# --- I6, I7 --------------------------------------------------------------------------------------------------------


def test_a_follower_that_goes_on_behind_another_record_than_its_leaders(story):
    story.copy(2, 10, 1, epoch=0)  # b2 is ahead; b1 leads without that record and writes its own
    story.elect(1, (1, 2), end=10, watermark=10)
    story.append(1, 10, 2)
    story.copy(2, 11, 1)

    caught(story, "replicas", "b2 continues t-0 after offset 10, which it has from epoch 0, its leader b1 from")


def test_a_follower_that_cuts_off_what_its_leader_has_too(story):
    story.append(0, 10, 5)
    story.copy(2, 10, 5)
    story.cut(2, 15, 12)

    caught(story, "replicas", "b2 truncates its log of t-0 to 12; its leader has record 12, too")


def test_a_follower_cuts_off_what_its_leader_has_not(story):
    """b2 was ahead when b1 was elected, which writes others there."""
    story.append(0, 10, 5)
    story.copy(2, 10, 5)
    story.elect(1, (1, 2), end=10, watermark=10)
    story.append(1, 10, 2)
    story.cut(2, 15, 10)
    story.copy(2, 10, 2)

    holds(story)


@pytest.mark.parametrize(("waits_s", "told", "is_caught"), [(11, False, True), (9, False, False), (11, True, False)])
def test_a_follower_in_sync_deletes_what_its_leader_deleted(story, waits_s, told, is_caught):
    """``ReplicaFetcherThread.processPartitionData``: each answer tells where the leader's log starts."""
    for host in ("b0", "b1", "b2"):
        story.start(host)
    for broker in (0, 1, 2) if told else (0, 1):
        moved = LogStartMoved(topic=TOPIC, partition=0, start_offset=4, end_offset=10, why="deleted")
        story.by(f"b{broker}", moved)
    story.wait(waits_s)

    kinds = [each.kind for each in story.judged()[0]]
    assert kinds == (["start-behind"] if is_caught else [])


def test_a_high_watermark_that_goes_back(story):
    story.advance(0, 9)

    caught(story, "replicas", "b0's high watermark of t-0 went back from 10 to 9")


# --- I8: readers ---------------------------------------------------------------------------------------------------


def test_a_reader_finds_the_records_that_were_committed(story):
    story.position(4)
    story.process(4, 8)
    story.elect(1, (1, 2), end=10, watermark=10)
    story.commit(10, 5, 2)
    story.read_epoch(10, 1)
    story.process(8, 15)

    holds(story)


def test_a_reader_that_finds_another_record(story):
    story.elect(1, (1, 2), end=10, watermark=10)
    story.commit(10, 5, 2)
    story.position(8)
    story.process(8, 12)  # all of epoch 0, it believes

    caught(story, "replicas", "c1 read records 10 to 11 of t-0 from epoch 0; the committed record there is of epoch 1")


def test_a_reader_of_what_is_not_committed(story):
    story.append(0, 10, 5)
    story.position(8)
    story.process(8, 12)

    caught(story, "replicas", "c1 read records 10 to 11 of t-0 from epoch 0; of that epoch records to 9 are committed")


def test_a_reader_that_finds_a_record_of_an_epoch_that_was_cut_off(story):
    story.elect(1, (1, 2), end=10, watermark=10)
    story.commit(10, 5, 2)
    story.position(10)
    story.read_epoch(10, 0)
    story.process(10, 12)

    caught(story, "replicas", "records 10 to 11 of t-0 from epoch 0; the committed record there is of epoch 1")


def test_a_reader_that_cannot_tell_epochs_is_not_asked(story):
    """Fetch before version 12."""
    story.append(0, 10, 5)
    story.position(8)
    story.read_epoch(8, -1)
    story.process(8, 12)

    holds(story)


def test_a_reader_of_what_was_lost_for_a_reason_is_not_wrong():
    story = begun(unclean=True)
    story.position(10)
    story.write_state(0, (0,))
    story.lead(0, end=10, watermark=10)
    story.commit(10, 5)
    story.read_epoch(10, 1)
    story.down("b0")
    story.elect(2, (2,), end=10)
    story.commit(10, 3)
    story.process(10, 15)  # it had fetched them before

    assert lost(story) == [("unclean-election", 10, 14)]


# --- I9: whom a leader counts ----------------------------------------------------------------------------------------


def test_a_leader_counts_whom_it_asks_for_until_it_knows(story):
    story.propose(0, (0, 1), counted=(0, 1, 2))
    story.write_state(0, (0, 1), client="b0")
    story.take_isr(0, (0, 1))
    story.propose(0, (0, 1, 2), counted=(0, 1, 2))
    story.write_state(0, (0, 1, 2), client="b0")
    story.take_isr(0, (0, 1, 2))

    holds(story)


def test_a_leader_that_does_not_count_whom_it_asks_for(story):
    """KAFKA-8836, KAFKA-13091."""
    story.propose(0, (0, 1), counted=(0, 1, 2))
    story.write_state(0, (0, 1), client="b0")
    story.take_isr(0, (0, 1))
    story.propose(0, (0, 1, 2), counted=(0, 1))
    story.write_state(0, (0, 1, 2), client="b0")

    caught(story, "leadership", "b0 leads t-0 and waits for (0, 1); the store's ISR also has [2]")


def test_a_leader_that_gives_up_a_change_that_was_made(story):
    story.propose(0, (0, 1), counted=(0, 1, 2))
    story.write_state(0, (0, 1), client="b0")
    story.take_isr(0, (0, 1))
    story.propose(0, (0, 1, 2), counted=(0, 1, 2))
    story.write_state(0, (0, 1, 2), client="b0")
    story.refuse_isr(0, (0, 1, 2))

    caught(story, "leadership", "b0 leads t-0 and waits for (0, 1); the store's ISR also has [2]")


def test_a_leader_that_is_stale_or_down_is_not_asked(story):
    story.propose(0, (0, 1), counted=(0, 1, 2))
    story.write_state(0, (0, 1), client="b0")
    story.take_isr(0, (0, 1))
    story.write_state(0, (0, 1))  # the controller's: epoch 1, of which b0 does not know
    story.down("b0")
    story.write_state(1, (1,))

    holds(story)


# --- I10: what a broker obeys ----------------------------------------------------------------------------------------


def test_a_broker_obeys_newer_epochs_and_requests_that_tell_no_broker_epoch(story):
    story.obey(1, 1, 20)
    story.obey(1, 2, 20)
    story.obey(1, 2, -1)
    story.obey(1, 2, 31)
    story.down("b1")
    story.start("b1")
    story.obey(1, 1, 40)

    holds(story)


@pytest.mark.parametrize(
    ("controller_epoch", "broker_epoch", "text"),
    [(1, 20, "controller epoch 1 after one of epoch 2"), (2, 19, "broker epoch 19 after one of epoch 20")],
)
def test_a_broker_that_obeys_what_is_over(story, controller_epoch, broker_epoch, text):
    story.obey(1, 2, 20)
    story.obey(1, controller_epoch, broker_epoch)

    caught(story, "leadership", f"b1 obeys a LeaderAndIsr of {text}")


def test_a_broker_that_follows_an_epoch_that_is_over(story):
    story.write_state(0, (0, 1, 2))
    story.follow(1, end=10)
    story.follow(1, end=10, epoch=0)

    caught(story, "leadership", "b1 joins epoch 0 of t-0 after epoch 1")


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_a_broker_may_stop_a_replica_for_its_own_epoch_or_for_none(story, epoch):
    """KAFKA-13972; -1: an old request, -2: the topic is deleted."""
    story.write_state(0, (0, 1, 2))
    story.follow(1, end=10)
    story.stop(1, epoch)

    holds(story)


def test_a_broker_that_stops_a_replica_for_an_epoch_that_is_over(story):
    """KIP-570."""
    story.write_state(0, (0, 1, 2))
    story.follow(1, end=10)
    story.stop(1, 0)

    caught(story, "leadership", "b1 stops its replica of t-0 for epoch 0 after epoch 1")
