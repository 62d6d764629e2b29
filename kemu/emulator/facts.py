"""What the world itself reports, beside the machines' notes: hosts, faults, the phases of a run.

Together with ``protocol.notes`` and the messages that cross the wire (``sent``, ``received``) these are all that
checkers, metrics and transcripts see of a run, live or recorded.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.protocol.names import ActorName, part_on, path_and_peer
from kemu.protocol.wire.values import value


class Seen(NamedTuple):
    """One fact, where and when: ``seq`` is the step it belongs to, ``at_us`` the world's time (not a host's clock).

    ``actor`` is "" for facts of the world; ``life`` counts the starts of the actor's host (1 = first).
    """

    seq: int
    at_us: int
    actor: str
    life: int
    fact: Any


Handler: TypeAlias = Callable[[Seen, Any], None]
"""Takes one fact, as ``handler(seen, seen.fact)``."""


# --- the wire --------------------------------------------------------------------------------------------------------


class OnTheWire:
    """Base of the kinds of facts that ``sent`` and ``received`` make."""


_KINDS: dict[tuple[str, type], type] = {}


def sent(message: type) -> type:
    """The kind of fact "an actor sent a message of this class".

    The fact is the ``Send``; ``Seen.actor`` is the sender: the part with the connection, if it is a part of an actor.
    A request's ``connection`` is 0, its reply carries its ``request_id``. A message that the network loses was sent.
    Fields that its version does not carry are not to be read: what is received has their defaults.
    """
    return _kind("Sent", message)


def received(message: type) -> type:
    """The kind of fact "an actor received a message of this class": the ``Received``, as ``sent``."""
    return _kind("Received", message)


def _kind(way: str, message: type) -> type:
    found = _KINDS.get((way, message))
    if found is None:
        found = _KINDS[way, message] = type(way + message.__name__, (OnTheWire,), {})
    return found


def is_of_the_wire(kind: type) -> bool:
    """Whether facts of this kind are on the wire: only who asks for them by their kind is shown them."""
    return issubclass(kind, (OnTheWire, Hangup, LinkDown))


def of_part(actor: ActorName, said: Any) -> tuple[ActorName, Any]:
    """Which part of an actor has the connection that a ``Send``, ``Hangup`` or ``LinkDown`` is about, and what it is
    to that part, which calls its peer by the peer's own name.
    """
    path, peer = path_and_peer(said[0])
    return (part_on(actor, path), said._replace(**{said._fields[0]: peer})) if path else (actor, said)


def kind_of(fact: Any) -> type:
    """The key by which handlers are found: the fact's type; for a message, its direction and its class."""
    if isinstance(fact, Send):
        return sent(type(fact.message))
    return received(type(fact.message)) if isinstance(fact, Received) else type(fact)


def watches_the_wire(observers: Iterable[Any]) -> bool:
    """Whether any of these may want facts of the wire (``handlers_of``)."""
    return any(hasattr(observer, "handlers_of") for observer in observers)


def handlers_of(observers: Iterable[Any], kind: type) -> tuple[Handler, ...]:
    """What takes facts of a kind, in the order of those who watch: asked once a kind, not with every fact.

    An observer says itself which methods take them (``handlers_of(kind)``), or is shown them whole (``see(seen)``):
    those of the types it wants (``wants(kind)``), all but messages if it does not say.
    """
    found: list[Handler] = []
    for observer in observers:
        if hasattr(observer, "handlers_of"):
            found += observer.handlers_of(kind)
        elif not is_of_the_wire(kind) and getattr(observer, "wants", _all)(kind):
            found.append(_shown(observer.see))
    return tuple(found)


def _shown(see: Callable[[Seen], None]) -> Handler:
    return lambda seen, _: see(seen)


def _all(_: type) -> bool:
    return True


@value
class RunStarted:
    """First fact of a run: what is in it. ``members``: (host, group); ``topics``: (topic, partitions)."""

    groups: tuple[str, ...]
    members: tuple[tuple[str, str], ...]
    brokers: tuple[str, ...]
    topics: tuple[tuple[str, int], ...]


