"""Random cases for task assignors, in the format of ``kemu assign-tasks``. The same seed and number give the same case.

Half of the cases are realistic: each task has had one owner, standbys lag slightly, and an instance joined or left.
Other cases are arbitrary: two clients claim the same task, tasks no longer exist, or lags do not match the previous
owners.
"""

from random import Random

from lab.conformance.oracles import Json

LATEST, UNKNOWN = -2, -3
"""Special lags: the lag of a running task, and the lag of an unknown task. Source: ``Task.LATEST_OFFSET``,
``UNKNOWN_OFFSET_SUM``."""


def random_case(assignor: str, seed: int, number: int) -> Json:
    """Draw one case. The process ids, which name clients, are small numbers, or random UUIDs."""
    random = Random(f"{assignor}/{seed}/{number}")
    tasks, stateful = _tasks(random)
    names = _process_ids(random, random.choice((1, 2, 3, 4, 5, 6, 8, 11)))
    ends = {task: random.choice((0, 100, 30_000, 1_000_000)) for task in stateful}
    like = _like_an_application if random.random() < 0.5 else _wild
    clients = like(random, names, tasks, stateful, ends)
    if assignor != "ha":
        for client in clients.values():
            del client["lags"]
    return {
        "id": f"{assignor}-{number}",
        "assignor": assignor,
        "tasks": tasks,
        "stateful": stateful,
        "config": {
            "num_standby": random.choice((0, 0, 1, 1, 2, 3)),
            "max_warmup": random.choice((1, 2, 2, 4, 20)),
            "acceptable_lag": random.choice((0, 100, 10_000, 10_000, "MAX")),
        },
        "clients": clients,
    }


def _tasks(random: Random) -> tuple[list[str], list[str]]:
    tasks: list[str] = []
    stateful: list[str] = []
    for subtopology in range(random.choice((1, 1, 2, 3))):
        partitions = [f"{subtopology}_{number}" for number in range(random.randint(1, 12))]
        tasks += partitions
        if random.random() < 0.75:
            stateful += partitions
    return tasks, stateful


def _process_ids(random: Random, count: int) -> list[str]:
    if random.random() < 0.5:
        return [f"{number:032x}" for number in range(1, count + 1)]
    # Java compares UUIDs as signed numbers. If the first bit is clear, texts of UUIDs have the same order.
    return sorted(f"{random.getrandbits(127):032x}" for _ in range(count))


def _like_an_application(
    random: Random, names: list[str], tasks: list[str], stateful: list[str], ends: dict[str, int]
) -> Json:
    clients = {name: _client(random) for name in names}
    before = names[: random.randint(0, len(names))]
    departed = random.choice((0, 0, 1))
    for task in tasks:
        owners = random.sample([*before, *["gone"] * departed], len(before) + departed)
        if not owners:
            continue
        owner, *rest = owners
        copies = rest[: random.choice((0, 1, 2))] if task in stateful else []
        if owner != "gone":
            clients[owner]["prev_active"].append(task)
        for name in copies:
            if name != "gone":
                clients[name]["prev_standby"].append(task)
        for name in names if task in stateful else ():
            lag = ends[task]
            if name == owner:
                lag = random.choice((LATEST, LATEST, LATEST, 0))
            elif name in copies:
                lag = min(lag, random.choice((0, 50, 5_000, 20_000)))
            clients[name]["lags"][task] = lag
    for name in names:
        clients[name]["lags"].update({task: ends[task] for task in stateful if task not in clients[name]["lags"]})
    return clients


def _wild(random: Random, names: list[str], tasks: list[str], stateful: list[str], ends: dict[str, int]) -> Json:
    clients = {name: _client(random) for name in names}
    known = [*tasks, "9_0", "9_1"]
    for client in clients.values():
        had = random.sample(known, random.randint(0, min(len(known), 8)))
        cut = random.randint(0, len(had))
        client["prev_active"], client["prev_standby"] = sorted(had[:cut]), sorted(had[cut:])
        lags = (LATEST, UNKNOWN, 0, 7, 5_000, 10_000, 10_001, 400_000, "MAX")
        client["lags"] = {task: random.choice((*lags, ends[task])) for task in stateful}
    return clients


def _client(random: Random) -> Json:
    return {"capacity": random.choice((1, 1, 1, 2, 3, 4)), "prev_active": [], "prev_standby": [], "lags": {}}
