"""A leader leads on in its epoch without what its disk lost: what follows from that is excused, and nothing else."""

import pytest

from kemu.emulator.checkers.no_lost_record import NoLostRecord
from tests.emulator.checkers.cluster_story import ClusterStory, begun, caught, lost


def relapsed(how: str = "unflushed", *, epoch: int = 1) -> ClusterStory:
    """b1 leads in epoch 1, b2 has all twelve records; b1's disk loses four, and it leads again and writes six."""
    story = begun()
    story.elect(1, (1, 2), end=10, watermark=10)
    story.commit(10, 2, 2)
    if how == "unflushed":
        story.lose_unflushed(1, 4, 8)
    else:
        story.down("b1")
    story.restore(1, 8, (0, 0))
    if epoch > 1:
        story.write_state(1, (1, 2))
    story.lead(1, end=8, watermark=8)
    story.append(1, 8, 6)
    return story


def test_a_follower_is_not_told_that_its_leader_leads_on_in_its_epoch_without_its_logs_end():
    """Fetches and questions about epochs tell where an epoch ends, not what is in it: b2 goes on behind offset 11.

    AbstractFetcherThread truncates for a new leader epoch, or an end below its own (KIP-101, KIP-595).
    """
    story = relapsed()
    story.copy(2, 12, 2)
    story.advance(1, 14)
    story.write_state(1, (1, 2), epoch=1, client="b1")

    assert lost(story) == [("unflushed", 8, 11)]


def test_a_follower_of_before_fetches_asked_for_epochs_goes_on_behind_a_record_that_its_leader_has_not():
    """b2 lacks records 10 and 11: its offset 9 is of epoch 0, b1's of epoch 1, which is seen since 2.7 (KIP-595)."""
    story = begun()
    story.elect(1, (1, 2), end=10, watermark=10)
    story.append(1, 10, 2)
    story.lose_unflushed(1, 4, 8)
    story.restore(1, 8, (0, 0))
    story.lead(1, end=8, watermark=8)
    story.append(1, 8, 6)
    story.copy(2, 10, 4)
    story.advance(1, 14)

    assert lost(story) == [("unflushed", 8, 9)]


def test_a_follower_that_went_on_so_leads_with_what_was_lost():
    """What came at records 8 to 11 meanwhile is lost: b2 has those from before."""
    story = relapsed()
    story.copy(2, 12, 2)
    story.advance(1, 14)
    story.write_state(2, (2, 1))
    story.lead(2, end=14, watermark=14)
    story.follow(1, end=14)
    story.commit(14, 1, 1)
    story.write_state(2, (2, 1), epoch=2, client="b2")

    assert lost(story) == [("unflushed", 8, 11), ("diverged", 8, 11)]


@pytest.mark.parametrize(("leads_next", "read_past"), [(None, [(8, 11)]), (2, []), (1, [(8, 11)])])
def test_a_group_that_had_read_further_lacks_what_came_there_unless_a_replica_with_what_was_lost_leads(
    leads_next, read_past
):
    story = begun()
    story.write_state(1, (1, 2))
    story.lead(1, 10, 10, (0, 0), (1, 10))
    story.commit(10, 2, 2)
    story.position(0)
    story.read_epoch(10, 1)
    story.process(0, 12)
    story.lose_unflushed(1, 4, 8)
    story.restore(1, 8, (0, 0))
    story.lead(1, 8, 8, (0, 0), (1, 8))
    story.append(1, 8, 6)
    story.copy(2, 12, 2)
    story.advance(1, 14)
    story.read_epoch(12, 1)
    story.process(12, 14)
    story.commit_offset(14)
    if leads_next is not None:
        story.write_state(leads_next, (leads_next,))
        story.lead(leads_next, 14, 14, (0, 0), (1, 10 if leads_next == 2 else 8), (2, 14))

    violations, losses, _ = story.judged(NoLostRecord())
    assert [each.text for each in violations] == []
    assert [(each.first, each.last) for each in losses if each.why == "read-past"] == read_past


def test_a_reader_may_still_be_at_work_on_what_a_leader_lost_that_leads_on_in_its_epoch():
    story = relapsed()
    story.position(10)
    story.read_epoch(10, 1, life=1)
    story.process(10, 12)

    assert lost(story) == [("unflushed", 8, 11)]


