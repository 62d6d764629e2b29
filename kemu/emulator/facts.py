"""The facts that the world reports, besides the machines' notes: hosts, faults, and the phases of a run.

Checkers, metrics and transcripts see only three parts of a live or recorded run: these facts, the notes of
``protocol.notes``, and messages on the wire (``sent``, ``received``).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.protocol.names import ActorName, part_on, path_and_peer
from kemu.protocol.wire.values import value


class Seen(NamedTuple):
    """A fact with its place: ``seq`` is the step, ``at_us`` the world's time (not a host's clock).

    ``actor`` is "" for facts of the world. ``life`` counts the starts of the actor's host (1: the first).
    """

    seq: int
    at_us: int
    actor: str
    life: int
    fact: Any


Handler: TypeAlias = Callable[[Seen, Any], None]
"""A function that takes one fact, called as ``handler(seen, seen.fact)``."""
TakeAll: TypeAlias = Callable[[int, int, ActorName, int, Sequence[Any]], None]
"""A function that takes facts of one type and one step: (``seq``, ``at_us``, ``actor``, ``life``, facts)."""
_Method = TypeVar("_Method", bound=Callable[..., None])


def only_news(handler: _Method) -> _Method:
    """Mark a handler that does not take facts which only continue an account of the panel (``judging.Judging``)."""
    handler.__dict__["only_news"] = True
    return handler


def takes_only_news(handler: Handler) -> bool:
    """Whether a handler is marked with ``only_news``."""
    return getattr(handler, "only_news", False)


# --- the wire --------------------------------------------------------------------------------------------------------


class OnTheWire:
    """Base class of the kinds that ``sent`` and ``received`` return."""


_KINDS: dict[tuple[str, type], type] = {}


def sent(message: type) -> type:
    """The kind of the fact "an actor sent a message of this class".

    The fact is the ``Send``. ``Seen.actor`` is the sender: the part of the actor that has the connection. The
    ``connection`` of a request is 0; a reply has the ``request_id`` of its request. A message that the network loses is
    a sent message, too. Do not read fields that the message's version lacks: the receiver gets the defaults of these
    fields.
    """
    return _kind("Sent", message)


def received(message: type) -> type:
    """The kind of the fact "an actor received a message of this class"; the fact is the ``Received``."""
    return _kind("Received", message)


def _kind(way: str, message: type) -> type:
    found = _KINDS.get((way, message))
    if found is None:
        found = _KINDS[way, message] = type(way + message.__name__, (OnTheWire,), {})
    return found


def is_of_the_wire(kind: type) -> bool:
    """Whether facts of this kind are messages on the wire. Only observers that ask for the kind get such facts."""
    return issubclass(kind, (OnTheWire, Hangup, LinkDown))


def of_part(actor: ActorName, said: Any) -> tuple[ActorName, Any]:
    """The part of an actor that has the connection of a ``Send``, ``Hangup`` or ``LinkDown``, and the fact with the
    peer's plain name.
    """
    path, peer = path_and_peer(said[0])
    return (part_on(actor, path), said._replace(**{said._fields[0]: peer})) if path else (actor, said)


def kind_of(fact: Any) -> type:
    """The key of a fact's handlers: its type or, for a message, direction and class."""
    if isinstance(fact, Send):
        return sent(type(fact.message))
    return received(type(fact.message)) if isinstance(fact, Received) else type(fact)


def watches_the_wire(observers: Iterable[Any]) -> bool:
    """Whether at least one of these observers may want facts of the wire (``handlers_of``)."""
    return any(hasattr(observer, "handlers_of") for observer in observers)


