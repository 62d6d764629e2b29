"""An instance's tasks on its threads, release by release."""

from collections.abc import Mapping

from kemu.protocol.streams.modes import ThreadPlacement
from kemu.protocol.streams.releases import STREAMS_2_3, STREAMS_2_4, STREAMS_2_6, STREAMS_3_0, STREAMS_3_4
from kemu.protocol.streams.tasks import TaskId, task_id
from kemu.protocol.streams.threads import Bucketed, InstanceThreads, Placer


def tasks(names: str) -> list[TaskId]:
    """0_0 and 0_3 of "0 3"; 1_0 is written as 1.0."""
    return [task_id(name.replace(".", "_") if "." in name else f"0_{name}") for name in names.split()]


def threads(held: Mapping[str, str], owned: Mapping[str, str] | None = None) -> InstanceThreads:
    """``held``: by thread, all of which it owns unless ``owned`` says (by owner; "" another instance's)."""
    owners = held if owned is None else owned
    return InstanceThreads(
        {name: tasks(names) for name, names in held.items()},
        {task: [name] for name, names in owners.items() for task in tasks(names)},
        not any(owners.get(name) for name in held),
    )


def placed(
    placer: Placer | ThreadPlacement,
    those: InstanceThreads,
    stateful: str,
    copies: str = "",
    stateless: str = "",
) -> dict[str, str]:
    """thread -> its tasks, standbys behind a bar."""
    placer = Placer(placer) if isinstance(placer, ThreadPlacement) else placer
    given = placer.place(those, Bucketed(tasks(stateful), tasks(copies), tasks(stateless)))

    def words(names: list[TaskId]) -> str:
        return " ".join(str(task).removeprefix("0_").replace("_", ".") for task in sorted(names))

    return {
        name: words([*one.stateful, *one.stateless]) + (f" | {words([*one.copies])}" if one.copies else "")
        for name, one in given.items()
    }


def test_each_release_places_as_its_assignor_does() -> None:
    """kafka-streams 2.3.1, 2.4.1, 2.6.3, 3.4.1: ``StreamsPartitionAssignor``; the fix of KAFKA-12959 came with 3.2."""
    releases = (STREAMS_2_3, STREAMS_2_4, STREAMS_2_6, STREAMS_3_0, STREAMS_3_4)

    assert [release.placement_for("ha") for release in releases] == [
        ThreadPlacement.IN_TURN,
        ThreadPlacement.STICKY_OR_IN_TURN,
        ThreadPlacement.COPIES_APART,
        ThreadPlacement.COPIES_APART,
        ThreadPlacement.TOGETHER,
    ]
    assert STREAMS_2_3.placement_for("learner") is ThreadPlacement.KEEPING


def test_2_3_deals_tasks_in_turn_whoever_had_them() -> None:
    """``interleaveTasksByGroupId``, 2.3.1."""
    those = threads({"t1": "1 3", "t2": "0 2"}, owned={})

    assert placed(ThreadPlacement.IN_TURN, those, "0 1 2 3", "5 6") == {"t1": "0 2 | 5", "t2": "1 3 | 6"}


def test_2_4_keeps_tasks_on_their_threads_and_fills_up_with_new_ones() -> None:
    """``tryStickyAndBalancedTaskAssignmentWithinClient``, 2.4.1."""
    those = threads({"t1": "3", "t2": "0 2"})

    assert placed(ThreadPlacement.STICKY_OR_IN_TURN, those, "0 2 3 4") == {"t1": "3 4", "t2": "0 2"}


def test_2_4_deals_in_turn_once_a_thread_has_too_many_or_a_task_comes_from_elsewhere() -> None:
    """A rebalance follows anyway then, so that later instances do not keep what they have either."""
    placer = Placer(ThreadPlacement.STICKY_OR_IN_TURN)
    assert placed(placer, threads({"t1": "1 2 3", "t2": "0"}), "0 1 2 3") == {"t1": "0 2", "t2": "1 3"}
    assert placed(placer, threads({"u1": "5", "u2": "4"}), "4 5") == {"u1": "4", "u2": "5"}

    foreign = threads({"t1": "1", "t2": "0"}, owned={"t1": "1", "t2": "0", "": "2"})
    assert placed(ThreadPlacement.STICKY_OR_IN_TURN, foreign, "0 1 2") == {"t1": "0 2", "t2": "1"}


def test_before_3_2_standbys_do_not_count_for_what_threads_have() -> None:
    """KAFKA-12959: with one active task and one standby, one thread has both and the other nothing."""
    those = threads({"t1": "", "t2": ""})

    assert placed(ThreadPlacement.COPIES_APART, those, "0", "1") == {"t1": "0 | 1", "t2": ""}
    assert placed(ThreadPlacement.TOGETHER, those, "0", "1") == {"t1": "0", "t2": " | 1"}


def test_in_2_6_tasks_without_state_fill_up_and_then_go_round() -> None:
    """``assignTasksToThreads``, 2.6.3: t2 has one less, then it is t1's turn; 3.4.1 gives everybody its share."""
    those = threads({"t1": "0 2", "t2": "1"})
    stateless = "1.0 1.1 1.2"

    assert placed(ThreadPlacement.COPIES_APART, those, "0 1 2", "", stateless) == {"t1": "0 2 1.1", "t2": "1 1.0 1.2"}
    assert placed(ThreadPlacement.TOGETHER, those, "0 1 2", "", stateless) == {"t1": "0 2 1.0", "t2": "1 1.1 1.2"}


def test_tasks_without_state_stay_with_the_page_s_learners_only() -> None:
    """3.4.1: ``isStateful`` is false for them, nobody is a previous owner."""
    those = threads({"t1": "1.1", "t2": "1.0"})

    assert placed(ThreadPlacement.TOGETHER, those, "", "", "1.0 1.1") == {"t1": "1.0", "t2": "1.1"}
    assert placed(ThreadPlacement.KEEPING, those, "", "", "1.0 1.1") == {"t1": "1.1", "t2": "1.0"}


def test_the_larger_shares_go_to_threads_that_have_the_tasks_before_others_get_them() -> None:
    """Of 3 and 4, which are left over, 4 is t1's: 3 has to go elsewhere, although its number is lower."""
    those = threads({"t1": "2 4", "t2": "1", "t3": ""})

    assert placed(ThreadPlacement.TOGETHER, those, "0 1 2 3 4") == {"t1": "2 4", "t2": "1 3", "t3": "0"}


def test_of_too_many_tasks_a_thread_keeps_those_that_are_least_behind() -> None:
    """``ClientState.prevTasksByLag``: t1 has 2 before 0 and 1."""
    those = threads({"t1": "2 0 1", "t2": ""})

    assert placed(ThreadPlacement.TOGETHER, those, "0 1 2 3") == {"t1": "0 2", "t2": "1 3"}
