"""Random lives of Kafka Streams applications, many of them, with all checkers on; and how fast they converge.

``python -m tests.soak_streams --scripts 1:1000`` draws scripts for KIP-429's learners: instances of several weights
join, crash, come back or not, are told to leave and to stay after all; now and then it is the leader that crashes. Each
runs in both loops: their traces are equal, nothing that must hold is broken, and in the end the application rests: no
learner is left, every task has an owner that stays, and no further learner would even out the load (stage 4).

``--convergence 1:1000`` is Kafka's ``TaskAssignorConvergenceTest`` on running instances: clients come and go at random
under the high-availability task assignor, and after each event as many assignments as that test allows must do.
``--learners 1:1000`` is the same, with the same bound, under KIP-429's learners: a learner that is ready asks where
there a probing rebalance looks.

``tests/emulator/test_streams_scripts.py`` runs the same over a few of each.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from attrs import frozen

from kemu.emulator.facts import Seen
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.notes.groups import MemberBecame, Rejoin
from kemu.protocol.notes.streams import InstanceStarted, TasksDecided, TasksGiven
from kemu.protocol.streams.balance import is_even
from kemu.protocol.streams.modes import BALANCE, LEARNER
from tests.soaking import OneSeed, made, report, said, seeds_of, sweep

CHANGELOG = "app-store-changelog"
FIRST_EVENT_S, AFTER_LAST_S = 15, 45
ONE_AFTER_THE_OTHER_S = (1, 2, 4, 8, 15, 25)


def script(seed: int) -> Scenario:
    """A random life of an application with learners."""
    random = Random(f"script/{seed}")
    members = random.randint(1, 5)
    stage = random.choice((1, 2, 3, 4, 4, 4))
    plan, at_s, hosts = [], FIRST_EVENT_S, members
    leaving: set[str] = set()
    for _ in range(random.randint(2, 7)):
        event, added = _event(random, hosts, leaving, stage)
        plan.append({"at": f"{at_s}s", **event})
        hosts += added
        at_s += random.choice(ONE_AFTER_THE_OTHER_S)
    stateless, partitions = random.random() < 0.4, random.randint(1, 9)
    data: dict[str, Any] = {
        "name": f"script-{seed}",
        "duration": f"{at_s + AFTER_LAST_S}s",
        "profile": "kip-429-v99",
        "brokers": {"config": {"group.initial.rebalance.delay.ms": random.choice((0, 0, 3_000))}},
        "producers": {"config": {"emulated.batch.interval.ms": 1_000}},
        "topics": {
            "in": {"partitions": partitions, "rate": f"{random.choice((5, 40, 200))}/s"},
            CHANGELOG: {"partitions": partitions, "rate": "0/s", "initial_records": random.choice((0, 0, 500, 5_000))},
            "plain": {"partitions": random.randint(1, 6), "rate": "5/s"},
        },
        "groups": {
            "app": {
                "members": members,
                "config": {
                    "rebalance.protocol": "cooperative",
                    "session.timeout.ms": random.choice((6_000, 10_000)),
                    "emulated.process.us.per.record": 500,
                },
                "overrides": {
                    f"c{number}": {"streams": {"emulated.weight": random.choice((1, 2, 3, 5))}}
                    for number in range(1, members + 1)
                }
                if random.random() < 0.4
                else {},
                "streams": {
                    "subtopologies": [f"in -> {CHANGELOG}", *["plain"] * stateless],
                    "config": {
                        "emulated.assignor.stage": stage,
                        "emulated.learner.pick": random.choice(("lowest", "highest")),
                        "learner.partial.rebalance": random.random() < 0.7,
                        "num.standby.replicas": random.choice((0, 0, 0, 1)),
                        "num.stream.threads": random.choice((1, 1, 1, 2)),
                        "stream.imbalance.percentage": random.choice(("", "", "0.2")),
                        "emulated.restore.us.per.record": random.choice((20, 500, 2_000)),
                        "processing.guarantee": random.choice(("at_least_once", "at_least_once", "exactly_once")),
                    },
                },
            }
        },
        "plan": plan,
    }
    return scenario_from_dict(data)


def _event(random: Random, hosts: int, leaving: set[str], stage: int) -> tuple[dict[str, Any], int]:
    """A line of the plan, and how many instances it adds."""
    host = f"c{random.randint(1, hosts)}"
    kind = random.choice(("join", "join", "join", "crash", "crash", "leader", "leave", "leave", "stay"))
    if kind in ("leave", "stay") and stage == 1:
        kind = "join"
    if kind == "stay" and not leaving:
        kind = "leave"
    match kind:
        case "crash" | "leader":
            whom = "leader of app" if kind == "leader" else host
            event = {"do": "crash", "host": whom, "mode": random.choice(("power", "process"))}
            return {**event, **({"for": f"{random.choice((2, 9, 20))}s"} if random.random() < 0.7 else {})}, 0
        case "leave":
            leaving.add(host)
            return {"do": "scale-down", "group": "app", "hosts": [host]}, 0
        case "stay":
            return {"do": "keep-instance", "host": random.choice(sorted(leaving))}, 0
        case _:
            count = random.choice((1, 1, 2))
            return {"do": "add-members", "group": "app", "count": count}, count


class Decisions:
    """What leaders decided, when; the weights of instances; who asked for a rebalance because of warm-ups."""

    SEEN = (TasksDecided, InstanceStarted, MemberBecame)

    def __init__(self) -> None:
        self.all: list[tuple[int, TasksDecided]] = []
        self.looks_us: list[int] = []
        """Rebalances that warm-ups, or learners that are ready, are the reason for."""
        self.weights: dict[str, int] = {}

    def wants(self, kind: type) -> bool:
        return kind in self.SEEN

    def see(self, seen: Seen) -> None:
        fact = seen.fact
        if type(fact) is TasksDecided:
            self.all.append((seen.at_us, fact))
        elif type(fact) is InstanceStarted:
            self.weights[fact.process] = fact.weight
        elif type(fact) is MemberBecame and fact.why in (Rejoin.PROBING, Rejoin.READY):
            self.looks_us.append(seen.at_us)


def one_script(seed: int) -> tuple[str, str]:
    """The verdict of a script, and what is wrong with it."""
    scenario = script(seed)
    decisions = Decisions()
    bare = made(scenario, seed=seed, observers=(decisions,))
    trio = run(scenario, seed=seed, loop="trio")
    if bare.digest != trio.digest:
        return bare.verdict, f"the loops differ: {bare.digest} and {trio.digest}"
    if bare.verdict != "holds":
        return bare.verdict, said(bare)
    streams = scenario.groups["app"].streams
    assert streams is not None
    settings = streams.settings
    even = settings.emulated_assignor_stage == BALANCE and not settings.stream_imbalance_percentage
    return bare.verdict, wrong_at_rest(decisions, even=even)


def wrong_at_rest(decisions: Decisions, *, even: bool) -> str:
    """What is not as it should be after the last rebalance of an application with learners; "" if nothing is."""
    if not decisions.all:
        return "nobody ever decided anything"
    last = decisions.all[-1][1]
    leaving = {row.process for row in last.said if row.leaving}
    for row in last.given:
        if row.learning or row.being_learned:
            return f"{row.process} still learns {row.learning}, and is told of learners of {row.being_learned}"
    owned = Counter(task for row in last.given for task in row.assigned)
    if owned != Counter(last.tasks):
        return f"tasks {sorted(last.tasks)}, and owned are {sorted(owned.elements())}"
    staying = [row for row in last.given if row.process not in leaving]
    if staying and any(row.assigned for row in last.given if row.process in leaving) and even:
        return f"{sorted(leaving)} leave, and still have tasks"
    return uneven(last, staying, decisions.weights) if even else ""


def uneven(last: TasksDecided, staying: Sequence[TasksGiven], weights: Mapping[str, int]) -> str:
    """A move that would even out loads per weight; with a tolerance the application's own checker looks at its band."""
    for tasks in (set(last.stateful), set(last.tasks) - set(last.stateful)):
        loads = {row.process: len(tasks.intersection(row.assigned)) for row in staying}
        if not is_even(loads, weights):
            return f"a move would even out {loads}, weights {weights}"
    return ""


