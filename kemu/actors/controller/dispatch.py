"""What wakes a controller, and what it does then: the one place that events go through.

Each part says what it takes (``Part.subscribe``); nothing else decides where an event goes. Two kinds of subscriptions:

* a **job** is done as a task of its own, when those before it in the queue are done: a watch that fires, a timer, a
  request, a broker's answer to one of ours;
* a **moment** is a place in a running task where other parts have their say before it goes on: a new controller has
  read the cluster, brokers have started, leaders have announced new ISRs. Parts have it in the order they were added.

Source: Kafka 2.8 ``KafkaController``'s ``ControllerEvent`` and the handlers of its ``ZkClient``.
"""

from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from kemu.actors.controller.transactions import Work
from kemu.actors.machine import Caller
from kemu.protocol.messages.store import WatchEvent, WatchEventKind

ANYTHING = "*"
"""Stands for one name in a watched path."""


class ControllerTimer(StrEnum):
    """First element of a controller's timer keys; the store session's are ``SessionTimer``."""

    REBALANCE = "rebalance-leaders"
    """Time to look whether preferred replicas lead."""
    REGISTER = "register"
    """Try again to register: a registration of a former life was there."""
    CHANNEL_RETRY = "channel-retry"
    """(broker): send the head of its queue again."""
    CHANNEL_TIMEOUT = "channel-timeout"
    """The earliest request in flight to a broker may be overdue."""
    BUSY = "busy"
    """The running task was busy with itself so long."""
    ADMIN = "admin"
    """(number): an admin's request has waited as long as it may."""


class Moment(Enum):
    """Where other parts have their say in a running task; and what they are given."""

    TOOK_OVER = "a new controller has read the cluster, and both state machines are up"
    """()"""
    BROKERS_STARTED = "brokers have started, their replicas are online"
    """(broker ids)"""
    BROKERS_GONE = "brokers are gone, others lead what they led"
    """(broker ids)"""
    ISRS_CHANGED = "leaders announced ISRs, whose states have been read again"
    """(partitions)"""
    ISRS_ALTERED = "leaders had their ISRs altered, and have their answer"
    """(partitions)"""
    BROKER_CONFIGS_CHANGED = "settings of all brokers have changed"
    """()"""


Procedure: TypeAlias = Callable[..., Work[Any]]


class Job(NamedTuple):
    """A procedure under its name. ``by_everybody``: also a controller part that does not control does it."""

    name: str
    do: Procedure
    by_everybody: bool = False


class Task(NamedTuple):
    """A job to be done with these arguments. ``caller``: who waits for the answer, which is what the job returns."""

    job: Job
    about: tuple[Any, ...] = ()
    caller: Caller | None = None
    asked_at_us: int = 0


class Part(Protocol):
    """A part of a controller that takes events."""

    def subscribe(self, to: "Dispatch") -> None:
        """Say which."""


class _Watch(NamedTuple):
    names: tuple[str, ...]
    kinds: tuple[WatchEventKind, ...]
    job: Job

    def match(self, event: WatchEvent, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """The names that stand for ``ANYTHING``; None if it is about another node or another change."""
        if len(names) != len(self.names) or event.kind not in self.kinds:
            return None
        pairs = list(zip(self.names, names, strict=True))
        if any(wanted not in (ANYTHING, name) for wanted, name in pairs):
            return None
        return tuple(name for wanted, name in pairs if wanted == ANYTHING)


class Dispatch:
    """Who takes what."""

    def __init__(self) -> None:
        self._watches: list[_Watch] = []
        self._timers: dict[str, Job] = {}
        self._requests: dict[type, Job] = {}
        self._answers: dict[type, Job] = {}
        self._moments: Mapping[Moment, list[Procedure]] = {moment: [] for moment in Moment}

    # --- subscriptions -----------------------------------------------------------------------------------------

    def on_watch(self, path: str, job: Job, *kinds: WatchEventKind) -> None:
        """A node changed in one of these ways (none given: in any). The job gets the names that ``*`` stands for."""
        self._watches.append(_Watch(tuple(path.split("/")), kinds or tuple(WatchEventKind), job))

    def on_timer(self, timer: ControllerTimer, job: Job) -> None:
        """A timer without further key is due."""
        assert timer not in self._timers, f"{timer} has a job"
        self._timers[timer] = job

    def on_request(self, kind: type, job: Job) -> None:
        """A request for the controller: the job gets it, and returns the answer."""
        assert kind not in self._requests, f"{kind} has a job"
        self._requests[kind] = job

    def on_answer(self, kind: type, job: Job) -> None:
        """A broker answered a request of this kind: the job gets (broker, request, reply)."""
        assert kind not in self._answers, f"{kind} has a job"
        self._answers[kind] = job

    def on_moment(self, moment: Moment, do: Procedure) -> None:
        """Have a say."""
        self._moments[moment].append(do)

    # --- events ------------------------------------------------------------------------------------------------

    def of_watch(self, event: WatchEvent) -> list[Task]:
        """What is to be done about a watch that fired."""
        names = tuple(event.path.split("/"))
        found = ((watch.job, watch.match(event, names)) for watch in self._watches)
        return [Task(job, about) for job, about in found if about is not None]

    def of_timer(self, timer: str) -> Task:
        """What is to be done about a timer."""
        return Task(self._timers[timer])

    def of_request(self, request: object, caller: Caller, now_us: int) -> Task | None:
        """What is to be done about a request; None: it is not one for a controller."""
        job = self._requests.get(type(request))
        return Task(job, (request,), caller, now_us) if job is not None else None

    def of_answer(self, broker: int, request: object, reply: object) -> Task | None:
        """What is to be done about a broker's answer; most say nothing new."""
        job = self._answers.get(type(request))
        return Task(job, (broker, request, reply)) if job is not None else None

    def reach(self, moment: Moment, *about: Any) -> Work[None]:
        """Let all who subscribed have their say."""
        for do in self._moments[moment]:
            yield from do(*about)
