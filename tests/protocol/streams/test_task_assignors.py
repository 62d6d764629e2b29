"""Kafka's task assignors against the cases of StickyTaskAssignorTest and HighAvailabilityTaskAssignorTest."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.streams.registry import TASK_ASSIGNORS, AssignmentError, problems
from kemu.protocol.streams.sticky import assign_sticky
from kemu.protocol.streams.tasks import MAX_LAG, ClientState, TaskAssignment, TaskConfig, TaskId, task_id
from tests.case_files import load

FILE = load("task_assignors.json")
KNOWN_KEYS = {
    "id", "assignor", "source", "must_preserve_active", "tasks", "stateful", "config", "clients", "probing",
    "expect", "kind", "order_sensitive", "derived_sorted_order_result", "notes",
}  # fmt: skip


def lag(raw: int | str) -> int:
    return MAX_LAG if raw == "MAX" else int(raw)


def ids(names: list[str]) -> tuple[TaskId, ...]:
    return tuple(task_id(name) for name in names)


def clients_of(case: Mapping[str, Any]) -> dict[str, ClientState]:
    return {
        name: ClientState(
            raw["capacity"],
            ids(raw["prev_active"]),
            ids(raw["prev_standby"]),
            {task_id(task): lag(value) for task, value in (raw.get("lags") or {}).items()},
        )
        for name, raw in case["clients"].items()
    }


def assign(case: Mapping[str, Any]) -> TaskAssignment:
    raw = case["config"]
    config = TaskConfig(raw["num_standby"], raw["max_warmup"], lag(raw["acceptable_lag"]))
    if case.get("must_preserve_active"):
        return assign_sticky(
            clients_of(case), ids(case["tasks"]), ids(case["stateful"]), config, must_preserve_active=True
        )
    return TASK_ASSIGNORS[case["assignor"]].assign(clients_of(case), ids(case["tasks"]), ids(case["stateful"]), config)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in FILE["cases"]])
def test_a_case_of_kafkas_own_tests_holds(case: dict[str, Any]) -> None:
    """Every expectation of the case; where Java relies on the order of hash sets, sorted order is the specification."""
    assert set(case) <= KNOWN_KEYS

    result = assign(case)

    for expectation in case["expect"]:
        expect(expectation, case, result)
    if case.get("probing") is not None:
        assert result.probing is case["probing"]
    if case.get("derived_sorted_order_result"):
        assert {
            name: {"active": names(result.active[name]), "standby": names(result.standby[name])}
            for name in case["clients"]
        } == case["derived_sorted_order_result"]


def names(tasks: tuple[TaskId, ...]) -> list[str]:
    return [str(task) for task in tasks]


def spread(loads: Mapping[str, int], clients: Mapping[str, ClientState]) -> float:
    per_thread = [loads[name] / client.capacity for name, client in clients.items()]
    return max(per_thread) - min(per_thread)


def skews(result: TaskAssignment, tasks: tuple[TaskId, ...]) -> dict[int, int]:
    found = {}
    for subtopology in {task.subtopology for task in tasks}:
        counts = [sum(task.subtopology == subtopology for task in given) for given in result.active.values()]
        found[subtopology] = max(counts) - min(counts)
    return found


def expect(expectation: Mapping[str, Any], case: Mapping[str, Any], result: TaskAssignment) -> None:
    kind = expectation["type"]
    clients = clients_of(case)
    active = {name: set(names(given)) for name, given in result.active.items()}
    standby = {name: set(names(given)) for name, given in result.standby.items()}
    rest = {key: value for key, value in expectation.items() if key != "type"}
    if kind == "active_count":
        assert {name: len(active[name]) for name in rest["counts"]} == rest["counts"]
    elif kind == "total_count":
        assert {name: len(active[name]) + len(standby[name]) for name in rest["counts"]} == rest["counts"]
    elif kind == "active_contains":
        assert all(active[name] >= set(tasks) for name, tasks in rest.items())
    elif kind == "active_excludes":
        assert all(not active[name] & set(tasks) for name, tasks in rest.items())
    elif kind == "active_equals":
        assert {name: sorted(active[name]) for name in rest} == {name: sorted(tasks) for name, tasks in rest.items()}
    elif kind == "standby_equals":
        assert {name: sorted(standby[name]) for name in rest} == {name: sorted(tasks) for name, tasks in rest.items()}
    elif kind == "standby_contains":
        assert all(standby[name] >= set(tasks) for name, tasks in rest.items())
    elif kind == "standby_excludes":
        assert all(not standby[name] & set(tasks) for name, tasks in rest.items())
    elif kind == "standby_count":
        assert {name: len(standby[name]) for name in rest["counts"]} == rest["counts"]
    elif kind == "active_count_min":
        assert all(len(active[name]) >= count for name, count in rest["counts"].items())
    elif kind == "standby_count_min":
        assert all(len(standby[name]) >= count for name, count in rest["counts"].items())
    elif kind == "standby_count_max":
        assert all(len(standby[name]) <= count for name, count in rest["counts"].items())
    elif kind == "nonempty_standby_clients_min":
        assert sum(bool(tasks) for tasks in standby.values()) >= rest["value"]
    elif kind == "all_active":
        assert sorted(task for given in active.values() for task in given) == sorted(rest["tasks"])
    elif kind == "all_standby":
        assert sorted(task for given in standby.values() for task in given) == sorted(rest["tasks"])
    elif kind == "active_subtopologies":
        for name in rest["clients"]:
            assert sorted(task_id(task).subtopology for task in active[name]) == rest["value"]
    elif kind == "valid":
        stateless = set(rest.get("stateless", []))
        extra = 0
        for task in case["tasks"]:
            copies = sum(task in active[name] or task in standby[name] for name in clients)
            wanted = 1 if task in stateless else min(len(clients), 1 + rest["standbys"])
            assert wanted <= copies <= wanted + (task not in stateless), task
            extra += copies > wanted
        assert extra <= rest["max_warmups"]
    elif kind == "balanced_active":
        assert spread({name: len(tasks) for name, tasks in active.items()}, clients) <= 1
    elif kind == "balanced_stateful":
        stateful = set(case["stateful"])
        loads = {name: len((active[name] | standby[name]) & stateful) for name in clients}
        assert spread(loads, clients) <= 1
    elif kind == "balanced_subtopologies":
        assert max(skews(result, ids(case["tasks"])).values()) <= rest["max_skew"]
    elif kind == "skewed_subtopologies_min":
        assert sum(skew > 1 for skew in skews(result, ids(case["tasks"])).values()) >= rest["value"]
    elif kind == "moved_max":
        moved = sum(task not in result.active[name] for name, client in clients.items() for task in client.prev_active)
        assert moved <= rest["value"]
    elif kind == "distinct_assignments":
        sets = [(frozenset(active[name]), frozenset(standby[name])) for name in rest["clients"]]
        assert len(set(sets)) == len(sets)
    else:
        raise AssertionError(f"{case['id']} expects {kind}, which nobody checks")


TASKS = st.lists(
    st.builds(lambda sub, part: task_id(f"{sub}_{part}"), st.integers(0, 2), st.integers(0, 11)),
    min_size=1, max_size=20, unique=True,
)  # fmt: skip


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, ClientState], list[TaskId], list[TaskId], TaskConfig]:
    tasks = draw(TASKS)
    stateful = [task for task in tasks if draw(st.booleans())]
    clients = {}
    for number in range(draw(st.integers(1, 5))):
        before = draw(st.lists(st.sampled_from(tasks), unique=True, max_size=6))
        standby = [task for task in draw(st.lists(st.sampled_from(tasks), unique=True, max_size=6)) if task in stateful]
        lags = {task: draw(st.sampled_from([0, 5, 20_000, MAX_LAG])) for task in stateful}
        clients[f"P{number}"] = ClientState(draw(st.integers(1, 3)), tuple(before), tuple(standby), lags)
    config = TaskConfig(draw(st.integers(0, 2)), draw(st.integers(0, 3)), draw(st.sampled_from([0, 10_000, MAX_LAG])))
    return clients, tasks, stateful, config


@given(situations(), st.sampled_from(["sticky", "ha", "prior"]))
def test_every_task_is_active_once_and_nothing_is_wrong_with_the_answer(
    situation: tuple[dict[str, ClientState], list[TaskId], list[TaskId], TaskConfig], name: str
) -> None:
    """KIP-924's checks, and the number of copies: standbys as asked for, and at most the warm-ups beside them."""
    clients, tasks, stateful, config = situation

    result = TASK_ASSIGNORS[name].assign(clients, tasks, stateful, config)

    assert problems(result, clients, tasks, stateful) == []
    assert sorted(task for given in result.active.values() for task in given) == sorted(tasks)
    copies = Counter(task for given in result.standby.values() for task in given)
    wanted = min(len(clients) - 1, config.num_standby)
    warm = 0 if name != "ha" else config.max_warmup
    assert all(copies[task] >= wanted for task in stateful)
    assert sum(copies[task] - wanted for task in stateful) <= warm


def test_what_is_wrong_with_an_answer_has_its_name_in_kip_924() -> None:
    clients = {"P1": ClientState(1), "P2": ClientState(1)}
    one, two, strange = task_id("0_0"), task_id("0_1"), task_id("9_9")
    given_out = TaskAssignment({"P1": (one, strange), "X": (one,)}, {"P1": (one, two)})

    found = problems(given_out, clients, [one, two], [one])

    assert [(error, what) for error, what in found] == [
        (AssignmentError.UNKNOWN_PROCESS_ID, "X"),
        (AssignmentError.MISSING_PROCESS_ID, "P2"),
        (AssignmentError.UNKNOWN_TASK_ID, "9_9"),
        (AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, "0_0"),
        (AssignmentError.INVALID_STANDBY_TASK, "0_0"),
        (AssignmentError.INVALID_STANDBY_TASK, "0_1"),
    ]
