"""A leader of a Streams group, from the bytes of its members to theirs."""

from typing import Any

import pytest

from kemu.protocol.assign.base import Subscriber, Topics
from kemu.protocol.assign.checked import InvalidAssignment
from kemu.protocol.config import StreamsConfig
from kemu.protocol.names import TopicPartition
from kemu.protocol.streams.leading import TaskLeader
from kemu.protocol.streams.metadata import (
    NO_FOLLOW_UP,
    Learning,
    StreamsGiven,
    StreamsSubscription,
    decode_streams_assignment,
    encode_streams_subscription,
)
from kemu.protocol.streams.modes import Layout
from kemu.protocol.streams.registry import TASK_ASSIGNORS, TaskAssignor
from kemu.protocol.streams.tasks import LATEST_OFFSET, TaskAssignment, TaskId, task_id
from kemu.protocol.streams.topology import Subtopology, Topology
from tests.case_files import load

PAGE = [vector for vector in load("streams_walkthroughs.json")["vectors"] if "page_lines" in vector]
WALKS = [vector for vector in PAGE if vector.get("rebalances")]
STATEFUL = Topology((Subtopology(("in",), "changelog"),))


def _no_follow_up() -> int:
    raise AssertionError("no follow-up is wanted")


def _process(name: str) -> bytes:
    return name.encode().rjust(16, b"\0")


def _tasks(names: list[str]) -> tuple[TaskId, ...]:
    return tuple(task_id(f"0_{int(name[1:]) - 1}") for name in names)


def _at(tasks: tuple[TaskId, ...]) -> tuple[TopicPartition, ...]:
    return tuple(("in", task.partition) for task in tasks)


def _subscriber(name: str, row: dict[str, Any]) -> Subscriber:
    """The row of a member, said in bytes."""
    assigned, revoked = _tasks(row["assigned"]), _tasks(row["revoked"])
    ready = _tasks(row.get("ready", []))
    said = StreamsSubscription(
        _process(name),
        assigned,
        learning={task: Learning(0 if task in ready else 5, task in ready) for task in _tasks(row["learning"])},
        revoked=revoked,
        leaving_ms=0 if row.get("leaving") else -1,
    )
    return Subscriber(("in",), _at(assigned), user_data=encode_streams_subscription(said))


def _names(tasks: tuple[TaskId, ...]) -> list[str]:
    return [f"T{task.partition + 1}" for task in tasks]


@pytest.mark.parametrize("vector", WALKS, ids=lambda vector: vector["name"])
def test_a_walk_through_of_the_page_survives_the_way_through_bytes(vector: dict[str, Any]) -> None:
    """Each row said by one thread of an instance of its own; each answer read from that thread's bytes."""
    number = len(vector["initial"]["tasks"])
    config = StreamsConfig(
        emulated_assignor_stage=vector["stage"],
        emulated_learner_pick=vector["config"]["pick"],
        stream_imbalance_percentage="",
    )
    leader = TaskLeader(STATEFUL, config, None)
    last = vector["initial"].get("leader_last_members")
    leader.last_instances = None if last is None else tuple(_process(name).hex() for name in last)
    for rebalance in vector["rebalances"]:
        if rebalance.get("leader_has_history") is False:
            leader = TaskLeader(STATEFUL, config, None)
        members = {name: _subscriber(name, row) for name, row in rebalance["joined"].items()}
        decided = leader.assign(Topics({"in": number}), members, ends={}, next_rebalance_ms=_no_follow_up)
        leader.taken()
        for name, expected in rebalance["assigned"].items():
            told = decode_streams_assignment(decided.assignment.user_data[name])
            assert _names(told.active) == expected["assigned"]
            assert decided.assignment.partitions[name] == list(_at(told.active))
            assert _names(tuple(told.learning)) == expected["learning"]


def _threads(told: dict[str, StreamsGiven]) -> dict[str, list[str]]:
    return {name: [str(task) for task in given.active] for name, given in told.items()}


def _assign(leader: TaskLeader, members: dict[str, Subscriber], partitions: int) -> dict[str, StreamsGiven]:
    decided = leader.assign(Topics({"in": partitions}), members, ends={}, next_rebalance_ms=lambda: 7)
    leader.taken()
    return {name: decode_streams_assignment(data) for name, data in decided.assignment.user_data.items()}


