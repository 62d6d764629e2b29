"""Reassignments by a controller, on brokers without logs. KIP-455, KIP-435."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.actors.controller.phases import PartitionPhase
from kemu.actors.controller.rules import RULES, ControllerRules
from kemu.protocol.dynamic_configs import ConfigResource
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    AlterPartitionReassignments,
    ConfigChange,
    DeleteTopics,
    IncrementalAlterConfigs,
    ListPartitionReassignments,
    NewReplicas,
)
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import (
    REASSIGN_PARTITIONS,
    PartitionState,
    ReplicaAssignment,
    read_reassignments,
    read_topic,
    read_topic_id,
    reassignments_data,
    state_data,
    state_path,
    topic_path,
)
from kemu.protocol.notes.replication import (
    REASSIGNED,
    NodeWritten,
    ReassignmentBlocked,
    ReassignmentFinished,
    ReassignmentStarted,
    ReassignmentWaits,
    StateChangeRefused,
    TopicDeleted,
)
from tests.actors.controller.control_world import ControlWorld
from tests.case_files import load

UNLIMITED = 2**31 - 1
TO_BE_MOVED: TopicPartition = ("t", 0)


class Moves:
    """A control world whose partitions are reassigned; the test acts as their leaders: ``sync`` makes ISRs grow."""

    def __init__(
        self, brokers: int, *rows: tuple[int, ...], min_isr: int = 1, rules: ControllerRules = RULES, **limits: int
    ) -> None:
        settings = {"t": {"min.insync.replicas": str(min_isr)}}
        self.world = ControlWorld(brokers, {"t": rows}, rules=rules, settings=settings)
        self.limit(**limits)
        self.began = len(self.world.notes)

    def limit(self, **limits: int) -> None:
        """Set some of the three limits of all brokers."""
        changes = tuple(
            ConfigChange(
                resource_type=ConfigResource.BROKER,
                resource_name="",
                name=f"reassignment.max.concurrent.{what}.movements",
                value=str(value),
            )
            for what, value in limits.items()
        )
        if changes:
            self.world.ask(IncrementalAlterConfigs(changes=changes), 1, sender=self.up)
            self.world.run(200)

    @property
    def up(self) -> int:
        """A broker that runs."""
        return next(each for each in self.world.ids if self.world.is_up(each))

    def alter(self, targets: Mapping[int, tuple[int, ...] | None]) -> dict[int, ErrorCode]:
        """Request replicas for partitions of the topic."""
        rows = tuple(
            NewReplicas(topic_name="t", partition_index=number, replicas=target) for number, target in targets.items()
        )
        reply = self.world.ask(AlterPartitionReassignments(partitions=rows), 0, sender=self.up)
        assert reply.error_code is ErrorCode.NONE
        self.world.run(200)
        return {row.partition_index: row.error_code for row in reply.responses}

    def leave_in_store(self, targets: Mapping[int, tuple[int, ...]]) -> None:
        """Send a request as the tool did before Kafka 2.4: by a node."""
        self.world.put(REASSIGN_PARTITIONS, reassignments_data({("t", n): to for n, to in targets.items()}))
        self.world.run(400)

    def left_in_store(self) -> dict[TopicPartition, tuple[int, ...]] | None:
        """The remaining requests in the node; None: it is deleted."""
        data = self.world.node(REASSIGN_PARTITIONS)
        return read_reassignments(data) if data is not None else None

    def ongoing(self) -> Any:
        """The ongoing reassignments."""
        return self.world.ask(ListPartitionReassignments(topic_partitions=None), 1, sender=self.up)

    @property
    def assignments(self) -> dict[int, ReplicaAssignment]:
        """The assignments in the store; none when the topic is deleted."""
        data = self.world.node(topic_path("t"))
        assert data is None or read_topic_id(data) == "t-0", "a reassignment keeps the topic's id"
        return read_topic(data) if data is not None else {}

    def sync(self) -> bool:
        """Leaders add all new replicas to their ISRs at once. False if there were none."""
        grown: list[tuple[int, PartitionState]] = []
        for number, each in self.assignments.items():
            state = self.world.state("t", number)
            isr = tuple(b for b in each.replicas if b in state.isr or (b in each.adding and self.world.is_up(b)))
            if set(isr) != set(state.isr):
                grown.append((number, PartitionState(state.leader, state.leader_epoch, isr, state.controller_epoch)))
        for number, state in grown:
            self.world.put(state_path("t", number), state_data(state))
        self.world.run(400)
        return bool(grown)

    def sync_all(self) -> None:
        """Repeat until no replica is left to add to an ISR."""
        for _ in range(100):
            if not self.sync():
                return
        raise AssertionError("no end")

    def lists(self, number: int = 0) -> list[list[int]]:
        """The replicas in the store while no step ran, each change of them, since the first request."""
        found: list[list[int]] = []
        for _, fact in self.world.notes[self.began :]:
            if isinstance(fact, NodeWritten) and fact.path == topic_path("t") and fact.what != "deleted":
                each = read_topic(fact.data)[number]
                if not each.adding and not each.removing and [list(each.replicas)] != found[-1:]:
                    found.append(list(each.replicas))
        return found

    def crash_controller(self) -> None:
        """The active controller's process fails, and restarts when another broker is controller."""
        dead = self.world.active.broker_id
        self.world.kill(dead)
        self.world.run(10_000)
        self.world.revive(dead)
        self.world.run(8_000)


