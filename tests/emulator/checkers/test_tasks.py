"""The checker of Streams tasks: what rest is, and what a leader may decide, told by hand."""

import pytest

from kemu.emulator.checkers.tasks import Tasks, misplaced
from kemu.emulator.facts import Healed, HostDown, HostStarted, Seen
from kemu.emulator.watching.panel import Panel
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberRemoved,
    PartitionHosted,
    RecordsAcknowledged,
    Removal,
)
from kemu.protocol.notes.streams import InstanceLeaving, StreamsJoined, TasksDecided, TasksGiven, TasksSaid
from tests.emulator.streams_story import APP, BOUND_S, COORDINATOR, S, StreamsStory, formed, kinds


def healed(told: StreamsStory, at_s: float = 50) -> StreamsStory:
    """All is well from then on."""
    told.say(at_s, "", Healed())
    return told


def joins(host: str, thread: str = "t1") -> StreamsJoined:
    """A thread joins without a word about its tasks."""
    return StreamsJoined(
        application=APP, instance=host, assigned=(), revoked=(), learning=(), ready=(), leaving=False, size=0,
        thread=thread,
    )  # fmt: skip


def added(host: str, member_id: str, thread: str = "t1") -> MemberAdded:
    """The coordinator adds a thread as a member with this id."""
    return MemberAdded(group=APP, member_id=member_id, client_id=f"{host}/{thread}", instance_id=None)


def removed(host: str, member_id: str, thread: str = "t1") -> MemberRemoved:
    """The session of a thread's member expires."""
    return MemberRemoved(group=APP, member_id=member_id, client_id=f"{host}/{thread}", why=Removal.SESSION_EXPIRED)


def learning() -> StreamsStory:
    """c learns 0_0 from 21 on."""
    told = formed()
    told.start(20, "c")
    told.decide(21, {"a": "0 1", "b": "2 3", "c": "| learn 0"})
    told.copy(21, "c", "0", "learner", "CREATED", "RESTORING", "RUNNING")
    return told


def get_it(told: StreamsStory, at_s: float) -> StreamsStory:
    """c gets what it learned."""
    told.decide(at_s, {"a": "1", "b": "2 3", "c": "0"})
    told.copy(at_s, "a", "0", "active", "SUSPENDED", "CLOSED")
    told.copy(at_s, "c", "0", "active", "RESTORING", "RUNNING")
    return told


def test_an_application_that_rests_when_all_is_healed_keeps_the_rule() -> None:
    """I6: all tasks run, nobody learns."""
    assert kinds(healed(formed())) == []


def test_a_learner_that_never_gets_its_task_is_no_rest() -> None:
    """I6; before the bound is over nobody can say."""
    assert kinds(healed(learning())) == ["not-at-rest"]
    assert kinds(healed(learning()), until_s=100) == []


@pytest.mark.parametrize(("state", "found"), [("Stable", []), ("PreparingRebalance", ["not-at-rest"])])
def test_a_group_that_another_coordinator_loads_as_stable_is_at_rest(state: str, found: list[str]) -> None:
    """The end of the former coordinator's leadership is the last change of state (kafka-3.9 operated, seed 167)."""
    told = formed()
    told.say(40, COORDINATOR, GroupBecame(group=APP, old="Stable", new="Dead", generation=1, why="unloaded"))
    told.say(40, COORDINATOR, GroupUnloaded(group=APP))
    healed(told)
    told.say(60, "b1/coordinator", GroupLoaded(group=APP, state=state, generation=1, members=()))

    assert kinds(told) == found


@pytest.mark.parametrize(("at_s", "found"), [(100, []), (120, ["not-at-rest"])])
def test_a_learner_may_get_its_task_within_the_bound_and_not_later(at_s: float, found: list[str]) -> None:
    """I6: 60 s from the healing at 50."""
    assert kinds(get_it(healed(learning()), at_s)) == found


def test_what_disturbs_an_application_later_starts_the_bound_again() -> None:
    """A host that starts at 90."""
    told = healed(learning())
    told.say(90, "", HostStarted(host="p9", life=1, kept_disk=True))

    assert kinds(get_it(told, 120)) == []


