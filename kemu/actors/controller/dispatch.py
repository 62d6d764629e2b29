"""The subscriptions of a controller's parts, through which the controller routes all its events.

Each part subscribes to its events (``Part.subscribe``); no other code routes events. A part can subscribe
in two ways.

* a **job** runs as a separate task, after all earlier tasks of the queue. The job's event is a watch that fires, a
  timer, a request, or a broker's answer to one of the controller's requests.
* a **moment** is a point in a running task at which other parts run their procedures before the task continues.
  Examples: a new controller has read the cluster, brokers have started, leaders have announced new ISRs. Parts run in
  the order in which the controller added them.

Source: Kafka 2.8 ``KafkaController``'s ``ControllerEvent`` and the handlers of its ``ZkClient``.
"""

from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from kemu.actors.controller.transactions import Work
from kemu.actors.machine import Caller
from kemu.protocol.messages.store import WatchEvent, WatchEventKind

ANYTHING = "*"
"""The wildcard for one name in a watched path."""


class ControllerTimer(StrEnum):
    """The first element of a controller's timer keys; keys of the store session begin with a ``SessionTimer``."""

    REBALANCE = "rebalance-leaders"
    """The next check whether preferred replicas lead is due."""
    REGISTER = "register"
    """The next attempt to register is due, after a registration of a former session was found."""
    CHANNEL_RETRY = "channel-retry"
    """(broker): the next attempt to send the first request of the broker's queue is due."""
    CHANNEL_TIMEOUT = "channel-timeout"
    """The earliest request in flight to a broker may have timed out."""
    BUSY = "busy"
    """The running task has finished work that needs no access to the store."""
    ADMIN = "admin"
    """(number): the timeout of an admin's request has passed."""


class Moment(Enum):
    """Points of a running task at which other parts run procedures. Each point's docstring names the arguments."""

    TOOK_OVER = "a new controller has read the cluster, and both state machines are up"
    """()"""
    BROKERS_STARTED = "brokers have started, their replicas are online"
    """(broker ids)"""
    BROKERS_FAILED = "brokers have failed, others lead their partitions"
    """(broker ids)"""
    ISRS_CHANGED = "leaders announced ISRs, and their states have been read"
    """(partitions)"""
    ISRS_ALTERED = "ISRs were altered for leaders, which have their answers"
    """(partitions)"""
    BROKER_CONFIGS_CHANGED = "settings of all brokers have changed"
    """()"""


Procedure: TypeAlias = Callable[..., Work[Any]]


class Job(NamedTuple):
    """A procedure of the controller, with its name. ``by_all_brokers``: the controller parts of all brokers run the
    job, not only the active controller.
    """

    name: str
    do: Procedure
    by_all_brokers: bool = False


class Task(NamedTuple):
    """A job with its arguments. ``caller``: the sender of the request that the job's result answers."""

    job: Job
    about: tuple[Any, ...] = ()
    caller: Caller | None = None
    asked_at_us: int = 0


class Part(Protocol):
    """A part of a controller that subscribes to events."""

    def subscribe(self, to: "Dispatch") -> None:
        """Subscribe to the part's events."""


class _Watch(NamedTuple):
    names: tuple[str, ...]
    kinds: tuple[WatchEventKind, ...]
    job: Job

    def match(self, event: WatchEvent, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """The names at the wildcards of the path; None for another node or another kind of change."""
        if len(names) != len(self.names) or event.kind not in self.kinds:
            return None
        pairs = list(zip(self.names, names, strict=True))
        if any(wanted not in (ANYTHING, name) for wanted, name in pairs):
            return None
        return tuple(name for wanted, name in pairs if wanted == ANYTHING)


class Dispatch:
    """The subscriptions of all parts of one controller."""

    def __init__(self) -> None:
        self._watches: list[_Watch] = []
        self._timers: dict[str, Job] = {}
        self._requests: dict[type, Job] = {}
        self._answers: dict[type, Job] = {}
        self._moments: Mapping[Moment, list[Procedure]] = {moment: [] for moment in Moment}

    # --- subscriptions -----------------------------------------------------------------------------------------

    def on_watch(self, path: str, job: Job, *kinds: WatchEventKind) -> None:
        """Run the job when a node changes in one of these ways (none given: in any way).

        The arguments of the job are the names at the wildcards.
        """
        self._watches.append(_Watch(tuple(path.split("/")), kinds or tuple(WatchEventKind), job))

    def on_timer(self, timer: ControllerTimer, job: Job) -> None:
        """Run the job when this timer, which has no further key, is due."""
        assert timer not in self._timers, f"{timer} has a job"
        self._timers[timer] = job

    def on_request(self, kind: type, job: Job) -> None:
        """Run the job for a request of this class; the job returns the answer."""
        assert kind not in self._requests, f"{kind} has a job"
        self._requests[kind] = job

    def on_answer(self, kind: type, job: Job) -> None:
        """Run the job for a broker's answer to a request of this class. The job's arguments are (broker, request,
        reply).
        """
        assert kind not in self._answers, f"{kind} has a job"
        self._answers[kind] = job

    def on_moment(self, moment: Moment, do: Procedure) -> None:
        """Run the procedure at this moment of a task."""
        self._moments[moment].append(do)

    # --- events ------------------------------------------------------------------------------------------------

    def of_watch(self, event: WatchEvent) -> list[Task]:
        """The tasks to queue for a watch that fired."""
        names = tuple(event.path.split("/"))
        found = ((watch.job, watch.match(event, names)) for watch in self._watches)
        return [Task(job, about) for job, about in found if about is not None]

    def of_timer(self, timer: str) -> Task:
        """The task to queue for a timer."""
        return Task(self._timers[timer])

    def of_request(self, request: object, caller: Caller, now_us: int) -> Task | None:
        """The task to queue for a request; None if no part subscribed to the request's class."""
        job = self._requests.get(type(request))
        return Task(job, (request,), caller, now_us) if job is not None else None

    def of_answer(self, broker: int, request: object, reply: object) -> Task | None:
        """The task to queue for a broker's answer; None if no part subscribed to the request's class."""
        job = self._answers.get(type(request))
        return Task(job, (broker, request, reply)) if job is not None else None

    def reach(self, moment: Moment, *about: Any) -> Work[None]:
        """Run the procedures of all subscribers of this moment."""
        for do in self._moments[moment]:
            yield from do(*about)
