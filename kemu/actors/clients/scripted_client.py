"""A scripted client: a real client's recorded conversation, repeated in a run without sockets (``kemu scriptify``).

The machine opens the connections and sends the requests of its script, with the values of this run
(``counterparts``). It reports about its group members as the real client did (``real_client``).

**Time.** A request is sent at its recorded time, but not before the answers that preceded it in the recording. These
are the answers of its connection, and the answers of the client's other connections except answers to Fetch, Produce,
Heartbeat and OffsetCommit. An answer that comes more than ``ON_TIME_US`` after its recorded time delays the later
requests of the client by the same time. A late answer to one of the four delays only its connection.

**Departures.** If an answer has another error than in the recording, ``_verdict`` decides:

- After NOT_COORDINATOR and errors about leaders, the client looks up the coordinator or the leaders, and sends the
  request again. So does a client whose connection broke, or that got no answer within ``ANSWERED_WITHIN_US``.
- A JoinGroup with UNKNOWN_MEMBER_ID is repeated, and gets a new member id.
- A Heartbeat that does not report the recorded rebalance is repeated until it does.
- If the recorded error is gone, the client continues, as after REBALANCE_IN_PROGRESS on Heartbeat and OffsetCommit.
- Any other error ends the script: the client closes its connections, as if its process had ended.

Lookups and repetitions of one request end the script after ``FOLLOWED_FOR_US``.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from kemu.actors.clients.counterparts import Counterparts, Departed, merged
from kemu.actors.clients.real_client import ClientMemory, RealClient, RealConnection
from kemu.actors.clients.script import (
    ABOUT_PARTITIONS,
    ROWS,
    Script,
    ScriptAsks,
    ScriptCloses,
    ScriptOpens,
    ScriptStep,
    errors_in,
)
from kemu.actors.machine import Event, LinkDown, Received, TimerFired, Told
from kemu.protocol.commands import AskOn, CloseConnection, OpenConnection, Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages import data, group
from kemu.protocol.messages.negotiation import ApiVersions
from kemu.protocol.names import ActorName, part_on
from kemu.protocol.notes.groups import ScriptDeparted, ScriptEnded
from kemu.protocol.wire.codec import seal
from kemu.protocol.wire.schema import SPECS

ON_TIME_US = 50_000
"""An answer that is at most so much later than in the recording delays no request of another connection."""
ANSWERED_WITHIN_US = 30_000_000
"""A request fails so long after its recorded answer (``request.timeout.ms`` of Kafka's clients)."""
AGAIN_US = 100_000
"""Time between two attempts (``retry.backoff.ms``)."""
FOLLOWED_FOR_US = 60_000_000
"""Longest time of attempts for one request (``default.api.timeout.ms``)."""

SEND, AGAIN, OVERDUE = "script", "again", "overdue"
SAME, CONTINUES, REPEATS, LOOKS_UP, STOPS = "", "continues", "repeats", "looks up", "stops"
_ORDER = (SAME, CONTINUES, REPEATS, LOOKS_UP, STOPS)
_NO_ANSWER = "no answer"
_E = ErrorCode
_MOVED = (
    _E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE, _E.COORDINATOR_LOAD_IN_PROGRESS, _E.NOT_LEADER_OR_FOLLOWER,
    _E.LEADER_NOT_AVAILABLE, _E.REPLICA_NOT_AVAILABLE, _E.FENCED_LEADER_EPOCH, _E.UNKNOWN_LEADER_EPOCH,
    _E.OFFSET_NOT_AVAILABLE, _E.KAFKA_STORAGE_ERROR, _E.NOT_ENOUGH_REPLICAS, _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    _E.REQUEST_TIMED_OUT, _E.UNKNOWN_TOPIC_OR_PARTITION, _E.FETCH_SESSION_ID_NOT_FOUND, _E.INVALID_FETCH_SESSION_EPOCH,
)  # fmt: skip
"""Errors after which a client looks up where to send the request."""
_NEW_ID = (_E.UNKNOWN_MEMBER_ID, _E.MEMBER_ID_REQUIRED)
"""Errors after which a member joins with the member id of the answer; "" asks for a new one."""
_ABOUT_CLUSTER = (
    data.Metadata, ApiVersions, group.DescribeGroups, group.ListGroups, group.DeleteGroups, group.OffsetDelete
)  # fmt: skip
"""Requests whose errors change nothing for the client's later requests."""
FIND_VERSION, METADATA_VERSION = 2, 7


class _Attempt:
    """One attempt to send a step's request: its parts for several leaders, and their answers."""

    def __init__(self, number: int, step: ScriptAsks, parts: int, is_again: bool) -> None:
        self.number = number
        self.step = step
        self.missing = parts
        self.is_again = is_again
        self.answers: list[tuple[ActorName, Any]] = []


class _Line:
    """The script of one connection."""

    def __init__(self, connection: str) -> None:
        self.connection = connection
        self.steps: deque[tuple[int, ScriptStep]] = deque()
        """(Number of the step, step) of steps that are not sent yet."""
        self.client_id: str | None = None
        """The client id of the open connection; None while it is closed."""
        self.late_us = 0
        """Delay of this connection's steps, in addition to the client's delay."""
        self.due_us = -1
        """Time of the running timer."""
        self.overdue_us = -1
        """Time of the running timer for requests without an answer."""
        self.waiting: dict[int, _Attempt] = {}
        """Number of a step -> the attempt whose answer must come."""
        self.failed: deque[tuple[int, ScriptAsks, str]] = deque()
        """(Number, step, REPEATS or LOOKS_UP) of requests to send again, the oldest first."""
        self.since_us = -1
        """Time of the first failure of the oldest failed request; -1 without a failed request."""


class ScriptState:
    """The state of a script. It outlives the lives of the client's host, because the process of a real client is
    outside of the emulation.

    Args:
        script: the steps of the client.
        brokers: the initial brokers of the run.
    """

    def __init__(self, script: Script, brokers: Sequence[str]) -> None:
        self.counterparts = Counterparts(brokers)
        self.late_us = 0
        """Delay of all steps behind their recorded times."""
        self.left = len(script)
        """Number of steps that are not done."""
        self.departures = 0
        self.lookups = 0
        self.lines: dict[str, _Line] = {}
        """Connection -> its script, until the end of the connection."""
        self.settled = [False] * len(script)
        """Whether a step's answer has come, by the number of the step."""
        self._needed: list[tuple[int, int]] = []
        """For each step: the last answered step of its connection, or -1, and the number of answered setup steps."""
        self._setup: list[int] = []
        """Steps whose answers all later steps wait for, in the order of the recorded answers."""
        self._setup_done = 0
        self._prepare(script)

    def _prepare(self, script: Script) -> None:
        asks = [(number, step) for number, step in enumerate(script) if isinstance(step, ScriptAsks)]
        answered = sorted(
            [(step.answered_us, number, step) for number, step in asks if step.answered_us >= 0],
            key=lambda row: row[:2],
        )
        last_of: dict[str, int] = {}
        at = 0
        for number, step in enumerate(script):
            while at < len(answered) and answered[at][0] < step.at_us:
                _, done, asked = answered[at]
                last_of[asked.connection] = done
                if asked.is_setup:
                    self._setup.append(done)
                at += 1
            self._needed.append((last_of.get(step.connection, -1), len(self._setup)))
            self.lines.setdefault(step.connection, _Line(step.connection)).steps.append((number, step))

    def is_free(self, number: int) -> bool:
        """Whether the answers that a step waits for have come."""
        here, setup = self._needed[number]
        while self._setup_done < len(self._setup) and self.settled[self._setup[self._setup_done]]:
            self._setup_done += 1
        return (here < 0 or self.settled[here]) and self._setup_done >= setup


class _Flight(NamedTuple):
    """A request without an answer: receiver, deadline (-1: none), and the function that takes the answer or None."""

    to: ActorName
    deadline_us: int
    answered: Callable[[Any], None]


@frozen
class _HangUpOn:
    """The client of a connection closes the connection to a peer."""

    peer: ActorName


class ScriptedConnection(RealConnection):
    """One TCP connection of a scripted client."""

    def __init__(self, name: ActorName, connection: str, client: "ScriptedClient") -> None:
        super().__init__(name, connection, client)
        self._scripted = client
        self.flights: dict[int, _Flight] = {}

    def expect(self, to: ActorName, deadline_us: int, answered: Callable[[Any], None]) -> None:
        """Call ``answered`` with the answer to the next request, or with None after the end of the connection."""
        self.flights[self._last_request_id + 1] = _Flight(to, deadline_us, answered)

    def handle(self, event: Event) -> None:
        """Send requests, and queue answers for the client."""
        match event:
            case Told(command=_HangUpOn(peer=peer)):
                self.hang_up(peer)
                event = LinkDown(peer)
            case _:
                pass
        super().handle(event)
        match event:
            case Received(request_id=number, message=answer) if number in self.flights:
                self._scripted.news.append((self.flights.pop(number).answered, answer))
            case LinkDown(peer=peer):
                for number in [number for number, flight in self.flights.items() if flight.to == peer]:
                    self._scripted.news.append((self.flights.pop(number).answered, None))
            case _:
                pass


class ScriptedClient(RealClient):
    """The machine of a scripted client's host.

    Args:
        memory, talk: the same for all lives of the host.
    """

    def __init__(self, name: ActorName, memory: ClientMemory, talk: ScriptState) -> None:
        super().__init__(name, memory)
        self._talk = talk
        self.news: deque[tuple[Callable[[Any], None], Any]] = deque()
        """Answers that the connections have received in this step, with the functions that take them."""

    def connection(self, name: str) -> RealConnection:
        """A new connection."""
        return ScriptedConnection(part_on(self.name, name), name, self)

    def handle(self, event: Event) -> None:
        """Repeat the script."""
        match event:
            case Told(command=Start()):
                self._begin()
            case TimerFired(key=(kind, connection)) if kind in (SEND, AGAIN, OVERDUE):
                line = self._talk.lines.get(connection)
                if line is not None:
                    {SEND: self._due, AGAIN: self._again, OVERDUE: self._overdue}[kind](line)
            case _:
                super().handle(event)
        while self.news:
            answered, answer = self.news.popleft()
            answered(answer)

    def _begin(self) -> None:
        """Begin; after the end of an earlier life, open the connections again, and repeat unanswered requests."""
        for line in self._talk.lines.values():
            line.due_us = line.overdue_us = -1
            if line.client_id is not None:
                self._open(line, line.client_id)
                for attempt in line.waiting.values():
                    line.failed.append((attempt.number, attempt.step, LOOKS_UP))
                line.waiting.clear()
                self._follow(line)
        self._advance_all()

    # --- steps -----------------------------------------------------------------------------------------------------

    def _advance_all(self) -> None:
        for line in list(self._talk.lines.values()):
            self._advance(line)

    def _due(self, line: _Line) -> None:
        line.due_us = -1
        self._advance(line)

    def _advance(self, line: _Line) -> None:
        """Do the next steps of a connection that are due; start a timer for the first step that is not."""
        talk = self._talk
        while line.steps and not line.failed and line.connection in talk.lines:
            number, step = line.steps[0]
            if not talk.is_free(number):
                return
            due_us = step.at_us + talk.late_us + line.late_us
            if due_us > self.now_us:
                if line.due_us != due_us:
                    line.due_us = due_us
                    self.start_timer((SEND, line.connection), due_us - self.now_us)
                return
            line.steps.popleft()
            match step:
                case ScriptOpens(client_id=client_id):
                    self._open(line, client_id)
                    self._done(1)
                case ScriptCloses():
                    self._close(line)
                    self._done(1)
                case _:
                    self._send(line, number, step)

    def _open(self, line: _Line, client_id: str) -> None:
        line.client_id = client_id
        super().handle(Told(OpenConnection(connection=line.connection, client_id=client_id)))

    def _close(self, line: _Line) -> None:
        line.client_id = None
        super().handle(Told(CloseConnection(connection=line.connection)))
        for kind in (SEND, AGAIN, OVERDUE):
            self.stop_timer((kind, line.connection))
        for number in line.waiting:
            self._talk.settled[number] = True
        self._talk.lines.pop(line.connection, None)
        self._done(len(line.waiting) + len(line.steps))

    def _done(self, steps: int) -> None:
        talk = self._talk
        if steps and talk.left:
            talk.left -= steps
            if not talk.left:
                self.note(ScriptEnded(departures=talk.departures))

    def _send(self, line: _Line, number: int, step: ScriptAsks, *, is_again: bool = False, to: str = "") -> None:
        """Send the request of a step; ``to``: a broker in place of the recorded broker."""
        try:
            outgoing = self._talk.counterparts.requests_for(step)
        except Departed as departed:
            self._departs(line, step, "", str(departed), STOPS)
            return
        attempt = _Attempt(number, step, len(outgoing), is_again)
        expects = step.answered_us >= 0
        if expects:
            line.waiting[number] = attempt
            within_us = ANSWERED_WITHIN_US + step.answered_us - step.at_us
        for out in outgoing:
            answered = partial(self._answered, line, attempt, to or out.to)
            self._ask(line, to or out.to, out.request, out.version, answered, within_us if expects else -1)
        if not expects:
            self._settle(line, number)

    def _ask(
        self,
        line: _Line,
        to: ActorName,
        message: Any,
        version: int,
        answered: Callable[[Any], None],
        within_us: int,
    ) -> None:
        connection = self.part(line.connection)
        assert isinstance(connection, ScriptedConnection)
        if not (isinstance(message, data.Produce) and message.acks == 0):
            deadline_us = self.now_us + within_us if within_us >= 0 else -1
            connection.expect(to, deadline_us, answered)
            if within_us >= 0 and line.overdue_us < 0:
                line.overdue_us = deadline_us
                self.start_timer((OVERDUE, line.connection), within_us)
        self.tell_part(line.connection, AskOn(connection=line.connection, to=to, request=seal(message, version)))

    # --- answers ---------------------------------------------------------------------------------------------------

    def _answered(self, line: _Line, attempt: _Attempt, to: ActorName, answer: Any) -> None:
        """Take an answer, or the end of the connection (None); ignore answers that the recording lacks."""
        step, number = attempt.step, attempt.number
        if line.waiting.get(number) is not attempt or line.connection not in self._talk.lines:
            return
        if answer is None:
            del line.waiting[number]
            if isinstance(step.request, ApiVersions):
                self._departs(line, step, "", _NO_ANSWER, CONTINUES)
                self._settle(line, number)
            else:
                self._failed(line, attempt, "", _NO_ANSWER, LOOKS_UP)
            return
        attempt.answers.append((to, answer))
        attempt.missing -= 1
        if attempt.missing:
            return
        del line.waiting[number]
        whole = merged([each for _, each in attempt.answers])
        verdict, then, now = compared(step.request, step.answer, whole)
        if verdict in (REPEATS, LOOKS_UP):
            if isinstance(whole, group.JoinGroupReply) and verdict == REPEATS:
                is_known = whole.error is not _E.UNKNOWN_MEMBER_ID
                self._talk.counterparts.renamed(step.request.member_id, whole.member_id if is_known else "")
            self._failed(line, attempt, then, now, verdict)
            return
        if verdict != SAME:
            self._departs(line, step, then, now, verdict)
        if verdict != STOPS:
            for place, each in attempt.answers:
                self._talk.counterparts.learn(step, place, each)
            self._is_late(line, step)
            self._settle(line, number)

    def _is_late(self, line: _Line, step: ScriptAsks) -> None:
        """Delay later steps after a late answer."""
        talk = self._talk
        late_us = self.now_us - (step.answered_us + talk.late_us + line.late_us)
        if late_us > ON_TIME_US:
            if step.is_setup:
                talk.late_us += late_us
            else:
                line.late_us += late_us

    def _settle(self, line: _Line, number: int) -> None:
        talk = self._talk
        talk.settled[number] = True
        self._done(1)
        if line.failed:
            line.since_us = self.now_us
            self._follow(line)
        else:
            line.since_us = -1
        self._advance_all()

    def _departs(self, line: _Line, step: ScriptAsks, then: str, now: str, verdict: str) -> None:
        """Report a departure from the recording; end the script if it cannot continue."""
        talk = self._talk
        talk.departures += 1
        fact = ScriptDeparted(
            request=SPECS[type(step.request)].name,
            recorded_us=step.at_us,
            recorded=then or "NONE",
            now=now,
            then=verdict,
        )
        self.note_of(line.connection, fact)
        if verdict == STOPS:
            for each in list(talk.lines.values()):
                if each.client_id is None:
                    talk.lines.pop(each.connection)
                else:
                    self._close(each)
            talk.left = 0

    # --- attempts --------------------------------------------------------------------------------------------------

    def _failed(self, line: _Line, attempt: _Attempt, then: str, now: str, verdict: str) -> None:
        """Repeat a request later."""
        row = (attempt.number, attempt.step, verdict)
        if attempt.is_again:
            line.failed.appendleft(row)
        else:
            self._departs(line, attempt.step, then, now, verdict)
            line.failed.append(row)
        if line.since_us < 0:
            line.since_us = self.now_us
        if self.now_us - line.since_us > FOLLOWED_FOR_US:
            self._departs(line, attempt.step, then, f"{now} for {FOLLOWED_FOR_US // 1_000_000} s", STOPS)
        else:
            self._follow(line)

    def _follow(self, line: _Line) -> None:
        if line.failed:
            self.start_timer((AGAIN, line.connection), AGAIN_US)

    def _again(self, line: _Line) -> None:
        """Look up where the oldest failed request belongs, and send it again."""
        if not line.failed:
            return
        number, step, verdict = line.failed[0]
        talk, request = self._talk, step.request
        brokers = talk.counterparts.known_brokers
        talk.lookups += 1
        broker = brokers[talk.lookups % len(brokers)]
        if verdict == REPEATS:
            self._resend(line, "")
        elif isinstance(request, ABOUT_PARTITIONS):
            rows = getattr(request, ROWS[type(request)])
            topics = tuple(dict.fromkeys(row.topic for row in rows))
            self._look_up(line, number, broker, data.Metadata(topics=topics), METADATA_VERSION)
        elif hasattr(request, "group"):
            self._look_up(line, number, broker, group.FindCoordinator(key=request.group), FIND_VERSION)
        else:
            self._resend(line, broker)

    def _look_up(self, line: _Line, number: int, to: ActorName, message: Any, version: int) -> None:
        self._ask(line, to, message, version, partial(self._found, line, number), ANSWERED_WITHIN_US)

    def _found(self, line: _Line, number: int, answer: Any) -> None:
        """Send a failed request again if a lookup has found its receiver."""
        if not line.failed or line.failed[0][0] != number or line.connection not in self._talk.lines:
            return
        step = line.failed[0][1]
        match answer:
            case group.FindCoordinatorReply(error=ErrorCode.NONE):
                self._talk.counterparts.found_coordinator(step.request.group, step, answer.host)
                self._resend(line, "")
            case data.MetadataReply():
                self._talk.counterparts.found_leaders(step, answer)
                self._resend(line, "")
            case _ if self.now_us - line.since_us > FOLLOWED_FOR_US:
                why = f"no broker names a receiver within {FOLLOWED_FOR_US // 1_000_000} s"
                self._departs(line, step, "", why, STOPS)
            case _:
                self._follow(line)

    def _resend(self, line: _Line, to: ActorName) -> None:
        number, step, _ = line.failed.popleft()
        self._send(line, number, step, is_again=True, to=to)

    def _overdue(self, line: _Line) -> None:
        """Close the connections whose requests are without an answer for too long."""
        line.overdue_us = -1
        connection = self.part(line.connection)
        assert isinstance(connection, ScriptedConnection)
        late = [flight.to for flight in connection.flights.values() if 0 <= flight.deadline_us <= self.now_us]
        for peer in dict.fromkeys(late):
            self.tell_part(line.connection, _HangUpOn(peer))
        deadlines = [flight.deadline_us for flight in connection.flights.values() if flight.deadline_us >= 0]
        if deadlines:
            line.overdue_us = min(deadlines)
            self.start_timer((OVERDUE, line.connection), line.overdue_us - self.now_us)


def compared(request: Any, then: Any, now: Any) -> tuple[str, str, str]:
    """The consequence of an answer (SAME without a difference), the recorded error and the present error.

    If several rows differ, the row with the gravest consequence decides.
    """
    errors_then, errors_now = errors_in(then), errors_in(now)
    found = (SAME, "", "")
    for at in {**errors_then, **errors_now}:
        old, new = errors_then.get(at, _E.NONE), errors_now.get(at, _E.NONE)
        if old is not new:
            verdict = _verdict(request, old, new)
            if _ORDER.index(verdict) > _ORDER.index(found[0]):
                found = verdict, old.name, new.name
    return found


def _verdict(request: Any, then: ErrorCode, now: ErrorCode) -> str:
    if isinstance(request, _ABOUT_CLUSTER):
        return CONTINUES
    if now in _MOVED:
        return LOOKS_UP
    if isinstance(request, group.JoinGroup) and request.member_id and now in _NEW_ID:
        return REPEATS
    if now is _E.NONE:
        return REPEATS if isinstance(request, group.Heartbeat) and then is _E.REBALANCE_IN_PROGRESS else CONTINUES
    if now is _E.REBALANCE_IN_PROGRESS and isinstance(request, group.Heartbeat | group.OffsetCommit):
        return CONTINUES
    return CONTINUES if now is _E.DUPLICATE_SEQUENCE_NUMBER else STOPS