def test_a_load_outside_the_band_of_the_leader_is_no_rest() -> None:
    """I6, stage 4: 4 of 4 tasks on one of two instances, 20 % are tolerated."""
    told = StreamsStory(imbalance="0.2")
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1 2 3", "b": ""})
    told.runs(2, a="0 1 2 3")

    assert kinds(healed(told)) == ["not-at-rest"]


def test_where_all_leave_tasks_stay_where_they_are() -> None:
    """Spec of the learner design, scaling operations: without recipients nothing moves, and that is rest."""
    told = StreamsStory(imbalance="0.2")
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1 2 3", "b": ""}, leaving="a b")
    told.runs(2, a="0 1 2 3")
    for name in "ab":
        told.say(2, name, InstanceLeaving(application=APP, instance=name, leaving=True))

    assert kinds(healed(told)) == []


# --- what a leader decides -------------------------------------------------------------------------------------------

Row = tuple[str, ...]


def says(process: str, *, leaving: bool = False, **tasks: Row) -> TasksSaid:
    """What an instance tells the leader: nothing but this."""
    nothing: dict[str, Row] = {"assigned": (), "revoked": (), "learning": (), "ready": ()}
    return TasksSaid(process=process, leaving=leaving, **(nothing | tasks))


def gets(process: str, *, shutdown: bool = False, **tasks: Row) -> TasksGiven:
    """What the leader gives it: nothing but this."""
    nothing: dict[str, Row] = {"assigned": (), "revoked": (), "learning": (), "being_learned": (), "standby": ()}
    return TasksGiven(process=process, shutdown=shutdown, **(nothing | tasks))


def decision(*rows: TasksSaid | TasksGiven, learners: bool) -> TasksDecided:
    """A decision of a about a task 0_0 that has state."""
    return TasksDecided(
        application=APP,
        instance="a",
        tasks=("0_0",),
        stateful=("0_0",),
        said=tuple(row for row in rows if isinstance(row, TasksSaid)),
        given=tuple(row for row in rows if isinstance(row, TasksGiven)),
        size=0,
        fresh=False,
        learners=learners,
    )


def violations(*rows: TasksSaid | TasksGiven, learners: bool = True) -> list[tuple[str, tuple[str, ...], str]]:
    """What the checker finds wrong with one decision about a task 0_0 that has state: kind, whom, and in words."""
    decided = decision(*rows, learners=learners)
    panel, checker = Panel(), Tasks(BOUND_S * S)
    checker.attach(panel)
    seen = Seen(1, S, "a", 1, decided)
    panel.see(seen)
    checker.see(seen)
    assert all(each.checker == "tasks" and (each.seq, each.at_us) == (1, S) for each in checker.violations)
    return [(each.kind, each.entities, each.text) for each in checker.violations]


T: Row = ("0_0",)


