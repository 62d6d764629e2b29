"""Task assignors by name, with one interface; and the checks of their results (KIP-924's errors)."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import partial
from typing import Protocol, TypeAlias

from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.streams.high_availability import (
    BEFORE_3_2,
    SINCE_3_3,
    HighAvailabilityRules,
    assign_high_availability,
)
from kemu.protocol.streams.java_collections import HashOrder, task_hash, task_hash_before_3_0
from kemu.protocol.streams.learner import StreamsMember
from kemu.protocol.streams.modes import LEARNER
from kemu.protocol.streams.sticky import SINCE_2_6, StickyTaskRules, assign_sticky
from kemu.protocol.streams.tasks import (
    LATEST_OFFSET,
    ClientId,
    ClientState,
    TaskAssignment,
    TaskConfig,
    TaskId,
)


class TaskAssignor(Protocol):
    """A task assignor, which assigns tasks to clients. A user's own class implements this interface.

    ``problems`` lists the requirements of its result.
    """

    def assign(
        self,
        clients: Mapping[ClientId, ClientState],
        tasks: Collection[TaskId],
        stateful: Collection[TaskId],
        config: TaskConfig,
    ) -> TaskAssignment:
        """The tasks of each client."""
        ...


Rule: TypeAlias = Callable[
    [Mapping[ClientId, ClientState], Collection[TaskId], Collection[TaskId], TaskConfig], TaskAssignment
]


@frozen
class KafkasTaskAssignor:
    """One of Kafka's own task assignors, which are functions without state.

    ``prior``: the assignor that is used if the ends of changelogs cannot be read.
    """

    rule: Rule
    prior: Rule

    def assign(
        self,
        clients: Mapping[ClientId, ClientState],
        tasks: Collection[TaskId],
        stateful: Collection[TaskId],
        config: TaskConfig,
    ) -> TaskAssignment:
        """The result of the assignor's function."""
        return self.rule(clients, tasks, stateful, config)


def assign_prior_tasks(
    clients: Mapping[ClientId, ClientState],
    tasks: Collection[TaskId],
    stateful: Collection[TaskId],
    config: TaskConfig,
    rules: StickyTaskRules = SINCE_2_6,
) -> TaskAssignment:
    """Assign tasks to their previous owners regardless of load, with a probing rebalance: the lags are unknown (2.6
    on).
    """
    given = assign_sticky(clients, tasks, stateful, config, rules, must_preserve_active=True)
    return TaskAssignment(given.active, given.standby, probing=True)


@frozen
class Learners:
    """The entry of KIP-429's learners in the table. Learners need further arguments (``assign_learners``)."""

    def assign(
        self,
        clients: Mapping[ClientId, ClientState],
        tasks: Collection[TaskId],
        stateful: Collection[TaskId],
        config: TaskConfig,
    ) -> TaskAssignment:
        """Raise an error: clients do not report tasks with learners, and a task assignment cannot name learners."""
        raise AssertionError("learners are assigned by assign_learners")


def member_of(client: ClientState) -> StreamsMember:
    """A client's report in the form for a leader that knows learners."""
    return StreamsMember(
        weight=client.capacity,
        assigned=client.prev_active,
        standby={task: client.lag(task) for task in client.prev_standby},
    )


def client_of(member: StreamsMember) -> ClientState:
    """A member's report in the form for Kafka's task assignors."""
    active = (*member.assigned, *member.revoked)
    copies = {**member.standby, **{task: 0 if task in member.ready else lag for task, lag in member.learning.items()}}
    return ClientState(
        member.weight,
        active,
        tuple(sorted(task for task in copies if task not in active)),
        {**copies, **dict.fromkeys(active, LATEST_OFFSET)},
    )


def _task_assignors(
    sticky: StickyTaskRules = SINCE_2_6, high_availability: HighAvailabilityRules = SINCE_3_3
) -> Mapping[str, TaskAssignor]:
    prior = partial(assign_prior_tasks, rules=sticky)
    return {
        LEARNER: Learners(),
        "sticky": KafkasTaskAssignor(partial(assign_sticky, rules=sticky), prior),
        "ha": KafkasTaskAssignor(partial(assign_high_availability, rules=high_availability), prior),
        "prior": KafkasTaskAssignor(prior, prior),
    }