@value
class MemberHostAdded:
    """A group gets a member that was not there at the start: this host."""

    host: str
    group: str


@value
class BrokerHostAdded:
    """The cluster gets a broker that was not there at the start: this host, with an empty disk."""

    host: str


@value
class MemberReconfigured:
    """From its next life on a member is another release ("" = its group's), or is set otherwise ("KEY=VALUE")."""

    host: str
    profile: str
    assignors: tuple[str, ...]
    settings: tuple[str, ...]


@value
class BrokerReconfigured:
    """From its next life on a broker is this release, and speaks this one's protocol to the others."""

    host: str
    profile: str
    protocol: str


@value
class HostStarted:
    """A host's process runs (first start or restart); with its disk as it was, or an empty one."""

    host: str
    life: int
    kept_disk: bool


@value
class DiskFound:
    """What lies on the disk of a broker that starts: all its logs of partitions, as its process will read them.

    ``logs``: (log, its start, its end, (first offset, leader epoch, life of the leader's process) of each run of it).
    """

    host: str
    logs: tuple[tuple[str, int, int, tuple[tuple[int, int, int], ...]], ...]


@value
class HostDown:
    """A host is gone: "power" (silent), "process" (connections reset) or "closed" (it ended by itself)."""

    host: str
    life: int
    how: str


@value
class HostClosed:
    """A host ended that was asked to close, so long after it was asked (``HostDown`` came before)."""

    host: str
    life: int
    took_us: int


@value
class HostPaused:
    """A host stands still; mail and timers wait."""

    host: str


@value
class HostResumed:
    """A paused host goes on with what waited."""

    host: str


@value
class TopicGrown:
    """A topic has more partitions now (or exists since now)."""

    topic: str
    partitions: int


@value
class TopicFilled:
    """Each partition of a topic had so many records in its log, committed and of leader epoch 0, before the run."""

    topic: str
    partitions: int
    records: int


@value
class RecordSizes:
    """How large the records of topics are: (topic, bytes). Said where bytes matter."""

    topics: tuple[tuple[str, int], ...]


@value
class TopicReplicated:
    """A topic's replicas by partition, and its promise: min in-sync replicas, with or without unclean elections."""

    topic: str
    replicas: tuple[tuple[int, ...], ...]
    min_isr: int
    unclean: bool


@value
class FaultApplied:
    """An entry of the plan took effect: its index in the plan, its kind ("crash"), what it did in words.

    ``links``: the pairs of hosts whose messages or work it hits ("" = every host; ``emulator.injection.scope``); () if
    it hits none, or hits hosts whose own facts tell it. ``lasts``: it goes on until ``FaultEnded``.
    """

    index: int
    kind: str
    text: str
    links: tuple[tuple[str, str], ...] = ()
    lasts: bool = False


@value
class FaultEnded:
    """A fault that lasts is over."""

    index: int
    kind: str


@value
class DiskTailLost:
    """A log lost its last records, flushed or not; a replica's journal has records up to ``end_offset`` left."""

    host: str
    log: str
    records: int
    end_offset: int


@value
class UnflushedLost:
    """A power cut took what was in the page cache only.

    ``logs``: (name, how many of its records, the end offset of what is left of a replica's journal; else -1).
    """

    host: str
    logs: tuple[tuple[str, int, int], ...]


@value
class CoreHealed:
    """With ``Healed``, just before it: a core alone is healed; again if that changes. ``core``, ``away``: who.

    ``how``: they stay away (``AwaySpec``); ``recalled``: brokers that were to stay away and are needed;
    ``unrecoverable``: why the core cannot get well all the same, a text for each partition; only safety counts then.
    """

    core: tuple[str, ...]
    away: tuple[str, ...]
    how: str
    recalled: tuple[str, ...]
    unrecoverable: tuple[str, ...]


@value
class Healed:
    """The plan is over and every fault with it: from now on the liveness bounds run."""


@value
class RunEnded:
    """Last fact of a run."""

    reason: str