@pytest.mark.parametrize(
    ("rows", "kind", "text"),
    [
        (
            (says("A"), says("B"), gets("A", assigned=T), gets("B", assigned=T)),
            "not-one-owner",
            "0_0 is assigned to ['A', 'B']",
        ),
        ((says("A", assigned=T), gets("A")), "not-one-owner", "0_0 is neither assigned nor revoked"),
        ((says("A", revoked=T), gets("A")), "not-one-owner", "0_0 is neither assigned nor revoked"),
        (
            (says("A", assigned=T), says("B"), gets("A"), gets("B", assigned=T)),
            "moved-while-running",
            "0_0 runs on A and goes to B without a pause",
        ),
        (
            (says("A", revoked=T), says("B", ready=T), says("C"), gets("A"), gets("B"), gets("C", assigned=T)),
            "state-passed-over",
            "0_0 is paused and ready on ['B'], but goes to ['C']",
        ),
        (
            (says("A"), says("B", leaving=True), gets("A", assigned=T, being_learned=T), gets("B", learning=T)),
            "copies-misplaced",
            "B is leaving, but gets learner tasks 0_0",
        ),
        (
            (
                *(says("A"), says("B"), says("C")),
                *(gets("A", assigned=T, being_learned=T), gets("B", learning=T), gets("C", learning=T)),
            ),
            "copies-misplaced",
            "0_0 has 2 learners",
        ),
        (
            (says("A"), gets("A", assigned=T, standby=T)),
            "copies-misplaced",
            "A has 0_0 in 2 roles",
        ),
        (
            (says("A"), says("B"), gets("A", assigned=T), gets("B", learning=T)),
            "copies-misplaced",
            "0_0 has a learner that its owner does not know",
        ),
        (
            (says("A"), gets("A", assigned=T, being_learned=T)),
            "copies-misplaced",
            "the owner of 0_0 expects a learner, but there is none",
        ),
    ],
)
def test_a_decision_that_breaks_a_rule_is_told_with_its_task(
    rows: tuple[TasksSaid | TasksGiven, ...], kind: str, text: str
) -> None:
    """I2 to I5 and I8, one broken at a time."""
    assert violations(*rows) == [(kind, (APP, "0_0"), text)]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (says("B", leaving=True), gets("B", shutdown=True, assigned=T)),
        (says("B"), gets("B", shutdown=True, revoked=T)),
    ],
)
def test_who_has_tasks_or_does_not_leave_is_not_told_to_shut_down(asked: TasksSaid, given: TasksGiven) -> None:
    """I7: such a decision is no single task's fault."""
    (found,) = violations(asked, given)

    assert found[:2] == ("shut-down-early", (APP,))
    assert found[2].startswith("B is shut down although it has TasksGiven(")


@pytest.mark.parametrize(
    "rows",
    [
        (says("A", assigned=T), gets("A", assigned=T)),
        (says("A", assigned=T), says("B"), gets("A", revoked=T), gets("B")),
        (says("A", revoked=T), says("B", ready=T), gets("A"), gets("B", assigned=T)),
        (says("A", revoked=T), says("B", ready=T, leaving=True), says("C"), gets("B"), gets("C", assigned=T)),
        (says("A"), says("B"), gets("A", assigned=T, being_learned=T), gets("B", learning=T)),
        (says("A", leaving=True), says("B"), gets("A", shutdown=True), gets("B", assigned=T)),
    ],
)
def test_a_decision_within_the_rules_is_no_violation(rows: tuple[TasksSaid | TasksGiven, ...]) -> None:
    """Kept, taken in two steps, given to who is ready, learned by one, released."""
    assert violations(*rows) == []


@pytest.mark.parametrize(("learners", "found"), [(True, []), (False, ["not-one-owner"])])
def test_a_task_that_nobody_has_waits_with_learners_only(learners: bool, found: list[str]) -> None:
    """``HighAvailabilityTaskAssignor`` gives every task to a client."""
    assert [kind for kind, _, _ in violations(says("A"), gets("A"), learners=learners)] == found


@pytest.mark.parametrize(("closed_s", "found"), [(6, []), (4, ["not-one-owner"])])
def test_a_task_that_restored_when_the_members_joined_may_wait_for_its_former_owner(
    closed_s: float, found: list[str]
) -> None:
    """streams-replicated-split with random faults, seed 170: the leader waited 28 s for the ends of changelogs, and the
    restoring copy ended in between. The leader only knows what the members said when they joined.
    """
    told = StreamsStory(assignor="ha")
    told.start(0, "a")
    told.decide(1, {"a": "0"}, "0")
    told.copy(2, "a", "0", "active", "CREATED", "RESTORING")
    completed = JoinPhaseCompleted(group=APP, generation=2, protocol="stream", leader="x", members=("a-id",))
    closes = (closed_s, "a", "0", "active", "SUSPENDED", "CLOSED")
    if closed_s < 5:
        told.copy(*closes)
    told.say(5, COORDINATOR, completed)
    if closed_s > 5:
        told.copy(*closes)
    told.say(7, "a", decision(says("A"), gets("A"), learners=False))

    assert [each for each in kinds(told, until_s=8) if each == "not-one-owner"] == found


