"""Cases of task assignment as lines of JSON, the input of ``kemu assign-tasks``.

One line is one case. The two forms are clients with tasks and lags, and rebalances of members::

    {"id": "c1", "assignor": "ha", "tasks": ["0_0"], "stateful": ["0_0"], "config": {"num_standby": 1},
     "clients": {"P1": {"capacity": 1, "prev_active": ["0_0"], "prev_standby": [], "lags": {"0_0": 0}}}}

    {"name": "scale_up", "stage": 1, "config": {"num_standby": 0, "pick": "lowest"}, "initial": {"tasks": ["T1"],
     "leader_last_members": ["S1"]}, "rebalances": [{"joined": {"S1": {"assigned": ["T1"]}, "S2": {}}}]}

The reader ignores other keys, such as expectations and notes.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kemu.protocol.frozen import frozen
from kemu.protocol.streams.learner import LearnerConfig, StreamsMember
from kemu.protocol.streams.modes import PICKS
from kemu.protocol.streams.registry import client_of, member_of
from kemu.protocol.streams.tasks import MAX_LAG, UNKNOWN_LAG, ClientId, ClientState, TaskConfig, TaskId, task_id
from kemu.tools.kafka_files.input_files import BadFile, json_of

MOST_WEIGHT = 1_000_000


class BadCase(ValueError):
    """A line is no valid case; the message has the place in the line and the reason."""


@frozen
class RebalanceRound:
    """One rebalance with the reports of clients and of members."""

    number: int
    clients: Mapping[ClientId, ClientState]
    members: Mapping[ClientId, StreamsMember]
    last_instances: tuple[ClientId, ...] | None


@frozen
class Case:
    """One case. ``by_rounds``: whether the line has rebalances of members instead of clients."""

    label: Mapping[str, Any]
    assignor: str | None
    tasks: tuple[TaskId, ...]
    stateful: tuple[TaskId, ...]
    config: TaskConfig
    learners: LearnerConfig
    must_preserve_active: bool
    rebalances: tuple[RebalanceRound, ...]
    by_rounds: bool


def read_case(text: str) -> Case:
    """Return the case of one line.

    Raises:
        BadCase: The line is not JSON, or a key is missing or of another type.
    """
    try:
        data = json_of(text)
    except BadFile as error:
        raise BadCase(str(error)) from None
    if not isinstance(data, dict):
        raise BadCase("a case is a table")
    if "clients" in data:
        return _clients_case(data)
    if "rebalances" in data:
        return _rounds_case(data)
    raise BadCase('has neither "clients" nor "rebalances"')


def _clients_case(data: dict[str, Any]) -> Case:
    tasks = _tasks("tasks", data.get("tasks"))
    stateful = _tasks("stateful", data.get("stateful", data.get("tasks")))
    _within("stateful", stateful, tasks)
    raw = _table("clients", data["clients"])
    clients = {name: _client(f"clients.{name}", _table(f"clients.{name}", value)) for name, value in raw.items()}
    members = {name: member_of(client) for name, client in clients.items()}
    before = tuple(name for name, client in clients.items() if client.prev_active or client.prev_standby)
    config, learners = _configs(data)
    assignor = data.get("assignor")
    if assignor is not None and not isinstance(assignor, str):
        raise BadCase("assignor: must be a name")
    preserve = data.get("must_preserve_active", False)
    return Case(
        _label(data), assignor, tasks, stateful, config, learners, bool(preserve),
        (RebalanceRound(1, _some(clients), members, before),), by_rounds=False,
    )  # fmt: skip


def _rounds_case(data: dict[str, Any]) -> Case:
    initial = _table("initial", data.get("initial", {}))
    tasks = _tasks("tasks", data.get("tasks", initial.get("tasks")))
    config, learners = _configs(data)
    without_state = _tasks("config.stateless", _table("config", data.get("config", {})).get("stateless", []))
    _within("config.stateless", without_state, tasks)
    last = _names("leader_last_members", data.get("leader_last_members", initial.get("leader_last_members")))
    rounds: list[RebalanceRound] = []
    raw = data["rebalances"]
    if not isinstance(raw, list):
        raise BadCase("rebalances: must be a list")
    for number, row in enumerate(raw, 1):
        where = f"rebalances[{number - 1}]"
        one = _table(where, row)
        joined = _table(f"{where}.joined", one.get("joined"))
        members = {
            name: _member(f"{where}.joined.{name}", _table(f"{where}.joined.{name}", value))
            for name, value in joined.items()
        }
        if one.get("leader_has_history") is False:
            last = None
        rounds.append(
            RebalanceRound(
                one.get("n", number), {name: client_of(each) for name, each in members.items()}, _some(members), last
            )
        )
        last = tuple(joined)
    return Case(
        _label(data), None, tasks, tuple(task for task in tasks if task not in without_state), config, learners,
        must_preserve_active=False, rebalances=tuple(rounds), by_rounds=True,
    )  # fmt: skip


def _label(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: data[key] for key in ("id", "name") if key in data}


def _configs(data: Mapping[str, Any]) -> tuple[TaskConfig, LearnerConfig]:
    raw = _table("config", data.get("config") or {})
    stage = _whole("stage", data.get("stage", raw.get("stage", 4)), least=1, most=4)
    pick = raw.get("pick", "lowest")
    if pick not in PICKS:
        raise BadCase(f"config.pick: is one of {', '.join(PICKS)}")
    standby = _whole("config.num_standby", raw.get("num_standby", 0), most=MOST_WEIGHT)
    config = TaskConfig(
        standby,
        _whole("config.max_warmup", raw.get("max_warmup", 2), most=MOST_WEIGHT),
        _lag("config.acceptable_lag", raw.get("acceptable_lag", 10_000)),
    )
    learners = LearnerConfig(
        stage, pick, standby, _imbalance(raw.get("imbalance")), raw.get("prefer_caught_up") is True
    )
    return config, learners


def _imbalance(raw: Any) -> Fraction | None:
    if raw is None:
        return None
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= 1:
        raise BadCase("config.imbalance: is a fraction from 0 to 1")
    return Fraction(str(raw))


def _client(where: str, raw: dict[str, Any]) -> ClientState:
    return ClientState(
        _whole(f"{where}.capacity", raw.get("capacity", 1), least=1, most=MOST_WEIGHT),
        _tasks(f"{where}.prev_active", raw.get("prev_active", [])),
        _tasks(f"{where}.prev_standby", raw.get("prev_standby", [])),
        _lags(f"{where}.lags", raw.get("lags", {})),
    )


def _member(where: str, raw: dict[str, Any]) -> StreamsMember:
    ready = frozenset(_tasks(f"{where}.ready", raw.get("ready", [])))
    learning = _tasks(f"{where}.learning", raw.get("learning", []))
    lags = _lags(f"{where}.learning_lag", raw.get("learning_lag", {}))
    standby = dict.fromkeys(_tasks(f"{where}.standby", raw.get("standby", [])), 0)
    return StreamsMember(
        weight=_whole(f"{where}.capacity", raw.get("capacity", raw.get("weight", 1)), least=1, most=MOST_WEIGHT),
        assigned=_tasks(f"{where}.assigned", raw.get("assigned", [])),
        revoked=_tasks(f"{where}.revoked", raw.get("revoked", [])),
        learning={task: 0 if task in ready else lags.get(task, 1) for task in learning},
        ready=ready,
        standby=standby | _lags(f"{where}.standby_lag", raw.get("standby_lag", {})),
        leaving=raw.get("leaving") is True,
        expired=raw.get("leaving_timeout_elapsed") is True,
        learner_capable=raw.get("learner_capable") is not False,
        generation=_whole(f"{where}.generation", raw.get("generation", 0)),
    )


def _some(table: Any) -> Any:
    if not table:
        raise BadCase("a group has at least one client")
    return table


def _within(where: str, some: tuple[TaskId, ...], tasks: tuple[TaskId, ...]) -> None:
    strange = [task for task in some if task not in tasks]
    if strange:
        raise BadCase(f'{where}: "{strange[0]}" is not among the tasks')


def _table(where: str, raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise BadCase(f"{where}: must be a table")
    return raw


def _names(where: str, raw: Any) -> tuple[str, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise BadCase(f"{where}: must be a list of names")
    return tuple(raw)


def _tasks(where: str, raw: Any) -> tuple[TaskId, ...]:
    names = _names(where, raw)
    if names is None:
        raise BadCase(f"{where}: must be a list of tasks")
    if len(set(names)) < len(names):
        raise BadCase(f"{where}: a task is listed twice")
    if any(len(name) > 60 for name in names):
        raise BadCase(f"{where}: a task's name is too long")
    return tuple(task_id(name) for name in names)


def _lags(where: str, raw: Any) -> dict[TaskId, int]:
    return {task_id(name): _lag(f"{where}.{name}", lag) for name, lag in _table(where, raw).items()}


def _lag(where: str, raw: Any) -> int:
    return MAX_LAG if raw == "MAX" else _whole(where, raw, least=UNKNOWN_LAG, most=MAX_LAG)


def _whole(where: str, raw: Any, least: int = 0, most: int = 2**31 - 1) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or not least <= raw <= most:
        raise BadCase(f"{where}: must be a whole number from {least} to {most}")
    return raw