def test_a_reader_of_what_that_leader_has_written_since_and_nobody_has():
    story = relapsed()
    story.position(12)
    story.read_epoch(12, 1)
    story.process(12, 13)

    caught(story, "replicas", "c1 read records 12 to 12 of t-0 from epoch 1; of that epoch records to")


@pytest.mark.parametrize(("how", "epoch"), [("process", 1), ("unflushed", 2)])
def test_a_follower_with_other_records_has_no_excuse_if_no_disk_lost_them_or_an_epoch_told_it(how, epoch):
    story = relapsed(how, epoch=epoch)
    story.copy(2, 12, 2)
    story.advance(1, 14)
    story.write_state(1, (1, 2), epoch=epoch, client="b1")

    said = [(each.kind, each.text) for each in story.judged()[0]]
    text = "b2 is in the ISR of t-0 without records 8 to 11, which are committed"
    assert ("isr-without-committed", text) in said


@pytest.mark.parametrize(("kept", "goes_back", "said"), [(14, False, []), (12, True, []), (12, False, [(12, 13)])])
def test_a_group_is_told_nothing_by_a_leader_that_has_more_records_of_an_epoch_before(kept, goes_back, said):
    """b0 does not know epoch 1 and has epoch 0 up to ``kept``: who read epoch 1 up to there is not past its end.

    LeaderEpochFileCache.endOffsetFor, SubscriptionState.maybeCompleteValidation 3.4.1: only an end below the position
    is a truncation. Of what b0 has the group has not seen records 12 and 13.
    """
    story = begun(unclean=True)
    story.append(0, 10, 4)
    story.position(0)
    story.read_epoch(0, 0)
    story.process(0, 12)
    story.write_state(1, (1,))
    story.lead(1, 10, 10, (0, 0), (1, 10))
    story.append(1, 10, 4)
    story.position(10, why="truncated")
    story.read_epoch(10, 1)
    story.process(10, 14)
    if kept < 14:
        story.lose_unflushed(0, 14 - kept, kept)
        story.restore(0, kept, (0, 0))
    story.write_state(0, (0,))
    story.lead(0, kept, kept, (0, 0), (2, kept))
    story.append(0, kept, 16 - kept)
    if goes_back:
        story.position(kept, why="truncated")
    story.read_epoch(kept if goes_back else 14, 2)
    story.process(kept if goes_back else 14, 16)
    story.commit_offset(16)

    violations, losses, _ = story.judged(NoLostRecord())

    texts = [f"without processing records {first} to {last}" for first, last in said]
    found = [each.text for each in violations if each.checker == "no-lost-record"]
    assert [text in each for text, each in zip(texts, found, strict=True)] == [True for _ in texts]
    read_others = [(each.first, each.last) for each in losses if each.why == "read-past"]
    assert read_others == ([(12, 13)] if kept == 14 else [])


@pytest.mark.parametrize(
    ("then", "kinds"),
    [
        ("stays", []),
        ("joins", ["isr-without-committed"]),
        ("elected", ["isr-without-committed"]),
        ("behind", ["isr-without-committed"]),
    ],
)
def test_who_lost_records_and_stays_in_the_isr_counts_with_what_its_leader_saw_it_fetch(then: str, kinds: list[str]):
    """b2 fetched to 12, has 10 left, and is back before anybody missed it; b1 leaves, and b0 shows what is to 12.

    Partition.maybeIncrementLeaderHW 3.4.1 goes by the offset of the last fetch. Another leader knows of none, and takes
    nobody in before it has fetched; and of what came later the disk is no excuse.
    """
    story = begun()
    story.append(0, 10, 2)
    story.copy(2, 10, 2)
    story.lose_unflushed(2, 2, 10)
    story.restore(2, 10, (0, 0))
    leader, watermark = 0, 12
    if then == "joins":
        story.write_state(0, (0, 1))
        story.lead(0, end=12, watermark=10)
        story.copy(1, 10, 2)
        story.write_state(0, (0, 1, 2), epoch=story.epoch, client="b0")
    elif then == "elected":
        leader = 1
        story.elect(1, (1, 2), end=10, watermark=10)
        story.append(1, 10, 2)
    else:
        story.write_state(0, (0, 2))
        story.lead(0, end=12, watermark=10)
    if then == "behind":
        story.append(0, 12, 1)
        watermark = 13
    story.advance(leader, watermark)

    assert [violation.kind for violation in story.judged()[0] if violation.checker == "replicas"] == kinds
