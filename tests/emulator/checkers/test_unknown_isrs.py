"""Groups whose log has too few in sync because a controller does not know the ISR it wrote (``UnknownIsrs``)."""

import pytest

from kemu.emulator.checkers.liveness import DEFAULT_BOUND_US, Liveness
from kemu.emulator.checkers.replication_duties import ReplicationDuties
from kemu.emulator.facts import MemberHostAdded
from kemu.protocol.dynamic_configs import MIN_INSYNC_REPLICAS
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.nodes import BROKER_DEFAULTS, config_data, topic_config_path
from kemu.protocol.notes.groups import GroupBecame
from kemu.protocol.notes.replication import HighWatermarkAdvanced
from tests.emulator.checkers.cluster_story import BROKERS, READER, SECOND, ClusterStory, time_passes

ALL = BROKERS


def rebalancing(
    *, known: tuple[int, ...] = (0,), state: str = "PreparingRebalance", refused: bool = True, coordinator: int = 0
) -> ClusterStory:
    """b0 leads the log of g, which rebalances; two are to be in sync; the answer to a write of a larger ISR is lost."""
    told = ClusterStory(topic=OFFSETS_TOPIC, min_isr=2)
    told.elect(0, known)
    told.world(MemberHostAdded(host=READER, group="g"))
    told.by(f"b{coordinator}/coordinator", GroupBecame(group="g", old="Empty", new=state, generation=0, why="told"))
    told.propose(0, ALL, ALL)
    if refused:
        told.write_state(0, ALL, client=told.controller)
        told.refuse_write(ALL, known=known)
        told.leave_pending(0, ALL)
    return told


def at_rest(story: ClusterStory) -> list[tuple[str, str]]:
    """What liveness says at the end of its bound: (kind, text)."""
    story.heal()
    story.wait(DEFAULT_BOUND_US / SECOND + 1)
    story.by("b0", HighWatermarkAdvanced(topic=OFFSETS_TOPIC, partition=0, leader_epoch=0, high_watermark=0))
    return [(each.kind, each.text) for each in story.judged(Liveness())[0] if each.checker == "liveness"]


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"])
def test_a_group_whose_log_has_too_few_in_sync_while_its_leader_waits_stands_still(state):
    """Kafka 2.7 to 4.1, Partition.appendRecordsToLeader: the committed ISR counts (swarm, kafka-3.4 seed 55459; of the
    consumer protocol the cluster of kafka-4.1 seed 1346 with seed 19).
    """
    (kind, text), *others = at_rest(rebalancing(state=state))

    assert (kind, others) == ("unheard-isr", [])
    assert text.endswith(
        f"the group is {state}; b0 leads __consumer_offsets-0 with the ISR [0], below min.insync.replicas (2),"
        " and waits for another leader epoch; the store has [0, 1, 2]"
    )


@pytest.mark.parametrize(
    "other", [{"known": (0, 1)}, {"state": "Stable"}, {"state": "Empty"}, {"refused": False}, {"coordinator": 1}]
)
def test_a_lost_answer_excuses_no_group_whose_log_can_be_written(other):
    """Enough in sync, no rebalance to be written, no lost answer, a coordinator elsewhere."""
    assert [kind for kind, _ in at_rest(rebalancing(**other))] == ["not-at-rest"]


@pytest.mark.parametrize("how", ["told by another controller", "leads again", "answered otherwise"])
def test_a_leader_that_waits_no_more_excuses_no_group(how):
    story = rebalancing()
    if how == "told by another controller":
        story.take_isr(0, ALL)
    elif how == "leads again":
        story.lead(0)
    else:
        story.leave_pending(0, ALL, why="FENCED_LEADER_EPOCH")

    assert [kind for kind, _ in at_rest(story)] == ["not-at-rest"]


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({BROKER_DEFAULTS: "1"}, "not-at-rest"),
        ({topic_config_path(OFFSETS_TOPIC): "1"}, "not-at-rest"),
        ({topic_config_path(OFFSETS_TOPIC): "3", BROKER_DEFAULTS: "1"}, "unheard-isr"),
        ({BROKER_DEFAULTS: ""}, "unheard-isr"),
    ],
)
def test_how_many_are_to_be_in_sync_is_what_it_was_set_to(settings, kind):
    """A topic's own setting goes before that of all brokers (KIP-226); without either it is as at the start."""
    story = rebalancing()
    for path, least in settings.items():
        story.node(path, config_data([(MIN_INSYNC_REPLICAS, "1")]))
        story.node(path, config_data([(MIN_INSYNC_REPLICAS, least)] if least else []), what="set")

    assert [each for each, _ in at_rest(story)] == [kind]


@pytest.mark.parametrize(("known", "stuck"), [((0,), []), ((0, 1), ["watermark-waits"])])
def test_a_high_watermark_may_stand_while_its_leader_waits_with_too_few_alone(known, stuck):
    """Kafka 3.7 to 3.9, Partition.maybeIncrementLeaderHW: not below min.insync.replicas (KAFKA-15583)."""
    story = rebalancing(known=known)
    story.append(0, 0, 3)
    story.copy(1, 0, 3)
    story.copy(2, 0, 3)
    time_passes(story, 60)
    checker = ReplicationDuties()
    story.judged(checker)

    assert [each.kind for each in checker.violations if each.kind == "watermark-waits"] == stuck