def test_who_is_ready_is_passed_over_where_there_are_no_learners() -> None:
    """Kafka's own releases pause and give in other ways: I3 is of KIP-429's learners."""
    rows = (says("A", revoked=T), says("B", ready=T), says("C"), gets("A"), gets("B"), gets("C", assigned=T))

    assert violations(*rows, learners=False) == []


# --- I10, I11 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "how", "kept", "position", "exactly_once", "found"),
    [
        ("RUNNING", "process", True, 7, (APP,), ["open-state-kept"]),
        ("RESTORING", "process", True, 7, (APP,), ["open-state-kept"]),
        ("RUNNING", "process", True, 0, (APP,), []),
        ("RUNNING", "process", True, 7, (), []),
        ("RUNNING", "process", False, 0, (APP,), []),
        ("RUNNING", "process", False, 7, (APP,), ["checkpoint-without-state"]),
        ("RUNNING", "power", True, 7, (APP,), []),
        ("SUSPENDED", "process", True, 7, (APP,), []),
    ],
)
def test_state_that_was_open_when_its_process_died_is_not_used_again(
    state: str, how: str, kept: bool, position: int, exactly_once: tuple[str, ...], found: list[str]
) -> None:
    """I10: under exactly once, and but for what was suspended, whose checkpoint is that of a clean end."""
    told = formed()
    told.say(29, "a/t1-producer", RecordsAcknowledged(topic="log", partition=0, base_offset=0, count=7))
    told.copy(30, "a", "0", "active", *(["SUSPENDED"] if state != "RUNNING" else []))
    told.copy(30.5, "a", "0", "active", *(["RESTORING"] if state == "RESTORING" else []), position=7)
    told.say(31, "", HostDown(host="a", life=1, how=how))
    told.say(33, "", HostStarted(host="a", life=2, kept_disk=kept))
    told.decide(34, {"a": "0 1", "b": "2 3"})
    told.start_over("a", "0")
    told.copy(34, "a", "0", "active", "CREATED")
    told.copy(34.5, "a", "0", "active", "RESTORING", position=position)

    assert kinds(told, exactly_once=exactly_once) == found