def handlers_of(observers: Iterable[Any], kind: type) -> tuple[Handler, ...]:
    """The handlers of facts of a kind, in the order of the observers. Called once per kind, not for each fact.

    An observer with ``handlers_of(kind)`` returns its own handlers. Any other observer is shown whole facts
    (``see(seen)``): facts of wanted types (``wants(kind)``), or all facts but messages.
    """
    found: list[Handler] = []
    for observer in observers:
        if hasattr(observer, "handlers_of"):
            found += observer.handlers_of(kind)
        elif not is_of_the_wire(kind) and getattr(observer, "wants", _all)(kind):
            found.append(_shown(observer.see))
    return tuple(found)


def take_all_of(handlers: Sequence[Handler]) -> TakeAll | None:
    """The attribute ``take_all`` of an only handler, which takes several facts with less work; else None."""
    return getattr(handlers[0], "take_all", None) if len(handlers) == 1 else None


class Watching:
    """Shows facts to observers. The handlers of a kind are looked up once."""

    def __init__(self, observers: Iterable[Any]) -> None:
        self._shown_to = tuple(observers)
        self._handlers: dict[type, tuple[Handler, ...]] = {}

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        fact = seen.fact
        for handler in self._of(kind_of(fact)):
            handler(seen, fact)

    def wants(self, kind: type) -> bool:
        """Whether any observer wants facts of a kind. ``facts_of`` asks this for messages, which are in no note."""
        return bool(self._of(kind))

    def _of(self, kind: type) -> tuple[Handler, ...]:
        handlers = self._handlers.get(kind)
        if handlers is None:
            handlers = self._handlers[kind] = handlers_of(self._shown_to, kind)
        return handlers


def _shown(see: Callable[[Seen], None]) -> Handler:
    return lambda seen, _: see(seen)


def _all(_: type) -> bool:
    return True


@value
class RunStarted:
    """The first fact of a run: groups and hosts. ``members``: (host, group); ``topics``: (topic, partitions)."""

    groups: tuple[str, ...]
    members: tuple[tuple[str, str], ...]
    brokers: tuple[str, ...]
    topics: tuple[tuple[str, int], ...]


@value
class LogRecord:
    """The event of a step of a trace that ``kemu import-log`` made: a record of a log.

    ``line`` is the first line of the record, ``kind`` its kind in ``kemu import-log --format events``. The notes of the
    step are facts of this record. ``inferred`` names the notes that the record does not state itself. ``stated`` is the
    JSON object of the record in ``--format events``.
    """

    file: str
    line: int
    kind: str
    stated: str
    inferred: tuple[str, ...] = ()


@value
class LeadershipStated:
    """A record of a log about brokers, controllers, leaders and ISRs, with the values that the record states.

    ``kind`` is the kind of the record in ``kemu import-log --format events``. ``isr``: the ISR after the record;
    ``isr_before``: the ISR before it. ``version``: the version of the partition's state in the metadata store. A value
    that the record does not state is None.
    """

    kind: str
    topic: str | None = None
    partition: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    isr_before: tuple[int, ...] | None = None
    version: int | None = None
    why: str | None = None


@value
class MemberHostAdded:
    """A group gets a member on this host. The member did not exist at the start of the run."""

    host: str
    group: str


@value
class BrokerHostAdded:
    """The cluster gets a broker on this host, with an empty disk. The broker did not exist at the start of the run."""

    host: str


@value
class MemberReconfigured:
    """From its next life on, a member has another release ("" for the group's) or other settings ("KEY=VALUE")."""

    host: str
    profile: str
    assignors: tuple[str, ...]
    settings: tuple[str, ...]


@value
class BrokerReconfigured:
    """From its next life on, a broker has this release, and uses the protocol between brokers of the release
    ``protocol``.
    """

    host: str
    profile: str
    protocol: str


@value
class HostStarted:
    """A host's process started, with the former disk or an empty disk. ``life``: 1 for the first start."""

    host: str
    life: int
    kept_disk: bool


@value
class DiskFound:
    """The logs on the disk of a starting broker, as its process will read the logs.

    ``logs``: (log, start offset, end offset, runs of records). A run is (first offset, leader epoch, life of the
    leader's process).
    """

    host: str
    logs: tuple[tuple[str, int, int, tuple[tuple[int, int, int], ...]], ...]


