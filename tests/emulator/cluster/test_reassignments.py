"""Reassignments in whole clusters: brokers copy, producers append, members read. KIP-455, KIP-435."""

import pytest

from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import (
    ConfigsAlteration,
    Crash,
    PartitionsReassignment,
    ReassignmentCancellation,
    ReassignmentsListing,
)
from kemu.emulator.plan.entries import At, Entry, Noted, When
from kemu.emulator.runner import run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.errors import ErrorCode
from kemu.protocol.nodes import ReplicaAssignment, read_topic, topic_path
from kemu.protocol.notes.groups import AdminAnswered
from kemu.protocol.notes.replication import NodeWritten, ReassignmentStarted
from tests.emulator.engine.toys import Watcher

S = 1_000_000
OTHERS = ("5", "6", "7", "8", "9")
START = tuple(tuple((turn + number) % 5 for number in range(5)) for turn in range(2))


def limit(what: str, value: int) -> Entry:
    return At(15 * S, ConfigsAlteration(key=f"reassignment.max.concurrent.{what}.movements", value=str(value)))


class Moved:
    """A run that holds, and what its store had."""

    def __init__(self, *plan: Entry, seed: int = 1, partitions: int = 1, reassignment: str = "") -> None:
        rows = tuple(" ".join(map(str, row)) for row in START[:partitions])
        made = Scenario(
            name="reassignments",
            duration_us=60 * S,
            brokers=BrokersSpec(
                count=10,
                replication=ReplicationSpec(session_us=6 * S, lag_us=6 * S, reassignment=reassignment),
                config={"offsets.topic.num.partitions": 1},
            ),
            topics={"t": TopicSpec(partitions=partitions, records_per_s=40, assignment=rows)},
            groups={"g": GroupSpec(topics=("t",), members=1)},
            checks=ChecksSpec(stable_within_us=200 * S),
            plan=plan,
        )
        watcher = Watcher()
        result = run(made, seed=seed, loop="bare", observers=(watcher,))
        assert result.verdict == "holds", (result.reason, result.violations[:3])
        assert all(fault.fired for fault in result.faults)
        self.facts: list[Seen] = watcher.facts
        self.nodes = [
            read_topic(seen.fact.data)
            for seen in watcher.facts
            if type(seen.fact) is NodeWritten and seen.fact.path == topic_path("t")
        ]
        self.answers = [seen.fact for seen in watcher.facts if type(seen.fact) is AdminAnswered]
        self.resumed = [
            seen.fact for seen in watcher.facts if type(seen.fact) is ReassignmentStarted and seen.fact.resumed
        ]

    def lists(self, number: int = 0) -> list[tuple[int, ...]]:
        """The replicas that the store had while no step ran, one after the other."""
        found: list[tuple[int, ...]] = []
        for node in self.nodes:
            each = node[number]
            if not each.adding and not each.removing and (each.replicas,) != tuple(found[-1:]):
                found.append(each.replicas)
        return found


MOVE = At(20 * S, PartitionsReassignment(topic="t", to=OTHERS))


def test_the_example_of_the_page_is_what_stands_in_the_store() -> None:
    """KIP-435, "Example": (0, 1, 2, 3, 4) to (5, 6, 7, 8, 9), two replicas at a time, list by list."""
    moved = Moved(limit("replica", 2), MOVE)

    assert moved.lists() == [(0, 1, 2, 3, 4), (5, 0, 1, 2, 3, 4), (5, 6, 2, 3, 4), (5, 6, 7, 8, 4), (5, 6, 7, 8, 9)]


def test_without_limits_it_is_one_reassignment_of_kip_455() -> None:
    """KIP-455: the target first, then what goes; nothing else is ever written."""
    moved = Moved(MOVE)

    during = ReplicaAssignment((5, 6, 7, 8, 9, 0, 1, 2, 3, 4), (5, 6, 7, 8, 9), (0, 1, 2, 3, 4))
    assert [node[0] for node in moved.nodes] == [
        ReplicaAssignment(START[0]),
        during,
        ReplicaAssignment((5, 6, 7, 8, 9)),
    ]