FILE = load("reassignment.json")
NOT_HERE = {
    "config_raised_mid_flight": "step 2 only drops: the task that commits it chooses step 3, too; in a test of its own",
}
VECTORS = [pytest.param(case, id=case["name"]) for case in FILE["vectors"] if case["name"] not in NOT_HERE]


class VectorRun:
    """A vector's run through a controller and its store; events happen while the step they name waits."""

    def __init__(self, vector: Mapping[str, Any]) -> None:
        self.vector = vector
        many = isinstance(vector["start"], dict)
        names = list(vector["start"]) if many else ["p"]

        def of(key: str) -> list[Any]:
            return [vector[key][name] for name in names] if many else [vector[key]]

        self.starts = [tuple(each) for each in of("start")]
        targets = [tuple(each) for each in of("target")]
        wanted: list[list[list[int]]] = [[] for _ in names]
        for row in vector["steps"]:
            for index, name in enumerate(names):
                if many and name in row:
                    wanted[index].append(row[name])
                elif not many:
                    wanted[index].append(row)
        self.wanted = wanted
        members = {broker for row in (*self.starts, *targets) for broker in row}
        self.moves = Moves(max(members | set(vector["online"])) + 1, *self.starts, min_isr=vector["min_isr"])
        world = self.moves.world
        self.down = [broker for broker in members if broker not in vector["online"]]
        for broker in self.down:
            world.kill(broker)
        if self.down:
            world.run(10_000)
        self.moves.limit(**{key: value for key, value in vector["limits"].items() if value != UNLIMITED})
        self.moves.began = len(world.notes)
        self.targets = targets
        self.events = list(vector.get("events", []))

    def committed(self) -> int:
        """Committed steps of the first partition."""
        return len([each for each in self.moves.lists() if each != list(self.starts[0])])

    def play(self) -> None:
        """Send the requests, and sync until no work is left."""
        if any(broker in self.down for target in self.targets for broker in target):
            self.moves.leave_in_store(dict(enumerate(self.targets)))  # requests may not name brokers that are down
        else:
            assert set(self.moves.alter(dict(enumerate(self.targets))).values()) == {ErrorCode.NONE}
        for _ in range(30):
            self._events()
            if not self.moves.sync() and not self._events():
                return
        raise AssertionError("no end")

    def _events(self) -> bool:
        step = self.committed() + 1
        due = [event for event in self.events if self._is_due(event, step)]
        for event in due:
            self.events.remove(event)
            self._apply(event)
        return bool(due)

    def _is_due(self, event: Mapping[str, Any], step: int) -> bool:
        return step >= {"after": event["step"] + 1}.get(event["when"], event["step"])

    def _apply(self, event: Mapping[str, Any]) -> None:
        world = self.moves.world
        match event.get("type", "config"):
            case "config":
                self.moves.limit(**event["limits"])
            case "up":
                world.revive(event["broker"])
                world.run(8_000)
            case "down":
                world.kill(event["broker"])
                world.run(10_000)
                assert not self.moves.sync()
            case "cancel":
                assert self.moves.alter({0: None}) == {0: ErrorCode.NONE}
            case "override":
                assert self.moves.alter({0: tuple(event["target"])}) == {0: ErrorCode.NONE}
            case "controller_crash":
                self.moves.crash_controller()
            case other:
                raise AssertionError(other)