@pytest.mark.parametrize(
    ("has", "lag", "late_s", "found"), [(50, 20, 0, ["state-passed-over"]), (20, 20, 0, []), (50, 20, 6, [])]
)
def test_a_task_does_not_go_past_who_has_most_of_it(has: int, lag: int, late_s: float, found: list[str]) -> None:
    """I11: KIP-441's assignor asks how far everybody is; a leader that is not told (it takes its time) cannot."""
    told = StreamsStory(assignor="ha", standbys=1, ready_lag=lag, probing_us=600 * S)
    told.start(0, "a", "b", "c")
    told.decide(1, {"a": "0 | standby 1", "b": "1 | standby 0", "c": "2 3"})
    told.runs(2, a="0", b="1", c="2 3")
    told.copy(2, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    told.log_ends(3, "0", has)
    told.read(3, "b", "0", "standby", 0, has)
    for host in "abc":
        told.say(10, host, joins(host))
    told.decide(11, {"a": "", "b": "1", "c": "0 2 3"}, decided_after_s=late_s)

    assert [each for each in kinds(told) if each == "state-passed-over"] == found


@pytest.mark.parametrize(("left", "found"), [(0, []), (20, []), (21, ["state-passed-over"])])
def test_a_task_may_go_past_state_that_its_changelog_has_lost(left: int, found: list[str]) -> None:
    """``ClientState.computeTaskLags`` 4.1: every lag is at most the end of the changelog (operated swarm of kafka-4.1,
    seed 6424).
    """
    told = StreamsStory(assignor="ha", standbys=1, ready_lag=20, probing_us=600 * S)
    told.start(0, "a", "b", "c")
    told.decide(1, {"a": "0 | standby 1", "b": "1 | standby 0", "c": "2 3"})
    told.runs(2, a="0", b="1", c="2 3")
    told.copy(2, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    told.log_ends(3, "0", 50)
    told.read(3, "b", "0", "standby", 0, 50)
    told.say(5, "b0", PartitionHosted(topic="log", partition=0, end_offset=left, leader_epoch=1))
    for host in "abc":
        told.say(10, host, joins(host))
    told.decide(11, {"a": "", "b": "1", "c": "0 2 3"})

    assert [each for each in kinds(told) if each == "state-passed-over"] == found


@pytest.mark.parametrize(("late_s", "found"), [(0, ["copies-misplaced"]), (6, [])])
def test_loads_differ_where_the_leader_does_not_know_the_ends_of_the_changelogs(
    late_s: float, found: list[str]
) -> None:
    """``FallbackPriorTaskAssignor`` leaves tasks with their owners (kafka-4.2 operated, seed 3002)."""
    told = StreamsStory(assignor="ha", probing_us=600 * S)
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1 2", "b": "3"}, decided_after_s=late_s)

    assert [each for each in kinds(told) if each == "copies-misplaced"] == found


def with_two_threads_each() -> StreamsStory:
    """Two threads of a and two of b join; their member ids are "a-t1" to "b-t2"."""
    told = StreamsStory(assignor="ha", probing_us=600 * S)
    told.start(0, "a", "b", weight=2)
    for host in "ab":
        for thread in ("t1", "t2"):
            told.say(1, host, joins(host, thread))
            told.say(1, COORDINATOR, added(host, f"{host}-{thread}", thread))
    return told


@pytest.mark.parametrize(("expires", "found"), [(True, []), (False, ["copies-misplaced"])])
def test_the_load_of_an_instance_is_that_of_its_threads_in_the_group(expires: bool, found: list[str]) -> None:
    """``ClientState.incrementCapacity`` 4.0 (operated swarm of kafka-4.0, seed 6234): t1 of b lost its session."""
    told = with_two_threads_each()
    if expires:
        told.say(2, COORDINATOR, removed("b", "b-t1"))
    told.decide(3, {"a": "0 1 2 3", "b": "4 5"}, "0 1 2 3 4 5")

    assert [each for each in kinds(told) if each == "copies-misplaced"] == found


def test_the_leader_does_not_know_of_a_join_after_the_join_phase() -> None:
    """b's other thread joins again before the leader has learned the ends of the changelogs; the next leader knows."""
    told = StreamsStory(assignor="ha", standbys=1, ready_lag=20, probing_us=600 * S)
    told.start(0, "a", "b", "c")
    told.decide(1, {"a": "0 | standby 1", "b": "1 | standby 0", "c": "2 3"})
    told.runs(2, a="0", b="1", c="2 3")
    told.say(11, "b", joins("b"))
    told.copy(12, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    told.log_ends(13, "0", 50)
    told.read(13, "b", "0", "standby", 0, 50)
    told.decide(14, {"a": "", "b": "1", "c": "0 2 3"}, decided_after_s=2)
    told.say(15, "b", joins("b"))
    assert "state-passed-over" not in kinds(told)

    told.decide(17, {"a": "0", "b": "1", "c": "2 3"})
    assert "state-passed-over" in kinds(told)


@pytest.mark.parametrize(("rejoins", "found"), [(False, []), (True, ["state-passed-over"])])
def test_a_thread_cannot_report_a_task_that_a_removed_thread_of_its_instance_has_open(
    rejoins: bool, found: list[str]
) -> None:
    """``TaskManager.getTaskOffsetSums`` 3.4 locks directories. A thread that rejoins reports its own tasks."""
    told = StreamsStory(assignor="ha", standbys=1, ready_lag=20, probing_us=600 * S)
    told.start(0, "a", "b", "c")
    told.decide(1, {"a": "0 | standby 1", "b": "1 | standby 0", "c": "2 3"})
    told.runs(2, a="0", b="1", c="2 3")
    told.copy(2, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    told.log_ends(3, "0", 50)
    told.read(3, "b", "0", "standby", 0, 50)
    for at_s, thread in ((4, "t1"), (4, "t2"), (10, "t2"), *([(10.5, "t1")] if rejoins else [])):
        told.say(at_s, "b", joins("b", thread))
        told.say(at_s, COORDINATOR, added("b", f"{thread}-{at_s}", thread))
    for thread in ("t1", "t2"):
        told.say(9, COORDINATOR, removed("b", f"{thread}-4", thread))
    told.decide(11, {"a": "", "b": "1", "c": "0 2 3"})

    assert [each for each in kinds(told) if each == "state-passed-over"] == found


@pytest.mark.parametrize(("loads", "found"), [(True, []), (False, ["copies-misplaced"])])
def test_a_thread_that_a_deposed_coordinator_removed_is_in_the_group_of_the_next_coordinator(
    loads: bool, found: list[str]
) -> None:
    """Operated swarm of kafka-2.6, seed 9940: a coordinator that was cut off expired members, whose record the next
    coordinator loaded.
    """
    told = with_two_threads_each()
    told.say(2, COORDINATOR, removed("a", "a-t1"))
    if loads:
        members = tuple(f"{host}-{thread}" for host in "ab" for thread in ("t1", "t2"))
        told.say(3, "b1/coordinator", GroupLoaded(group=APP, state="Stable", generation=1, members=members))
    told.decide(4, {"a": "0 1", "b": "2"}, "0 1 2")

    assert [each for each in kinds(told) if each == "copies-misplaced"] == found


@pytest.mark.parametrize(("expires", "found"), [("b-id", []), ("b-new", ["state-passed-over"])])
def test_the_leader_knows_a_restarted_thread_when_the_member_of_its_former_process_expires(
    expires: str, found: list[str]
) -> None:
    """Operated swarm of kafka-4.2, seed 66: b gets back the tasks whose checkpoints b has reported. After the end of
    b's new member, the leader knows only the state of a.
    """
    told = StreamsStory(assignor="ha", standbys=1, ready_lag=20, probing_us=600 * S)
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 | standby 1", "b": "1 | standby 0"}, "0 1")
    told.runs(2, a="0", b="1")
    for host, role, task in (("a", "standby", "1"), ("b", "active", "1")):
        told.copy(2, host, task, role, "CREATED", "RESTORING", "RUNNING")
        told.log_ends(3, task, 50)
        told.read(3, host, task, role, 0, 50)
    told.say(4, "a", joins("a"))
    told.say(5, "", HostDown(host="b", life=1, how="process"))
    told.say(8, "", HostStarted(host="b", life=2, kept_disk=True))
    told.say(8, "b", joins("b"))
    told.say(8, COORDINATOR, added("b", "b-new"), removed("b", expires))
    told.decide(9, {"a": "0", "b": "1"}, "0 1")

    assert [each for each in kinds(told) if each == "state-passed-over"] == found


@pytest.mark.parametrize(("expires", "found"), [(True, []), (False, ["state-passed-over"])])
def test_a_thread_reports_no_task_that_another_thread_has_locked(expires: bool, found: list[str]) -> None:
    """Operated swarm of kafka-4.3, seed 5083: t1's session ends in the join phase, so that b's only report is t2's."""
    told = StreamsStory(assignor="ha", ready_lag=20, probing_us=600 * S)
    told.start(0, "a", "b")
    told.say(1, COORDINATOR, added("b", "b2-id", "t2"))
    told.decide(2, {"a": "0", "b": "1"}, "0 1")
    told.runs(3, a="0", b="1")
    told.log_ends(4, "1", 50)
    told.read(4, "b", "1", "active", 0, 50)
    for host, thread in (("a", "t1"), ("b", "t1"), ("b", "t2")):
        told.say(5, host, joins(host, thread))
    if expires:
        told.say(6, COORDINATOR, removed("b", "b-id"))
    told.decide(7, {"a": "0 1", "b": ""}, "0 1")

    assert [each for each in kinds(told) if each == "state-passed-over"] == found


@pytest.mark.parametrize(
    ("exactly_once", "kept", "found"),
    [((), True, []), ((APP,), True, ["state-passed-over"]), ((), False, ["state-passed-over"])],
)
def test_an_instance_whose_process_died_has_the_checkpoints_of_its_commits(
    exactly_once: tuple[str, ...], kept: bool, found: list[str]
) -> None:
    """c ran 0_0 as a standby until its process was killed; under exactly once that state is of no use."""
    told = StreamsStory(assignor="ha", standbys=1, ready_lag=20, probing_us=600 * S)
    told.start(0, "a", "b", "c")
    told.decide(1, {"a": "0 | standby 1", "b": "1 | standby 0", "c": "2 3"})
    told.runs(2, a="0", b="1", c="2 3")
    for host in "bc":
        told.copy(2, host, "0", "standby", "CREATED", "RESTORING", "RUNNING")
        told.log_ends(3, "0", 50)
        told.read(3, host, "0", "standby", 0, 50)
    told.say(5, "", HostDown(host="c", life=1, how="process"))
    told.say(8, "", HostStarted(host="c", life=2, kept_disk=kept))
    for host in "abc":
        told.say(10, host, joins(host))
    told.decide(11, {"a": "", "b": "1", "c": "0 2 3"})

    assert [each for each in kinds(told, exactly_once=exactly_once) if each == "state-passed-over"] == found


@pytest.mark.parametrize(
    ("warm", "found"), [(0, ["state-passed-over"]), (70, ["state-passed-over"]), (80, []), (100, [])]
)
def test_a_task_leaves_its_owner_for_who_is_caught_up_only(warm: int, found: list[str]) -> None:
    """KIP-441: a is an owner with 100 records; ``acceptable.recovery.lag`` is 20, b has read this much of them."""
    assert taken(warm, 1, gets("A", revoked=T), gets("B", standby=T)) == found


@pytest.mark.parametrize(
    ("threads", "standby", "found"), [(2, T, []), (2, (), ["state-passed-over"]), (1, T, ["state-passed-over"])]
)
def test_a_task_may_go_to_another_thread_of_its_owner(threads: int, standby: Row, found: list[str]) -> None:
    """The other thread keeps a standby of it until the one that runs it has given it up."""
    assert taken(0, threads, gets("A", revoked=T, standby=standby), gets("B")) == found


def taken(warm: int, threads: int, *given: TasksGiven) -> list[str]:
    """a runs a task with 100 records, of which b has read so many, and a leader gives out this."""
    told = StreamsStory(assignor="ha", standbys=1, ready_lag=20, probing_us=600 * S)
    told.start(0, "a", "b", weight=threads)
    told.decide(1, {"a": "0 1 | standby 2", "b": "2 3 | standby 0"})
    told.runs(2, a="0 1", b="2 3")
    told.log_ends(3, "0", 100)
    told.say(3, "a/t1-producer", RecordsAcknowledged(topic="log", partition=0, base_offset=0, count=100))
    told.copy(3, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    told.read(4, "b", "0", "standby", 0, warm)
    for host in "ab":
        told.say(10, host, joins(host))
    completed = JoinPhaseCompleted(group=APP, generation=2, protocol="stream", leader="x", members=("a-id", "b-id"))
    told.say(10.5, COORDINATOR, completed)
    rows: list[TasksSaid | TasksGiven] = [says("A", assigned=T), says("B"), *given]
    told.say(11, "a", decision(*rows, learners=False))

    return [each for each in kinds(told) if each == "state-passed-over"]


@pytest.mark.parametrize(
    ("rows", "standbys", "found"),
    [
        (("0 1 |", "2 3 |"), 0, []),
        (("0 1 2 |", "3 |"), 0, [""]),
        (("0 1 2 |", "3 | 2"), 0, []),  # it goes to b when it is warm
        (("0 1 | 2 3", "2 3 | 0 1"), 1, []),
        (("0 1 | 2", "2 3 | 0 1"), 1, ["3"]),
        (("0 1 2 3 |", "| 0 1 2"), 0, [""]),
        (("3 | 0 1", "| 2"), 0, []),  # what others give up
    ],
)
def test_a_layout_of_kip_441_is_even_and_has_its_standbys(
    rows: tuple[str, str], standbys: int, found: list[str]
) -> None:
    """Two warm-ups may be beside the standbys."""
    given = {}
    for process, row in zip("ab", rows, strict=True):
        active, _, behind = row.partition("|")
        given[process] = (active.split(), behind.split())

    assert [task for _, task, _ in misplaced(given, "0123", {"a": 1, "b": 1}, standbys, 2)] == found
