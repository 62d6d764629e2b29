"""The contract of every actor: a state machine without clock, randomness or I/O.

The same events in the same order give ``step(now_us, event)`` the same effects, on any computer, in any process. The
caller passes the time. The machine returns its effects in order. The emulator performs the effects after the step: all
of them, or none if the host loses power.

Times are integer microseconds of the clock of the actor's host, which may drift from other clocks.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName

TimerKey: TypeAlias = tuple[str, ...]
"""The key of a timer, for example ("session", group, member id). A new timer replaces a timer with the same key."""

US_PER_MS = 1_000


@lru_cache(maxsize=256)
def at_least_1_ms(ms: int) -> int:
    """A client's interval in us; 0 ms becomes 1 ms, the resolution of the clock that Kafka's clients read.

    Kafka permits 0: such a timer has expired at each check by the client's loop. Source: ``Timer``,
    ``ConsumerCoordinator.maybeAutoCommitOffsetsAsync``, ``AbstractCoordinator.HeartbeatThread`` (3.4).
    """
    return max(1, ms) * US_PER_MS


US_PER_S = 1_000_000

Record: TypeAlias = tuple[bytes, bytes | None]
"""A (key, value) of a log; a value of None is a tombstone."""


# --- events --------------------------------------------------------------------------------------------------------


class Received(NamedTuple):
    """A request, or the reply to a request of this machine; a reply has the ``request_id`` of its request.

    A reply has the ``connection`` and ``version`` of its request; see ``Caller``.
    """

    peer: ActorName
    connection: int
    request_id: int
    version: int
    message: Any


class LinkDown(NamedTuple):
    """The broken connection to ``peer``: no request in flight on the connection will be answered."""

    peer: ActorName


class TimerFired(NamedTuple):
    """A due timer of this machine. Stopped or replaced timers never fire."""

    key: TimerKey


class Appended(NamedTuple):
    """The end of an append or write with this token: done (error NONE) or failed.

    A done append is durable. ``base_offset`` is the offset of the first record, in the log that was appended last.
    """

    token: int
    error: ErrorCode
    base_offset: int


class Loaded(NamedTuple):
    """The records of one log on disk at the start of the process (before ``Start``)."""

    log: str
    records: tuple[Record, ...]


class Told(NamedTuple):
    """A command from outside the protocol (``protocol.commands``)."""

    command: Any


Event: TypeAlias = Received | LinkDown | TimerFired | Appended | Loaded | Told


# --- effects -------------------------------------------------------------------------------------------------------


class Send(NamedTuple):
    """A request or a reply. A request has ``connection`` 0: the emulator opens a connection to ``to`` if necessary."""

    to: ActorName
    connection: int
    request_id: int
    version: int
    message: Any


class Hangup(NamedTuple):
    """Close the connection to ``peer``, as Kafka's client does after a request timeout. No LinkDown follows."""

    peer: ActorName


class StartTimer(NamedTuple):
    """Fire ``key`` after this time by this host's clock, unless the timer is stopped or started again."""

    key: TimerKey
    after_us: int


class StopTimer(NamedTuple):
    """Stop the timer ``key``, if it runs."""

    key: TimerKey


class Append(NamedTuple):
    """Append records to a log and flush the log. ``Appended(token, ...)`` follows when all records are on disk.

    Appends of one step to several logs may have the same token; one ``Appended`` follows the last of these appends.
    """

    log: str
    records: tuple[Record, ...]
    token: int


class WriteOnly(NamedTuple):
    """Append records to a log, in the page cache. ``Appended(token, ...)`` follows when the records are written.

    A crash of the process loses none of the records. A power failure loses records that neither a flush nor the system
    has written to disk.
    """

    log: str
    records: tuple[Record, ...]
    token: int


class Flush(NamedTuple):
    """Write a log's records from the page cache to disk. No event follows."""

    log: str


class Note(NamedTuple):
    """A fact for observers (``protocol.notes``).

    ``part``: the part of this machine that reports the fact; "": the machine itself.
    """

    fact: Any
    part: str = ""


Effect: TypeAlias = Send | Hangup | StartTimer | StopTimer | Append | Note | WriteOnly | Flush


class Caller(NamedTuple):
    """The address of the reply to a parked request."""

    actor: ActorName
    connection: int
    request_id: int
    version: int


class Chance(Protocol):
    """A machine's own random stream, passed to its constructor (used mainly for backoff jitter)."""

    def below(self, bound: int) -> int:
        """A random whole number from 0 to ``bound - 1``."""
        ...


