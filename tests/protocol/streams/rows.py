"""Rows of streams_walkthroughs.json: what instances report, and what they get."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kemu.protocol.streams.learner import LearnerConfig, StreamsAssignment, StreamsMember
from kemu.protocol.streams.tasks import TaskId, task_id

MEMBER_KEYS = {
    "assigned", "revoked", "learning", "ready", "leaving", "leaving_timeout_elapsed", "standby_lag", "learner_capable",
    "standby", "capacity",
}  # fmt: skip


def tasks(names: list[str]) -> tuple[TaskId, ...]:
    return tuple(task_id(name) for name in names)


def member(row: Mapping[str, Any]) -> StreamsMember:
    assert set(row) <= MEMBER_KEYS, set(row) - MEMBER_KEYS
    ready = frozenset(tasks(row.get("ready", [])))
    standby = {task_id(name): 0 for name in row.get("standby", [])}
    return StreamsMember(
        weight=row.get("capacity", 1),
        assigned=tasks(row["assigned"]),
        revoked=tasks(row["revoked"]),
        learning={task: 0 if task in ready else 1 for task in tasks(row["learning"])},
        ready=ready,
        standby=standby | {task_id(name): lag for name, lag in row.get("standby_lag", {}).items()},
        leaving=row.get("leaving", False),
        expired=row.get("leaving_timeout_elapsed", False),
        learner_capable=row.get("learner_capable", True),
    )


def config(vector: Mapping[str, Any]) -> LearnerConfig:
    raw = vector["config"]
    imbalance = raw.get("imbalance")
    return LearnerConfig(
        stage=vector["stage"],
        pick=raw.get("pick", "lowest"),
        num_standby=raw["num_standby"],
        imbalance=None if imbalance is None else Fraction(str(imbalance)),
    )


def row(given: StreamsAssignment, keys: set[str]) -> dict[str, Any]:
    whole = {
        "assigned": [str(task) for task in given.assigned],
        "revoked": [str(task) for task in given.revoked],
        "learning": [str(task) for task in given.learning],
        "being_learned": [str(task) for task in given.being_learned],
        "standby": [str(task) for task in given.standby],
        "shutdown": given.shutdown,
    }
    assert keys <= set(whole), keys - set(whole)
    return {key: value for key, value in whole.items() if key in keys}
