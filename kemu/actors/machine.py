"""What every actor is: a state machine without clock, chance or I/O.

The contract: ``step(now_us, event)`` with the same events in the same order gives the same effects, on any machine, in
any process. A machine is told the time, never asks for it; what it wants done it returns as effects, in order; the
world performs them after the step, all or (when the host loses power) none.

Times are integer microseconds of the actor's own host's clock, which may drift from the others'.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName

TimerKey: TypeAlias = tuple[str, ...]
"""("session", group, member id) and the like. Starting a key that runs replaces it."""

US_PER_MS = 1_000


def at_least_1_ms(ms: int) -> int:
    """A client's interval in us; 0 ms is 1 ms, the step of the clock that Kafka's clients read.

    Kafka permits 0: the timer has expired whenever the client's loop looks at it. Source: ``Timer``,
    ``ConsumerCoordinator.maybeAutoCommitOffsetsAsync``, ``AbstractCoordinator.HeartbeatThread`` (3.4).
    """
    return max(1, ms) * US_PER_MS


US_PER_S = 1_000_000

Record: TypeAlias = tuple[bytes, bytes | None]
"""A (key, value) of a log; a None value is a tombstone."""


# --- events --------------------------------------------------------------------------------------------------------


class Received(NamedTuple):
    """A request, or the reply to one of ours (then ``request_id`` is ours).

    ``connection`` and ``version`` are what a reply to it must carry; see ``Caller``.
    """

    peer: ActorName
    connection: int
    request_id: int
    version: int
    message: Any


class LinkDown(NamedTuple):
    """The connection to ``peer`` broke: of our requests in flight to it, none will be answered any more."""

    peer: ActorName


class TimerFired(NamedTuple):
    """A timer we started is due. Never one that was stopped or replaced."""

    key: TimerKey


class Appended(NamedTuple):
    """The append with this token is durable, or the write is done (error NONE), or failed; where its records stand."""

    token: int
    error: ErrorCode
    base_offset: int


class Loaded(NamedTuple):
    """What the disk held of one log when the process started (before ``Start``)."""

    log: str
    records: tuple[Record, ...]


class Told(NamedTuple):
    """A command from outside the protocol (``protocol.commands``)."""

    command: Any


Event: TypeAlias = Received | LinkDown | TimerFired | Appended | Loaded | Told


# --- effects -------------------------------------------------------------------------------------------------------


class Send(NamedTuple):
    """A request (``connection`` 0: over our connection to ``to``, opened if there is none) or a reply."""

    to: ActorName
    connection: int
    request_id: int
    version: int
    message: Any


class Hangup(NamedTuple):
    """Close our connection to ``peer`` (Kafka's client does so when a request times out). No LinkDown follows here."""

    peer: ActorName


class StartTimer(NamedTuple):
    """Fire ``key`` after this long by this host's clock, unless stopped or started again."""

    key: TimerKey
    after_us: int


class StopTimer(NamedTuple):
    """Forget ``key``; no harm if it does not run."""

    key: TimerKey


class Append(NamedTuple):
    """Write records to the end of a log and flush it; ``Appended(token, ...)`` tells when all of it is on the disk."""

    log: str
    records: tuple[Record, ...]
    token: int


class WriteOnly(NamedTuple):
    """Write records to the end of a log, into the page cache; ``Appended(token, ...)`` tells when that is done.

    A process that dies loses none of them; a power cut those that neither a flush nor the system has written back.
    """

    log: str
    records: tuple[Record, ...]
    token: int


class Flush(NamedTuple):
    """Put on the disk what a log's writes left in the page cache. Nobody waits for it."""

    log: str


class Note(NamedTuple):
    """A fact for those who watch (``protocol.notes``); ``part``: of which machine inside this one, "" = its own."""

    fact: Any
    part: str = ""


Effect: TypeAlias = Send | Hangup | StartTimer | StopTimer | Append | Note | WriteOnly | Flush


class Caller(NamedTuple):
    """Whom a parked request will be answered to."""

    actor: ActorName
    connection: int
    request_id: int
    version: int


class Chance(Protocol):
    """A machine's own stream of chance, handed in at construction (rarely needed: backoff jitter)."""

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound - 1``."""
        ...


class Timers(Protocol):
    """Whose timers can be started and stopped: a machine, or how its parts see it."""

    def start_timer(self, key: TimerKey, after_us: int) -> None:
        """(Re)start a timer."""
        ...

    def stop_timer(self, key: TimerKey) -> None:
        """Forget a timer."""
        ...


class Draws(Protocol):
    """A life's own draws of what differs in production (``protocol.draws``), handed in at construction."""

    def us(self, name: DrawName, calm_us: int, of_us: int = 0) -> int:
        """The next span of this name (of a share: so much of ``of_us``); ``calm_us`` where it is not drawn."""
        ...


_new = tuple.__new__
"""Makes a named tuple without the call of a Python function: several are made in every step."""


class Machine:
    """Base of all actors: collects the effects of a step. Subclasses implement ``handle`` and use the verbs.

    A machine's parts (a group, a fetcher) get the machine as the place to speak through; only the machine steps.
    """

    def __init__(self, name: ActorName) -> None:
        self.name = name
        self.now_us = 0
        self._effects: list[Effect] = []
        self._last_request_id = 0
        self.finished = False
        """Set by a machine that ended by itself (a clean close): its process ends with this step."""

    def step(self, now_us: int, event: Event) -> Sequence[Effect]:
        """Take one event; the effects, in the order they are to be performed. ``now_us`` never goes back."""
        assert now_us >= self.now_us, f"{self.name}: time went from {self.now_us} back to {now_us}"
        self.now_us = now_us
        effects: list[Effect] = []
        self._effects = effects
        self.handle(event)
        return effects

    def handle(self, event: Event) -> None:
        """One flat ``match`` over the events: the decisions of this role."""
        raise NotImplementedError

    # --- verbs -------------------------------------------------------------------------------------------------

    def request(self, to: ActorName, message: object, version: int) -> int:
        """Send a request over our connection to ``to``; its id, which the reply will carry."""
        self._last_request_id = request_id = self._last_request_id + 1
        self._effects.append(_new(Send, (to, 0, request_id, version, message)))
        return request_id

    def new_request_id(self) -> int:
        """The id of a request that is sent later (``request_as``)."""
        self._last_request_id += 1
        return self._last_request_id

    def request_as(self, request_id: int, to: ActorName, message: object, version: int) -> None:
        """Send a request whose id was given before."""
        self._effects.append(Send(to, 0, request_id, version, message))

    def reply(self, caller: Caller | Received, message: object) -> None:
        """Answer a request, in the version it came in."""
        peer, connection, request_id, version = caller[:4]
        self._effects.append(_new(Send, (peer, connection, request_id, version, message)))

    def hang_up(self, peer: ActorName) -> None:
        """Close our connection to ``peer``."""
        self._effects.append(Hangup(peer))

    def start_timer(self, key: TimerKey, after_us: int) -> None:
        """(Re)start a timer; 0 or less fires at once, as an event of its own."""
        self._effects.append(_new(StartTimer, (key, after_us if after_us > 0 else 0)))

    def stop_timer(self, key: TimerKey) -> None:
        """Forget a timer."""
        self._effects.append(_new(StopTimer, (key,)))

    def append(self, log: str, records: tuple[Record, ...], token: int) -> None:
        """Write to a log of this host, flush it, and hear of it."""
        self._effects.append(_new(Append, (log, records, token)))

    def write_only(self, log: str, records: tuple[Record, ...], token: int) -> None:
        """Write to a log of this host, and hear of it; it is flushed some time."""
        self._effects.append(_new(WriteOnly, (log, records, token)))

    def flush(self, log: str) -> None:
        """Flush a log of this host."""
        self._effects.append(Flush(log))

    def note(self, fact: object) -> None:
        """Report a fact."""
        self._effects.append(_new(Note, (fact, "")))


def caller_of(event: Received) -> Caller:
    """What to keep of a request that is answered later."""
    return _new(Caller, event[:4])