class Timers(Protocol):
    """The interface of a machine's timers for its parts."""

    def start_timer(self, key: TimerKey, after_us: int) -> None:
        """Start a timer, or start it again."""
        ...

    def stop_timer(self, key: TimerKey) -> None:
        """Stop a timer."""
        ...


EARLY_THREAD = "early"
"""A thread of this name runs before the other threads of its process, when the process resumes after a pause."""


class Draws(Protocol):
    """Draws of one process, which vary as in production (``protocol.draws``); passed to the constructor."""

    def us(self, name: DrawName, calm_us: int, of_us: int = 0, at_us: int = -1) -> int:
        """The next duration of this name; a drawn share is a share of ``of_us``.

        Returns ``calm_us`` if the name is not drawn. ``at_us``: the present time, for a duration that partly depends on
        the load of the computer at that time.
        """
        ...

    def identity(self, readable: str) -> str:
        """The next random UUID as text; ``readable`` if identities are not drawn."""
        ...


_new = tuple.__new__
"""A function that makes a named tuple without calling a Python function: every step makes several named tuples."""


class Machine:
    """The base of all actors, which collects the effects of a step. Subclasses implement ``handle`` and call the verbs.

    A machine's parts (a group, a fetcher) call the verbs of their machine; only the machine has steps.
    """

    def __init__(self, name: ActorName) -> None:
        self.name = name
        self.now_us = 0
        self._effects: list[Effect] = []
        self._last_request_id = 0
        self.finished = False
        """Whether the machine ended by itself (a clean close), so that its process ends with this step."""

    def step(self, now_us: int, event: Event) -> Sequence[Effect]:
        """Process one event and return its effects in order. ``now_us`` never decreases."""
        assert now_us >= self.now_us, f"{self.name}: time went from {self.now_us} back to {now_us}"
        self.now_us = now_us
        effects: list[Effect] = []
        self._effects = effects
        self.handle(event)
        return effects

    def handle(self, event: Event) -> None:
        """Process an event: subclasses have one flat ``match`` with the decisions of their role."""
        raise NotImplementedError

    def thread_of(self, what: str) -> str:
        """The thread that a timer (by the first word of its key), a peer or a command ("") wakes.

        Returns "" if the process has one thread.
        """
        return ""

    # --- verbs -------------------------------------------------------------------------------------------------

    def request(self, to: ActorName, message: object, version: int) -> int:
        """Send a request to ``to``. Returns the request's id, which is also the reply's id."""
        self._last_request_id = request_id = self._last_request_id + 1
        self._effects.append(_new(Send, (to, 0, request_id, version, message)))
        return request_id

    def new_request_id(self) -> int:
        """The id of a request that is sent later (``request_as``)."""
        self._last_request_id += 1
        return self._last_request_id

    def request_as(self, request_id: int, to: ActorName, message: object, version: int) -> None:
        """Send a request under an id from ``new_request_id``."""
        self._effects.append(Send(to, 0, request_id, version, message))

    def reply(self, caller: Caller | Received, message: object) -> None:
        """Answer a request, in the version of that request."""
        peer, connection, request_id, version = caller[:4]
        self._effects.append(_new(Send, (peer, connection, request_id, version, message)))

    def hang_up(self, peer: ActorName) -> None:
        """Close the connection to ``peer``."""
        self._effects.append(Hangup(peer))

    def start_timer(self, key: TimerKey, after_us: int) -> None:
        """Start a timer, or start it again. A delay of 0 or less fires at once, as a separate event."""
        self._effects.append(_new(StartTimer, (key, after_us if after_us > 0 else 0)))

    def stop_timer(self, key: TimerKey) -> None:
        """Stop a timer."""
        self._effects.append(_new(StopTimer, (key,)))

    def append(self, log: str, records: tuple[Record, ...], token: int) -> None:
        """Append records to a log of this host and flush the log; ``Appended`` follows."""
        self._effects.append(_new(Append, (log, records, token)))

    def write_only(self, log: str, records: tuple[Record, ...], token: int) -> None:
        """Append records to a log of this host; ``Appended`` follows. A later flush makes the records durable."""
        self._effects.append(_new(WriteOnly, (log, records, token)))

    def flush(self, log: str) -> None:
        """Flush a log of this host."""
        self._effects.append(Flush(log))

    def note(self, fact: object) -> None:
        """Report a fact."""
        self._effects.append(_new(Note, (fact, "")))


def caller_of(event: Received) -> Caller:
    """The address for a later reply to this request."""
    return _new(Caller, event[:4])