@pytest.mark.parametrize("vector", VECTORS)
def test_the_lists_in_the_store_are_those_of_the_vector(vector: dict[str, Any]) -> None:
    """KIP-435's example and 36 others, as the store has them one after the other while no step runs."""
    played = VectorRun(vector)

    played.play()

    for number, wanted in enumerate(played.wanted):
        lists = played.moves.lists(number)
        start = list(played.starts[number])
        if lists[:1] == [start]:
            lists = lists[1:]  # it had to wait for its turn
        assert lists == (wanted or (lists and [start]))
        left, last = played.moves.assignments[number], tuple(wanted[-1] if wanted else start)
        if vector["ends"] == "waiting":
            assert (left.replicas, left.target_replicas) == (last, played.targets[number])
        else:
            assert left == ReplicaAssignment(last), "nothing of the reassignment is left over"
    assert not played.events
    for broker in played.moves.world.ids:
        if played.moves.world.is_up(broker):
            hosted = {at for at in played.moves.world.broker(broker).hosted if at[0] == "t"}
            assert hosted == {("t", n) for n, each in played.moves.assignments.items() if broker in each.replicas}


def test_a_limit_that_is_raised_between_two_steps_of_one_task_counts_for_the_next_controller():
    """Vector config_raised_mid_flight: no change comes between steps 2 and 3, unless the controller dies just there."""
    vector = next(case for case in FILE["vectors"] if case["name"] == "config_raised_mid_flight")
    played = VectorRun(vector)
    played.events = []
    moves, world = played.moves, played.moves.world
    moves.alter({0: tuple(vector["target"])})
    state = world.state("t")
    grown = PartitionState(state.leader, state.leader_epoch, (*state.isr, 5), state.controller_epoch)
    world.put(state_path("t", 0), state_data(grown))
    while moves.lists()[-1:] != [vector["steps"][1]]:
        world.run(1)
    assert not moves.assignments[0].adding, "the third step has not begun"

    dead = world.active.broker_id
    world.kill(dead)
    change = ConfigChange(
        resource_type=ConfigResource.BROKER,
        resource_name="",
        name="reassignment.max.concurrent.replica.movements",
        value=str(vector["events"][0]["limits"]["replica"]),
    )
    world.ask(IncrementalAlterConfigs(changes=(change,)), 1, sender=moves.up, to=moves.up)
    world.run(10_000)
    world.revive(dead)
    world.run(8_000)
    moves.sync_all()

    assert [each for each in moves.lists() if each != vector["start"]] == vector["steps"]
    assert moves.assignments == {0: ReplicaAssignment(tuple(vector["target"]))}


def test_leader_epochs_rise_as_in_kafkas_own_test():
    """ControllerIntegrationTest.testPartitionReassignment (2.8): from one broker to another, three epochs."""
    moves = Moves(2, (0,))
    before = moves.world.state("t").leader_epoch

    moves.alter({0: (1,)})
    moves.sync_all()

    after = moves.world.state("t")
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1,), before + 3)
    assert moves.world.broker(0).stopped == {TO_BE_MOVED: True}