def _joins(
    process: str, active: list[str], *, owned: list[str] | None = None, layout: Layout = Layout.LEARNER
) -> Subscriber:
    tasks = tuple(task_id(name) for name in active)
    still = tasks if owned is None else tuple(task_id(name) for name in owned)
    if layout is Layout.HIGH_AVAILABILITY:
        said = StreamsSubscription(_process(process), offset_sums=dict.fromkeys(tasks, LATEST_OFFSET), layout=layout)
    else:
        said = StreamsSubscription(_process(process), tasks, layout=layout)
    return Subscriber(("in",), _at(still), user_data=encode_streams_subscription(said))


def test_threads_of_an_instance_share_its_tasks_evenly_and_keep_what_they_have() -> None:
    """Kafka: ``assignTasksToThreads``."""
    leader = TaskLeader(STATEFUL, StreamsConfig(), None)
    fresh = {f"p-{n}": _joins("P", []) for n in (1, 2)}
    assert _threads(_assign(leader, fresh, 4)) == {"p-1": ["0_0", "0_2"], "p-2": ["0_1", "0_3"]}

    again = {"p-1": _joins("P", ["0_1", "0_3"]), "p-2": _joins("P", ["0_0", "0_2"])}
    assert _threads(_assign(leader, again, 4)) == {"p-1": ["0_1", "0_3"], "p-2": ["0_0", "0_2"]}


def test_a_task_that_another_thread_still_owns_is_given_to_nobody_yet() -> None:
    """A partition moves in two rebalances, also between threads of one instance."""
    leader = TaskLeader(STATEFUL, StreamsConfig(), None)
    members = {"p-1": _joins("P", ["0_0", "0_1"]), "p-2": _joins("P", [])}

    assert _threads(_assign(leader, members, 2)) == {"p-1": ["0_0"], "p-2": []}


def test_a_task_on_its_way_to_another_thread_is_taken_from_its_instance() -> None:
    """I5: it is somebody's, or taken from somebody; the leader says so of instances, too."""
    leader = TaskLeader(STATEFUL, StreamsConfig(), None)
    members = {"p-1": _joins("P", ["0_0", "0_1"]), "p-2": _joins("P", [])}

    decided = leader.assign(Topics({"in": 2}), members, ends={}, next_rebalance_ms=_no_follow_up)
    (row,) = decided.rows.values()

    assert (row.assigned, row.revoked) == ((task_id("0_0"),), (task_id("0_1"),))


def test_a_task_claimed_twice_in_one_generation_is_nobodys_before() -> None:
    """KAFKA-12984: of two claims the later generation counts; equal ones cancel out, and the leader says who has it."""
    leader = TaskLeader(STATEFUL, StreamsConfig(), None)
    members = {"p": _joins("P", ["0_0"], owned=[]), "q": _joins("Q", ["0_0"], owned=[])}

    assert [task for each in _threads(_assign(leader, members, 1)).values() for task in each] == ["0_0"]


def test_warm_ups_ask_for_another_rebalance_on_one_thread() -> None:
    """KIP-441: a task goes to where its state is, and its warm-up's host looks again after the probing interval."""
    leader = TaskLeader(STATEFUL, StreamsConfig(emulated_task_assignor="ha"), TASK_ASSIGNORS["ha"])
    members = {
        "p": _joins("P", ["0_0", "0_1"], layout=Layout.HIGH_AVAILABILITY),
        "q": _joins("Q", [], layout=Layout.HIGH_AVAILABILITY),
    }
    decided = leader.assign(
        Topics({"in": 2}),
        members,
        ends={("changelog", 0): 20_000, ("changelog", 1): 20_000},
        next_rebalance_ms=lambda: 7,
    )
    told = {name: decode_streams_assignment(data) for name, data in decided.assignment.user_data.items()}

    assert _threads(told) == {"p": ["0_0", "0_1"], "q": []}
    assert len(told["q"].standby) == 1
    assert [given.next_rebalance_ms for given in told.values()].count(7) == 1