@value
class HostDown:
    """A host stopped: "power" (silent), "process" (connections reset) or "closed" (a clean end)."""

    host: str
    life: int
    how: str


@value
class HostClosed:
    """A host that was asked to close has ended, ``took_us`` after the request. ``HostDown`` precedes this fact."""

    host: str
    life: int
    took_us: int


@value
class HostPaused:
    """A host is paused; its messages and timers wait."""

    host: str


@value
class HostResumed:
    """A paused host resumes with the messages and timers that waited."""

    host: str


@value
class TopicGrown:
    """A topic was created or got more partitions."""

    topic: str
    partitions: int


@value
class TopicFilled:
    """Each partition of a topic had this many records before the run, committed and of leader epoch 0."""

    topic: str
    partitions: int
    records: int

    @property
    def by_partition(self) -> tuple[int, ...]:
        """The number of records of each partition."""
        return (self.records,) * self.partitions


@value
class PartitionsFilled:
    """The partitions of a topic had these numbers of records before the run, committed and of leader epoch 0."""

    topic: str
    records: tuple[int, ...]

    @property
    def by_partition(self) -> tuple[int, ...]:
        """The number of records of each partition."""
        return self.records


@value
class RecordSizes:
    """Record sizes by topic: (topic, bytes). Reported only for runs in which sizes matter."""

    topics: tuple[tuple[str, int], ...]


@value
class TopicReplicated:
    """A topic's replicas by partition, min.insync.replicas, and permission of unclean elections."""

    topic: str
    replicas: tuple[tuple[int, ...], ...]
    min_isr: int
    unclean: bool


@value
class WarmUpEnded:
    """The warm-up ended. From now on, periodic work is at random points of its intervals, as after hours."""


@value
class FaultApplied:
    """A plan entry took effect: index in the plan, kind ("crash"), and description.

    ``links``: the pairs of hosts whose messages the entry disturbs ("" for every host; ``emulator.injection.scope``).
    ``links`` is () without a disturbed link, or if facts about hosts report the effect. ``lasts``: whether a
    ``FaultEnded`` will follow.
    """

    index: int
    kind: str
    text: str
    links: tuple[tuple[str, str], ...] = ()
    lasts: bool = False


@value
class OrderGiven:
    """Code outside of the plan carried out an action now. ``entry``: the action as an entry of a plan, in JSON."""

    entry: str


@value
class FaultEnded:
    """A lasting fault ended."""

    index: int
    kind: str


@value
class DiskTailLost:
    """A log lost its last records, flushed or not. A replica's journal keeps records up to ``end_offset``."""

    host: str
    log: str
    records: int
    end_offset: int


@value
class UnflushedLost:
    """A power cut removed records that were only in the page cache.

    ``logs``: (name, number of lost records, end offset of the rest of a replica's journal; else -1).
    """

    host: str
    logs: tuple[tuple[str, int, int], ...]


@value
class CoreHealed:
    """Only a core of the hosts is healed. The fact precedes ``Healed``, and occurs again when the core changes.

    ``core``: hosts in the core. ``away``: hosts that stay faulty. ``how``: kind of the lasting fault (``AwaySpec``).
    ``recalled``: brokers of ``AwaySpec.hosts`` that the core needs. ``unrecoverable``: a reason per partition that
    cannot recover; with such a partition, only safety is checked.
    """

    core: tuple[str, ...]
    away: tuple[str, ...]
    how: str
    recalled: tuple[str, ...]
    unrecoverable: tuple[str, ...]


@value
class Healed:
    """The plan and all its faults are over. The time for recovery begins."""


@value
class RealClientsUnchecked:
    """A checker could not judge real clients (``kemu serve``). ``unknown``: the facts that nobody can know."""

    checker: str
    unknown: str


@value
class RunEnded:
    """The last fact of a run."""

    reason: str