# --- Kafka's convergence test, on running instances ------------------------------------------------------------------

PROBING_S = 4
EVENT_S = 12 * PROBING_S
"""Between two events, and as many looks more as all copies need that may move."""


@frozen
class Convergence:
    """Clients that come and go under the high-availability task assignor.

    ``events``: at which second; how many clients may be gone. ``limit``: assignments that must do after each.
    """

    scenario: Scenario
    events_s: tuple[int, ...]
    limit: int


def convergence(seed: int, task_assignor: str = "ha") -> Convergence:
    """``randomClusterPerturbationsShouldConverge`` (3.4): its ranges, its bound."""
    random = Random(f"convergence/{seed}")
    stateless, stateful, clients = random.randint(1, 10), random.randint(1, 10), random.randint(1, 10)
    warmups, standbys = random.randint(1, stateful), random.randint(0, clients)
    limit = 2 * (stateful + stateful * standbys)
    live, gone, hosts = [f"c{number}" for number in range(1, clients + 1)], [], clients
    plan: list[dict[str, Any]] = []
    events_s: list[int] = []
    at_s = EVENT_S
    for _ in range(random.randint(1, 5)):
        count = random.randrange(len(live))
        events_s.append(at_s)
        if random.random() < 0.5:
            for host in random.sample(live, count):
                live.remove(host)
                gone.append(host)
                plan.append({"at": f"{at_s}s", "do": "crash", "host": host, "mode": "process"})
        else:
            for _ in range(count):
                if gone and random.random() < 0.5:
                    live.append(gone.pop(random.randrange(len(gone))))
                    plan.append({"at": f"{at_s}s", "do": "start-host", "host": live[-1]})
                else:
                    hosts += 1
                    live.append(f"c{hosts}")
                    plan.append({"at": f"{at_s}s", "do": "add-members", "group": "app", "count": 1})
        at_s += EVENT_S + (2 + stateful * (1 + standbys) // warmups) * (PROBING_S + 1)
    scenario = cluster(stateless, stateful, clients, warmups, standbys, plan, at_s, task_assignor)
    return Convergence(scenario, tuple(events_s), limit)


def cluster(
    stateless: int,
    stateful: int,
    clients: int,
    warmups: int,
    standbys: int,
    plan: Sequence[Mapping[str, Any]],
    seconds: int,
    task_assignor: str = "ha",
) -> Scenario:
    """Two sub-topologies; what a client has no state of, it is 5,000 records behind with, and 100 are acceptable."""
    page = task_assignor == LEARNER
    data: dict[str, Any] = {
        "name": "convergence",
        "duration": f"{seconds}s",
        "draws": "calm",
        "profile": "kip-429-v99" if page else "kafka-3.4",
        "brokers": {"config": {"group.initial.rebalance.delay.ms": 1_000}},
        "producers": {"config": {"emulated.batch.interval.ms": 5_000}},
        "topics": {
            "in": {"partitions": stateful, "rate": "2/s"},
            CHANGELOG: {"partitions": stateful, "rate": "0/s", "initial_records": 5_000},
            "plain": {"partitions": stateless, "rate": "1/s"},
        },
        "groups": {
            "app": {
                "members": clients,
                "config": {
                    "session.timeout.ms": 6_000,
                    "heartbeat.interval.ms": 1_000,
                    **({"rebalance.protocol": "cooperative"} if page else {}),
                },
                "streams": {
                    "subtopologies": [f"in -> {CHANGELOG}", "plain"],
                    "config": {
                        "emulated.task.assignor": task_assignor,
                        "stream.imbalance.percentage": "",
                        "acceptable.recovery.lag": 100,
                        "max.warmup.replicas": warmups,
                        "num.standby.replicas": standbys,
                        "probing.rebalance.interval.ms": PROBING_S * 1_000,
                    },
                },
            }
        },
        "plan": list(plan),
    }
    return scenario_from_dict(data)


def converges(case: Convergence, seed: int) -> tuple[str, str]:
    """The verdict of a run, and what is wrong with where it came to, or with how long it took."""
    decisions = Decisions()
    result = made(case.scenario, seed=seed, observers=(decisions,))
    if result.verdict != "holds":
        return result.verdict, said(result)
    ends = [*case.events_s[1:], case.scenario.duration_us // 1_000_000]
    for begin_s, end_s in zip(case.events_s, ends, strict=True):
        span = range(begin_s * 1_000_000, end_s * 1_000_000)
        looks = sum(at_us in span for at_us in decisions.looks_us)
        if looks > case.limit:
            return result.verdict, f"{looks} looks at copies from {begin_s} s on, and {case.limit} were to do"
        last = [each for at_us, each in decisions.all if at_us < span.stop][-1]
        wrong = wrong_after_convergence(last, case)
        if wrong:
            return result.verdict, f"from {begin_s} s on: {wrong}"
    return result.verdict, ""


def wrong_after_convergence(last: TasksDecided, case: Convergence) -> str:
    """What Kafka's test asserts: tasks, copies and sub-topologies are even, and no warm-up is left.

    The page's learners even out tasks with state and tasks without each for themselves, and standbys not at all.
    """
    streams = case.scenario.groups["app"].streams
    assert streams is not None
    standbys, stateful = streams.settings.num_standby_replicas, set(last.stateful)
    for task in last.tasks:
        active = sum(task in row.assigned for row in last.given)
        copies = sum(task in row.standby for row in last.given)
        wanted = min(standbys, len(last.given) - 1) if task in stateful else 0
        if (active, copies) != (1, wanted):
            return f"{task} has {active} owners and {copies} standbys of {wanted}"
    loads = {
        f"tasks of sub-topology {number}": [
            sum(task.startswith(f"{number}_") for task in row.assigned) for row in last.given
        ]
        for number in (0, 1)
    }
    if not last.learners:
        loads["active tasks"] = [len(row.assigned) for row in last.given]
        loads["tasks with state"] = [len(stateful.intersection((*row.assigned, *row.standby))) for row in last.given]
    if any(row.learning for row in last.given):
        return "learners are left"
    for what, counts in loads.items():
        if max(counts) - min(counts) > 1:
            return f"{what} are {counts}"
    return ""


def one_convergence(seed: int) -> tuple[str, str]:
    """The verdict of a random case, and what is wrong with it."""
    return converges(convergence(seed), seed)


def one_convergence_of_learners(seed: int) -> tuple[str, str]:
    """The same case under KIP-429's learners."""
    return converges(convergence(seed, LEARNER), seed)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=seeds_of, metavar="A:B")
    parser.add_argument("--convergence", type=seeds_of, metavar="A:B")
    parser.add_argument("--learners", type=seeds_of, metavar="A:B")
    chosen = parser.parse_args()
    lines = []
    kinds: tuple[tuple[str, OneSeed, range | None], ...] = (
        ("scripts", one_script, chosen.scripts),
        ("convergence", one_convergence, chosen.convergence),
        ("convergence of learners", one_convergence_of_learners, chosen.learners),
    )
    for name, one, seeds in kinds:
        if seeds is not None:
            lines.append(sweep([(name, one)], seeds))
    report(line for each in lines for line in each)


if __name__ == "__main__":
    main()