TASK_ASSIGNORS = _task_assignors()
"""KIP-429's learners and ``StickyTaskAssignor``, ``HighAvailabilityTaskAssignor``, ``FallbackPriorTaskAssignor``.

These assignors visit tasks and clients in order. The assignors of a release visit tasks and clients in the order of
the release's hash sets.
"""

_BEFORE_3_0, _SINCE_3_0 = HashOrder(task_hash_before_3_0), HashOrder(task_hash)
TASK_ASSIGNORS_2_3 = _task_assignors(StickyTaskRules(_BEFORE_3_0, standbys_without_state=True))
"""The task assignors of 2.3 to 2.5, only the sticky assignor."""
TASK_ASSIGNORS_2_6 = _task_assignors(StickyTaskRules(_BEFORE_3_0), evolve(BEFORE_3_2, visits=_BEFORE_3_0))
"""The task assignors of 2.6 to 2.8."""
TASK_ASSIGNORS_3_0 = _task_assignors(StickyTaskRules(_SINCE_3_0), evolve(BEFORE_3_2, visits=_SINCE_3_0))
"""The task assignors of 3.0 and 3.1."""
TASK_ASSIGNORS_FROM_NOTHING = _task_assignors(
    StickyTaskRules(_SINCE_3_0), evolve(SINCE_3_3, to_most_caught_up=False, visits=_SINCE_3_0)
)
"""A past bug: the lags of clients that are not caught up are ignored (KAFKA-13600)."""
TASK_ASSIGNORS_3_2 = _task_assignors(StickyTaskRules(_SINCE_3_0), evolve(SINCE_3_3, in_turn=False, visits=_SINCE_3_0))
"""The task assignors of 3.2."""
TASK_ASSIGNORS_3_4 = _task_assignors(StickyTaskRules(_SINCE_3_0), evolve(SINCE_3_3, visits=_SINCE_3_0))
"""The task assignors of 3.3 to 3.5; also of later releases without racks."""

TASK_ASSIGNORS_OF: Mapping[str, Mapping[str, TaskAssignor]] = {
    "2.3": TASK_ASSIGNORS_2_3,
    "2.6": TASK_ASSIGNORS_2_6,
    "3.0": TASK_ASSIGNORS_3_0,
    "3.4": TASK_ASSIGNORS_3_4,
    "KAFKA-13600": TASK_ASSIGNORS_FROM_NOTHING,
    "": TASK_ASSIGNORS,
}
"""``StreamsRelease.assignors_of`` -> task assignors."""


class AssignmentError(Enum):
    """KIP-924's errors of a task assignment."""

    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "is active on more than one client"
    INVALID_STANDBY_TASK = "is a standby of a task without state, or on the same client as its active copy"
    MISSING_PROCESS_ID = "is missing"
    UNKNOWN_PROCESS_ID = "is not a client"
    UNKNOWN_TASK_ID = "is not a task"


def problems(
    given: TaskAssignment,
    clients: Mapping[ClientId, ClientState],
    tasks: Collection[TaskId],
    stateful: Collection[TaskId],
) -> list[tuple[AssignmentError, str]]:
    """The problems of a task assignment, as (error, client or task). Source: KIP-924, ``TaskAssignmentUtils``."""
    found: list[tuple[AssignmentError, str]] = []
    named = dict.fromkeys((*given.active, *given.standby))
    found += [(AssignmentError.UNKNOWN_PROCESS_ID, name) for name in named if name not in clients]
    found += [(AssignmentError.MISSING_PROCESS_ID, name) for name in clients if name not in named]
    known, with_state = frozenset(tasks), frozenset(stateful)
    copies = [task for lists in (given.active, given.standby) for each in lists.values() for task in each]
    found += [(AssignmentError.UNKNOWN_TASK_ID, str(task)) for task in dict.fromkeys(copies) if task not in known]
    times = Counter(task for each in given.active.values() for task in each)
    found += [
        (AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, str(task)) for task, count in times.items() if count > 1
    ]
    found += [
        (AssignmentError.INVALID_STANDBY_TASK, str(task))
        for name, each in given.standby.items()
        for task in each
        if task in known and (task not in with_state or task in given.active.get(name, ()))
    ]
    return found