def test_what_is_asked_for_wrongly_is_refused_and_the_rest_done():
    """KafkaController.alterPartitionReassignments: a result per partition."""
    moves = Moves(3, (0, 1), (0, 1))

    errors = moves.alter({0: (), 1: (2, 1), 7: (0,)})

    assert errors == {
        0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        1: ErrorCode.NONE,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert moves.assignments[1] == ReplicaAssignment((2, 1, 0), (2,), (0,))
    assert moves.alter({0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    assert moves.alter({7: (9,), 8: None}) == {
        7: ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # validateReplicas precedes the look for the partition
        8: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }


def test_a_broker_that_does_not_control_refuses_the_whole_request():
    """NOT_CONTROLLER, as the error of both requests."""
    moves = Moves(2, (0, 1))
    for request in (AlterPartitionReassignments(partitions=()), ListPartitionReassignments(topic_partitions=None)):
        assert moves.world.ask(request, 0, to=1).error_code is ErrorCode.NOT_CONTROLLER


def test_what_is_on_its_way_is_listed_with_the_step_that_runs():
    """KIP-455's rows, and KIP-435's current batch."""
    moves = Moves(5, (0, 1), (0, 1), replica=1, partition=1)
    moves.alter({0: (2, 3), 1: (3, 4)})

    listed = moves.ongoing()

    assert [
        (row.partition_index, row.replicas, row.adding_replicas, row.removing_replicas) for row in listed.topics
    ] == [
        (0, (2, 0, 1), (2, 3), (0, 1)),
        (1, (0, 1), (3, 4), (0, 1)),
    ]
    (step,) = listed.current_batch
    assert (step.partition_index, step.current_brokers, step.target_brokers) == (0, (0, 1), (2, 0, 1))


def test_each_partition_on_its_way_has_a_named_reason_and_the_list_tells_it():
    """A limit, replicas that copy, brokers that are down: noted once, and again when the reason changes."""
    moves = Moves(6, (0, 1), (0, 1), (1, 0), replica=1, partition=3, leader=1)
    moves.alter({0: (2, 3), 1: (3, 4), 2: (1, 5)})
    first = {row.partition_index: (row.reason, row.why) for row in moves.ongoing().waiting}
    moves.world.kill(2)
    moves.world.run(10_000)
    then = {row.partition_index: (row.reason, row.why) for row in moves.ongoing().waiting}

    assert first == {
        0: ("not-in-sync", "2 not in sync"),
        1: ("leader-limit", "reassignment.max.concurrent.leader.movements is 1"),
        2: ("not-in-sync", "5 not in sync"),
    }
    assert then == {**first, 0: ("not-up", "2 not up")}
    told = [(fact.partition, fact.reason) for fact in moves.world.facts(ReassignmentWaits)]
    assert sorted(told) == [(0, "not-in-sync"), (0, "not-up"), (1, "leader-limit"), (2, "not-in-sync")]


def test_a_limit_that_is_raised_begins_what_waited():
    """Dynamic update mode cluster-wide: it applies to the next choice, which is made at once."""
    moves = Moves(4, (0, 1), (0, 1), replica=1, partition=1)
    moves.alter({0: (2, 3), 1: (2, 3)})
    assert [bool(each.adding) for each in moves.assignments.values()] == [True, False]

    moves.limit(partition=2)

    assert [bool(each.adding) for each in moves.assignments.values()] == [True, True]


def test_a_step_whose_brokers_die_blocks_until_one_is_back():
    """A partition whose needed brokers are down waits, notes it, and continues when one is up."""
    moves = Moves(4, (0, 1), replica=1)
    moves.alter({0: (0, 2, 3)})
    moves.world.kill(3)
    moves.world.run(10_000)
    moves.sync_all()
    assert [fact.replicas for fact in moves.world.facts(ReassignmentBlocked)] == [(0, 2, 1)]

    moves.world.revive(3)
    moves.world.run(8_000)
    moves.sync_all()

    assert moves.assignments == {0: ReplicaAssignment((0, 2, 3))}


@pytest.mark.parametrize("limits", [{}, {"replica": 1}], ids=["KIP-455", "KIP-435"])
@pytest.mark.parametrize("target", [(0, 1, 2), (0, 2, 1)], ids=["the same list", "another order"])
def test_where_nothing_comes_and_nothing_goes_nobody_is_waited_for(limits: dict[str, int], target: tuple[int, ...]):
    """Source: ``KafkaController.isReassignmentComplete``, which checks ISRs only while a replica moves."""
    moves = Moves(3, (0, 1, 2), **limits)
    moves.world.kill(2)
    moves.world.run(10_000)
    assert 2 not in moves.world.state("t", 0).isr
    moves.alter({0: target})

    assert moves.assignments[0] == ReplicaAssignment(target)
    assert not moves.ongoing().topics
    assert moves.world.active.context.reassigning == {}


def forget_state(moves: Moves, number: int = 0) -> None:
    """The controller created the partition's state, and lost the answer: it knows neither the leader nor the ISR."""
    context = moves.world.active.context
    del context.leadership["t", number]
    context.set_phase(("t", number), PartitionPhase.NEW)


@pytest.mark.parametrize("target", [(1, 0), (1,)], ids=["another order", "removes only"])
def test_a_reassignment_of_a_partition_whose_leader_the_controller_does_not_know_fails(target: tuple[int, ...]):
    """KafkaController.moveReassignedPartitionLeaderIfRequired 3.9: the next controller ends the step in the store."""
    moves = Moves(3, (0, 1))
    forget_state(moves)

    assert moves.alter({0: target}) == {0: ErrorCode.UNKNOWN_SERVER_ERROR}

    removed = (0,) if target == (1,) else ()
    assert moves.assignments == {0: ReplicaAssignment((*target, *removed), (), removed)}
    assert moves.world.active.context.reassigning == {TO_BE_MOVED: None}
    assert not moves.ongoing().topics  # in memory the step is complete
    (refused,) = [fact for fact in moves.world.facts(StateChangeRefused) if fact.what == "t-0"]
    assert (refused.new, refused.why) == (REASSIGNED, "the controller does not know its leader")

    moves.crash_controller()
    assert moves.assignments == {0: ReplicaAssignment(target)}


def test_the_other_partitions_of_a_request_are_reassigned_if_one_fails():
    """KafkaController.maybeTriggerPartitionReassignment 3.9 (swarm, kafka-4.1, seed 6434)."""
    moves = Moves(3, (0, 1), (0, 1))
    forget_state(moves)

    assert moves.alter({0: (1, 0), 1: (1, 0)}) == {0: ErrorCode.UNKNOWN_SERVER_ERROR, 1: ErrorCode.NONE}

    assert [fact.partition for fact in moves.world.facts(ReassignmentFinished)] == [1]


def test_a_request_by_node_is_removed_if_the_controller_does_not_know_the_leader():
    """KafkaController.processZkPartitionReassignment 3.9."""
    moves = Moves(3, (0, 1), (0, 1))
    forget_state(moves)

    moves.leave_in_store({0: (1, 0), 1: (1, 0)})

    assert moves.left_in_store() is None
    assert [fact.partition for fact in moves.world.facts(ReassignmentFinished)] == [1]


def test_a_step_that_adds_a_replica_reads_the_state_that_the_controller_does_not_know():
    """KafkaController.updateLeaderEpoch 3.9 reads the state, and so the controller knows the leader from then on."""
    moves = Moves(3, (0, 1))
    forget_state(moves)

    assert moves.alter({0: (1, 2)}) == {0: ErrorCode.NONE}
    moves.sync_all()

    assert moves.assignments == {0: ReplicaAssignment((1, 2))}


@pytest.mark.parametrize("why", ["no state", "a newer controller"])
def test_a_reassignment_fails_if_the_leader_epoch_cannot_rise(why: str):
    """KafkaController.updateLeaderEpoch 3.9 raises; no replica starts, and the store keeps the step."""
    moves = Moves(3, (0, 1))
    path = state_path("t", 0)
    if why == "no state":
        moves.world.zk.tree.nodes.pop(path)
    else:
        moves.world.put(path, state_data(PartitionState(0, 9, (0, 1), controller_epoch=99)))

    assert moves.alter({0: (1, 2)}) == {0: ErrorCode.UNKNOWN_SERVER_ERROR}

    assert moves.assignments == {0: ReplicaAssignment((1, 2, 0), (2,), (0,))}
    assert TO_BE_MOVED not in moves.world.broker(2).hosted
    assert [row.partition_index for row in moves.ongoing().topics] == [0]


def test_a_cancelled_reassignment_cannot_be_cancelled_again():
    """The way back is a cancellation already: NO_REASSIGNMENT_IN_PROGRESS, also from the next controller."""
    moves = Moves(6, (0, 1, 2), replica=1)
    moves.alter({0: (3, 4, 5)})
    moves.sync()
    moves.sync()
    assert moves.alter({0: None}) == {0: ErrorCode.NONE}
    assert moves.alter({0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}

    moves.crash_controller()

    assert moves.alter({0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    moves.sync_all()
    assert moves.assignments == {0: ReplicaAssignment((0, 1, 2))}


@pytest.mark.parametrize("limits", [{}, {"replica": 1}, {"replica": 2, "partition": 1}])
def test_a_topic_is_deleted_when_its_reassignment_has_ended(limits: dict[str, int]):
    """Deletion waits while the topic is ineligible; a topic that is queued takes no new reassignment."""
    moves = Moves(4, (0, 1), (1, 0), **limits)
    moves.alter({0: (2, 3), 1: (3, 2)})
    moves.world.tell("b0", (moves.world.active.name, DeleteTopics(topic_names=("t",), timeout_ms=100), 3))
    moves.world.run(1_000)
    assert not moves.world.facts(TopicDeleted)
    assert moves.alter({0: (0, 2)}) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    moves.sync_all()
    moves.world.run(1_000)

    assert len(moves.world.facts(ReassignmentFinished)) == 2
    assert [fact.topic for fact in moves.world.facts(TopicDeleted)] == ["t"]
    assert moves.world.node(topic_path("t")) is None


@pytest.mark.parametrize("syncs", range(6))
@pytest.mark.parametrize("limits", [{}, {"replica": 1}, {"replica": 2, "partition": 1}])
def test_a_controller_that_dies_at_any_time_is_replaced_by_one_that_goes_on(limits: dict[str, int], syncs: int):
    """No state is only in memory: after each number of steps another controller takes over, with the same result."""
    moves = Moves(7, (0, 1, 2), (1, 2, 0), **limits)
    moves.alter({0: (3, 4, 5), 1: (2, 5, 6)})
    for _ in range(syncs):
        moves.sync()

    moves.crash_controller()
    moves.sync_all()

    assert moves.assignments == {0: ReplicaAssignment((3, 4, 5)), 1: ReplicaAssignment((2, 5, 6))}
    resumed = [fact.partition for fact in moves.world.facts(ReassignmentStarted) if fact.resumed]
    assert resumed or moves.world.facts(ReassignmentFinished)