@pytest.mark.parametrize(("assignor", "layout"), [("sticky", Layout.STICKY), ("ha", Layout.HIGH_AVAILABILITY)])
def test_an_instance_s_capacity_is_its_number_of_threads_where_metadata_say_no_weight(
    assignor: str, layout: Layout
) -> None:
    """Kafka: ``ClientState.capacity``, one more for each consumer of a client."""
    leader = TaskLeader(STATEFUL, StreamsConfig(emulated_task_assignor=assignor), TASK_ASSIGNORS[assignor])
    members = {name: _joins(name[0].upper(), [], layout=layout) for name in ("p-1", "p-2", "q-1")}
    decided = leader.assign(
        Topics({"in": 6}), members, ends={("changelog", n): 0 for n in range(6)}, next_rebalance_ms=lambda: 7
    )

    assert {int(name, 16).to_bytes(1, "big"): len(row.assigned) for name, row in decided.rows.items()} == {
        b"P": 4,
        b"Q": 2,
    }


def test_who_looks_again_is_a_thread_of_the_leader_s_own_instance() -> None:
    """KIP-441: a probing rebalance is scheduled on one consumer of the leader's client; the time is by its clock."""
    told = _with_ends({("changelog", 0): 20_000, ("changelog", 1): 20_000}, process=_process("Q").hex())

    assert [name for name, given in told.items() if given.next_rebalance_ms == 7] == ["q"]


def test_without_the_ends_of_changelogs_tasks_stay_where_they_were_until_the_next_look() -> None:
    """Kafka: FallbackPriorTaskAssignor, and a rebalance after probing.rebalance.interval.ms to try it again."""
    told = _with_ends(None, process=_process("P").hex())

    assert _threads(told) == {"p": ["0_0", "0_1"], "q": []}
    assert [given.next_rebalance_ms for given in told.values()] == [7, NO_FOLLOW_UP]
    assert not told["q"].standby


def test_a_copy_that_is_not_far_behind_takes_over_in_two_rebalances() -> None:
    """acceptable.recovery.lag: its owner revokes it in the first, meanwhile the copy continues as a standby."""
    told = _with_ends({("changelog", 0): 9_000, ("changelog", 1): 9_000}, process=_process("P").hex())

    assert _threads(told) == {"p": ["0_0"], "q": []}
    assert [str(task) for task in told["q"].standby] == ["0_1"]


def test_only_assignors_that_look_at_lags_ask_for_ends() -> None:
    """``StickyTaskAssignor`` and the page's learners need none; a task without state has no changelog."""
    asked = {
        name: TaskLeader(STATEFUL, StreamsConfig(emulated_task_assignor=name), assignor).changelogs(Topics({"in": 2}))
        for name, assignor in (("learner", None), ("sticky", TASK_ASSIGNORS["sticky"]), ("ha", TASK_ASSIGNORS["ha"]))
    }

    assert asked == {"learner": (), "sticky": (), "ha": (("changelog", 0), ("changelog", 1))}


def _with_ends(ends: dict[tuple[str, int], int] | None, process: str) -> dict[str, StreamsGiven]:
    leader = TaskLeader(STATEFUL, StreamsConfig(emulated_task_assignor="ha"), TASK_ASSIGNORS["ha"])
    members = {
        "p": _joins("P", ["0_0", "0_1"], layout=Layout.HIGH_AVAILABILITY),
        "q": _joins("Q", [], layout=Layout.HIGH_AVAILABILITY),
    }
    decided = leader.assign(Topics({"in": 2}), members, ends=ends, next_rebalance_ms=lambda: 7, process=process)
    return {name: decode_streams_assignment(data) for name, data in decided.assignment.user_data.items()}


def test_a_leader_forgets_who_took_part_when_somebody_else_led() -> None:
    """KIP-429 v99, "TaskLeader Transfer During Scaling": its memory is in memory only."""
    leader = TaskLeader(STATEFUL, StreamsConfig(), None)
    _assign(leader, {"p": _joins("P", [])}, 1)
    assert leader.last_instances == (_process("P").hex(),)

    leader.taken()
    assert leader.last_instances is None


class _Doubles:
    """Gives every task to everybody."""

    def assign(self, clients: Any, tasks: Any, stateful: Any, config: Any) -> TaskAssignment:
        return TaskAssignment(dict.fromkeys(clients, tuple(tasks)), dict.fromkeys(clients, ()))


def test_an_invalid_answer_of_a_task_assignor_is_named_as_kip_924_does() -> None:
    custom: TaskAssignor = _Doubles()
    leader = TaskLeader(STATEFUL, StreamsConfig(emulated_task_assignor="mine:Doubles"), custom)
    members = {"p": _joins("P", []), "q": _joins("Q", [])}

    with pytest.raises(InvalidAssignment, match="ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"):
        _assign(leader, members, 1)
