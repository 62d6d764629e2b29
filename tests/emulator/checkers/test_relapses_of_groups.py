"""A leader of the groups' log leads on in its epoch without what its disk lost: who leads next may have kept that."""

import pytest

from kemu.emulator.checkers.liveness import Liveness
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.notes import groups as notes
from tests.emulator.checkers.story import GROUP, Story


def appended(base: int, count: int) -> notes.RecordsAppended:
    return notes.RecordsAppended(topic=OFFSETS_TOPIC, partition=0, base_offset=base, count=count)


def relapsed(records: int) -> Story:
    """b0 has so many records, with generation 1 of two members; it loses them all, and leads again in its epoch."""
    story = Story("c1", "c2")
    story.groups_log("b0", 0, (0, 0), end=0)
    story.by("b0", appended(0, records))
    story.replicate("b1", records)
    story.form(c1="0", c2="1")
    story.down("b0")
    story.start("b0")
    story.groups_log("b0", 0, (0, 0), end=0)
    story.state, story.generation = "Empty", 0
    return story


@pytest.mark.parametrize(("records", "loaded", "said"), [(3, 1, False), (3, 2, False), (1, 1, True), (1, 2, False)])
def test_a_failover_that_forgets_a_generation_where_another_replica_kept_what_its_leader_lost(records, loaded, said):
    """b0 lost its log and led on in its epoch, with generation 2 as record 1; b1 kept the records it lost."""
    story = relapsed(records)
    story.add("c1", "c2")
    story.become("PreparingRebalance")
    story.complete(1, "c1", "c2")
    story.become("PreparingRebalance")
    story.by("b0", appended(0, 1))
    story.complete(2, "c1", "c2")
    story.by("b0", appended(1, 1))
    story.become("Stable")
    story.by("b0", appended(2, 3))
    story.groups_log("b1", 1, (0, 0), (1, 5), end=5)
    story.load("b1/coordinator", loaded, "c1", "c2")

    texts = [f"group g at b1/coordinator: it was loaded with generation {loaded}; 2 was Stable before"]
    assert story.judged().get("membership", []) == (texts if said else [])


@pytest.mark.parametrize(("records", "kind"), [(4, "forgotten-instance"), (2, "member-failed")])
def test_a_static_member_that_is_fenced_where_another_replica_kept_what_its_leader_lost(records, kind):
    """b0 lost its log, led on in its epoch, and gave the id there; b1 kept what was lost."""
    story = relapsed(records)
    story.by("b0", appended(0, 3))
    story.add("c1", instance="c1")
    story.become("PreparingRebalance")
    story.complete(2, "c1", "c2")
    story.by("b0", appended(3, 1))
    story.become("Stable")
    story.groups_log("b1", 1, (0, 0), (1, 4), end=4)
    failed = notes.MemberFailed(group=GROUP, member_id="", error=ErrorCode.FENCED_INSTANCE_ID, why="told")
    story.by("c1", failed)

    assert story.kinds(Liveness()) == [kind]
