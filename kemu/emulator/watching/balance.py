"""Whether a Streams application is at rest, and whether its load is balanced."""

from collections import Counter
from fractions import Fraction

from kemu.emulator.watching.applications import (
    ACTIVE,
    CREATED,
    LEARNER,
    RUNNING,
    STANDBY,
    WARM_UP,
    WatchedApplication,
)
from kemu.emulator.watching.panel import Panel
from kemu.protocol.streams.balance import bands, is_even, is_stable

LEARNERS = "learner"
"""The task assignor on KIP-429's page."""


def at_work(application: WatchedApplication) -> str:
    """The reason why an application is not at rest; "" for an application at rest."""
    tasks = () if application.decided is None else application.decided.tasks
    running = set()
    for copy in application.copies.values():
        role = application.role_of(copy)
        if role in (LEARNER, WARM_UP):
            return f"{copy.instance} {'learns' if role == LEARNER else 'warms up'} {copy.task}"
        if role == ACTIVE and copy.state != RUNNING:
            return f"{copy.task} is {copy.state} on {copy.instance}"
        if role == STANDBY and copy.state == CREATED:
            return f"the standby of {copy.task} is not begun on {copy.instance}"
        if role == ACTIVE:
            running.add(copy.task)
    missing = [task for task in tasks if task not in running]
    return f"no instance runs {', '.join(missing[:4])}" if missing else ""


def is_balanced(panel: Panel, application: WatchedApplication) -> bool:
    """Whether every task has an owner that stays, and loads are as even as the assignor promises.

    With learners and ``stream.imbalance.percentage`` (stage 4), the numbers of tasks with state are within the band of
    this setting. In other stages, and for tasks without state, no move would make the numbers more even. With other
    assignors, active tasks per thread differ by at most one.
    """
    decided = application.decided
    staying = {
        host: instance.started
        for host, instance in application.instances.items()
        if not panel.is_out(host) and not instance.leaving and not instance.released
    }
    if decided is None or not staying:
        return False
    owner = {copy.task: copy.instance for copy in application.copies.values() if copy.role == ACTIVE}
    if any(owner.get(task) not in staying for task in decided.tasks):
        return False
    weights = {host: started.weight for host, started in staying.items()}
    first = next(iter(staying.values()))
    if first.assignor != LEARNERS:
        actives = Counter(owner[task] for task in decided.tasks)
        shares = [Fraction(actives[host], weight) for host, weight in weights.items()]
        return max(shares) - min(shares) <= 1
    with_state, without = set(decided.stateful), set(decided.tasks) - set(decided.stateful)
    loads = {host: sum(owner[task] == host for task in with_state) for host in staying}
    others = {host: sum(owner[task] == host for task in without) for host in staying}
    if first.imbalance:
        settled = is_stable(loads, bands(len(with_state), weights, Fraction(first.imbalance)))
    else:
        settled = is_even(loads, weights)
    return settled and is_even(others, weights)