def test_a_cancel_stops_the_step_that_runs_and_restores_the_order() -> None:
    """Nothing was committed: the original list in its order. AlterPartitionReassignments with null replicas."""
    moved = Moved(
        limit("replica", 2),
        At(19 * S, Crash(host="b5", for_us=20 * S)),
        At(19 * S, Crash(host="b6", for_us=20 * S)),
        MOVE,
        At(22 * S, ReassignmentsListing()),
        At(23 * S, ReassignmentCancellation(topic="t")),
        At(24 * S, ReassignmentCancellation(topic="t")),
    )

    assert moved.lists()[-1] == START[0]
    said = [(answer.api, answer.error) for answer in moved.answers]
    assert said[1:] == [
        ("AlterPartitionReassignments", ErrorCode.NONE),
        ("ListPartitionReassignments", ErrorCode.NONE),
        ("AlterPartitionReassignments", ErrorCode.NONE),
        ("AlterPartitionReassignments", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ]
    listed = moved.answers[2].text
    assert listed == (
        "t-0 (5, 0, 1, 2, 3, 4) +(5, 6, 7, 8, 9) -(0, 1, 2, 3, 4), now (0, 1, 2, 3, 4) -> (5, 0, 1, 2, 3, 4), "
        "waits: 5 not in sync"
    ), "the store has not ended the session of b5 yet"


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_controller_that_dies_in_any_step_is_followed_by_one_that_ends_it(nth: int) -> None:
    """Two partitions, each in four steps: no record is lost and no replica too many, whatever step it dies in."""
    crash = When(Noted(note="ReassignmentStepStarted", nth=nth), Crash(host="controller", for_us=15 * S))
    moved = Moved(limit("replica", 2), MOVE, crash, seed=nth, partitions=2)

    last = moved.nodes[-1]
    assert last == {0: ReplicaAssignment((5, 6, 7, 8, 9)), 1: ReplicaAssignment((6, 7, 8, 9, 5))}
    assert moved.resumed


def test_a_newer_target_takes_over_in_the_middle() -> None:
    """Override: what was committed stays, the rest goes to the newer target."""
    newer = PartitionsReassignment(topic="t", assignment=("0: 6 7 0 1 2",))
    moved = Moved(limit("replica", 1), MOVE, When(Noted(note="ReassignmentStepCommitted", nth=2), newer))

    assert moved.nodes[-1][0] == ReplicaAssignment((6, 7, 0, 1, 2))


@pytest.mark.parametrize("name", ["reassign-in-batches", "drain-a-broker"])
def test_the_controller_of_the_presets_dies_while_partitions_are_on_their_way(name: str) -> None:
    """What the preset is about happens in it: another controller goes on with what it finds."""
    watcher = Watcher()
    run(load_scenario(name), seed=2, loop="bare", observers=(watcher,))

    assert any(type(seen.fact) is ReassignmentStarted and seen.fact.resumed for seen in watcher.facts)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (("0 1", "1 x"), "must be the broker ids of each partition"),
        (("0 1", "1 2", "2 0"), "has 3 rows for 2 partitions"),
        (("0 1", "1 1"), "broker 1 is in the list of replicas more than once"),
        (("0 1", "0 1 2"), "gives partition 1 another number of replicas"),
    ],
)
def test_a_placement_that_cannot_be_is_refused(rows: tuple[str, ...], text: str) -> None:
    """One clear error, where the scenario is made."""
    with pytest.raises(ScenarioError, match=text):
        TopicSpec(partitions=2, assignment=rows)


@pytest.mark.parametrize(
    ("replication", "row", "text"),
    [(None, "0 1", "needs \\[brokers.replication\\]"), (ReplicationSpec(factor=2), "0 7", "7 is no broker")],
)
def test_a_placement_needs_brokers_that_replicate_and_are_there(
    replication: ReplicationSpec | None, row: str, text: str
) -> None:
    """Where it is said shows in the message."""
    topic = TopicSpec(partitions=1, assignment=(row,))
    with pytest.raises(ScenarioError, match=text):
        Scenario(name="s", duration_us=S, brokers=BrokersSpec(count=3, replication=replication), topics={"t": topic})


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (PartitionsReassignment(topic="t"), 'is missing; it or "assignment" must say where'),
        (PartitionsReassignment(topic="t", to=("0",), assignment=("0: 1",)), "one is enough"),
        (PartitionsReassignment(topic="t", to=("0", "b1")), '"b1" is no broker id'),
        (PartitionsReassignment(topic="t", to=("0", "12")), "12 is no broker"),
        (PartitionsReassignment(topic="t", to=("1", "1")), "more than once"),
        (PartitionsReassignment(topic="t", assignment=("1 2 3",)), "must be a partition and its brokers"),
        (PartitionsReassignment(topic="t", assignment=("3: 1 2",)), "t has no partition 3, it has 1"),
        (PartitionsReassignment(topic="t", assignment=("0: 1", "0: 2")), "says twice where partition 0 goes"),
    ],
)
def test_a_reassignment_that_cannot_be_asked_for_is_refused(action: PartitionsReassignment, text: str) -> None:
    """Before anything runs."""
    with pytest.raises(ScenarioError, match=text):
        Moved(At(20 * S, action))


# --- before KIP-455 --------------------------------------------------------------------------------------------------


def test_before_kip_455_all_are_there_at_once_and_one_list_is_done_after_the_other() -> None:
    """Kafka 2.3: the tool's node; no second one while it is there; the controller dies and the next one ends it."""
    again = At(20 * S + 100_000, PartitionsReassignment(topic="t", to=OTHERS))
    later = At(55 * S, PartitionsReassignment(topic="t", to=("0", "1")))
    crash = When(Noted(note="ReassignmentStepStarted", nth=1), Crash(host="controller", for_us=10 * S))
    moved = Moved(MOVE, crash, later, reassignment="all-at-once")

    assert [node[0].replicas for node in moved.nodes[:1]] == [START[0]]
    assert ReplicaAssignment((*(int(broker) for broker in OTHERS), *START[0])) in [node[0] for node in moved.nodes]
    assert moved.nodes[-1][0] == ReplicaAssignment((0, 1))
    assert moved.resumed
    with pytest.raises(AssertionError):  # it had no effect, and the run says so
        Moved(MOVE, again, reassignment="all-at-once")


def test_the_old_tools_list_is_heeded_by_todays_controllers() -> None:
    """KIP-455: the node goes on to count; what comes and goes stands in the topic's node then."""
    moved = Moved(At(20 * S, PartitionsReassignment(topic="t", to=OTHERS, through="store")))

    during = ReplicaAssignment((5, 6, 7, 8, 9, 0, 1, 2, 3, 4), (5, 6, 7, 8, 9), (0, 1, 2, 3, 4))
    assert [node[0] for node in moved.nodes] == [
        ReplicaAssignment(START[0]),
        during,
        ReplicaAssignment((5, 6, 7, 8, 9)),
    ]
