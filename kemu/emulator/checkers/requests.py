"""Each request gets one answer in time, or the client closes the connection.

- answered-unasked: a server answers only open requests of the same connection.
- out-of-order: a broker answers the requests of a connection in order.
- unanswered: an undisturbed server answers the first open request of a
  connection, after the time for which it may hold the request.
- waits-for-ever: a client closes the connection of an unanswered request after its request timeout (JoinGroup:
  rebalance timeout).
- gave-up-early: a broker or controller does not close a connection before this timeout.
- timed-out-early: a server answers REQUEST_TIMED_OUT only after the
  request's timeout.
- two-sessions: a connection to the store has one session.

Exempt: Fetch (see ``pace``, ``duties``), ``StoreEvents``, Produce with
acks=0, and requests within a broker's process.

Source: Kafka 3.4 ``NetworkClient``, ``SocketServer`` (mutes channels),
``DelayedOperation``, ``AbstractCoordinator.sendJoinGroupRequest``;
ZooKeeper 3.5 ``ClientCnxn``.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, Self

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, HostStarted, Seen, received, sent
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    AlterIsr,
    ControlledShutdown,
    CreatePartitionsReply,
    CreateTopicsReply,
    DeleteTopicsReply,
    ElectLeadersReply,
    IncrementalAlterConfigs,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from kemu.protocol.messages.data import DeleteRecordsReply, FetchReply, Produce, ProduceReply
from kemu.protocol.messages.group import JoinGroup, OffsetCommit, SyncGroup
from kemu.protocol.messages.ranges import RangeCommit
from kemu.protocol.messages.store import OpenSession, StoreEvents
from kemu.protocol.names import STORE, ActorName, host_of, role_of
from kemu.protocol.notes.groups import AnswerInjected, MemberRemoved
from kemu.protocol.wire.schema import MESSAGES, Kind

ANSWER_US = 10_000_000
"""Longest time of a server's answer, with earlier work queued, in us."""
QUEUE_US = 60_000_000
"""Longest time of a request in a controller's queue, or of a controller's request at a broker that creates logs, in
us."""
JOIN_MORE_US = 5_000_000
"""Additional time of a JoinGroup, in us. Source: ``AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE``."""
LOOK_US = 2_000_000
_MS = 1_000
_NEVER_US = 1 << 62
_new = tuple.__new__


def _timeout_us(request: Any) -> int:
    return max(0, getattr(request, "timeout_ms", 0)) * _MS


def _rebalance_us(request: JoinGroup) -> int:
    return max(request.rebalance_timeout_ms, request.session_timeout_ms) * _MS


OFFSETS_US = 5_000_000
"""Default of ``offsets.commit.timeout.ms``, in us."""
ANSWERS: Mapping[type, Callable[[Any], int]] = {
    Produce: _timeout_us,
    OffsetCommit: lambda request: OFFSETS_US,
    RangeCommit: lambda request: OFFSETS_US,
    AlterIsr: lambda request: QUEUE_US,
    ControlledShutdown: lambda request: QUEUE_US,
    IncrementalAlterConfigs: lambda request: QUEUE_US,
    LeaderAndIsr: lambda request: QUEUE_US,
    StopReplica: lambda request: QUEUE_US,
    UpdateMetadata: lambda request: QUEUE_US,
}
"""Type of a request -> function that returns the time for which a server may hold the request, in us. A server may hold
other requests for the timeout in the request, if any.

A JoinGroup and a SyncGroup wait for the longest rebalance timeout of the group.
"""
_error, _error_code = attrgetter("error"), attrgetter("error_code")
WITH_TIMEOUT: Mapping[type, Callable[[Any], Iterable[ErrorCode]]] = {
    ProduceReply: lambda reply: map(_error, reply.batches),
    CreateTopicsReply: lambda reply: map(_error_code, reply.topics),
    CreatePartitionsReply: lambda reply: map(_error_code, reply.topics),
    DeleteTopicsReply: lambda reply: map(_error_code, reply.topics),
    DeleteRecordsReply: lambda reply: map(_error, reply.partitions),
    ElectLeadersReply: lambda reply: map(_error_code, reply.replica_election_results),
}
"""Type of an answer to a request with its own timeout -> function that returns the errors in the answer."""


class OpenRequest(NamedTuple):
    """An open request at a server, with the time limit as the first request of its connection."""

    request_id: int
    within_us: int
    api: str
    since_us: int


class SentRequest(NamedTuple):
    """An open request of a client, with the time limit."""

    until_us: int
    api: str
    peer: ActorName
    asked_us: int
    within_us: int


class Requests(Checker):
    """Judges requests, answers and closed connections.

    Args:
        settings: the settings in force; without them nothing is judged.
    """

    name = "requests"
    unknown_of_real_clients = "its timeouts"
    kinds = (
        "answered-unasked",
        "gave-up-early",
        "out-of-order",
        "timed-out-early",
        "two-sessions",
        "unanswered",
        "waits-for-ever",
    )

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._newest: dict[tuple[ActorName, ActorName], int] = {}
        """(server, client) -> the newest connection with a request."""
        self._open: dict[tuple[ActorName, ActorName, int], list[OpenRequest]] = {}
        """(server, client, connection) -> open requests of the connection, oldest first."""
        self._sent: dict[tuple[ActorName, int], SentRequest] = {}
        """(client, request id) -> open request."""
        self._joins_us: dict[str, int] = {}
        """Group -> longest rebalance timeout of its members, in us."""
        self._syncs: dict[str, tuple[ActorName, ActorName, int]] = {}
        """Member id -> connection of the last SyncGroup, as a key of ``_open``."""
        self._got = -1
        """The last step with a received message."""
        self._injected = -1
        """The last step with an injected answer."""
        self._sessions: dict[int, None] = {}
        """Connections with a session of the store."""
        self._last_message_us: dict[ActorName, int] = {}
        """Client of the store -> time of the last message from the store, in us."""
        self._within_us: dict[tuple[ActorName, ActorName], int] = {}
        """(client, server) -> the client's time limit in us; 0 for two parts of one process."""
        self._looks_us = 0
        self._last = Seen(0, 0, "", 0, None)
        if settings is None:
            return
        self._settings = settings
        self.on = {Hangup: self._hung_up, LinkDown: self._broke, HostDown: self._down, HostStarted: self._started}
        self.on[MemberRemoved] = self._member_removed
        for (api, kind), spec in MESSAGES.items():
            if kind is Kind.REPLY and (api, Kind.REQUEST) in MESSAGES and spec.cls is not FetchReply:
                request = MESSAGES[api, Kind.REQUEST].cls
                self.on[sent(request)] = self._asks
                self.on[received(request)] = self._is_asked
                self.on[sent(spec.cls)] = self._answers
                self.on[received(spec.cls)] = self._is_answered
        self.on[received(StoreEvents)] = self._event_received
        self.on[AnswerInjected] = self._injects
        self.shown_to({sent(reply): self._times_out_as(errors) for reply, errors in WITH_TIMEOUT.items()})
        self.shown_to(settings.on)

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(settings)

    # --- clients -----------------------------------------------------------------------------------------------

    def _asks(self, seen: Seen, fact: Send) -> None:
        to, _, request_id, _, request = fact
        actor, kind = seen[2], type(request)
        within_us = self._within_us.get((actor, to))
        if within_us is None:
            within_us = self._within_us[actor, to] = self._waits_us(actor, to)
        if not within_us or (kind is Produce and not request.acks):
            return
        if kind is JoinGroup:
            within_us = max(within_us, _rebalance_us(request) + JOIN_MORE_US)
        at_us = seen[1]
        self._sent[actor, request_id] = _new(SentRequest, (at_us + within_us, kind.__name__, to, at_us, within_us))

    def _waits_us(self, client: ActorName, server: ActorName) -> int:
        if host_of(client) == host_of(server):
            return 0
        if server == STORE:
            return self._settings.controller.zookeeper_session_timeout_ms * _MS * 2 // 3
        return self._settings.request_us(client)

    def _is_answered(self, seen: Seen, fact: Received) -> None:
        self._got = seen[0]
        self._sent.pop((seen[2], fact[2]), None)
        if fact[0] == STORE:
            self._last_message_us[seen.actor] = seen.at_us
        if seen[1] >= self._looks_us:
            self._look(seen)

    def _event_received(self, seen: Seen, fact: Received) -> None:
        self._got = seen.seq
        self._last_message_us[seen.actor] = seen.at_us

    def _hung_up(self, seen: Seen, fact: Hangup) -> None:
        if role_of(seen.actor) in ("broker", "controller") and self._got != seen.seq:
            self._gave_up(seen, fact.peer)
        self._forget(seen.actor, fact.peer)

    def _gave_up(self, seen: Seen, peer: ActorName) -> None:
        """Judge a closed connection that only a timeout can have caused."""
        waiting = [each for (client, _), each in self._sent.items() if client == seen.actor and each.peer == peer]
        oldest = min(waiting, key=lambda each: each.asked_us, default=None)
        if oldest is None or any(each.api == "CloseSession" for each in waiting):
            return
        from_us = oldest.asked_us
        if peer == STORE and oldest.api != "OpenSession":
            from_us = self._last_message_us.get(seen.actor, from_us)
        if seen.at_us - from_us < oldest.within_us * 9 // 10:
            text = f"{seen.actor} closed its connection to {peer} {(seen.at_us - from_us) / 1e6:.3f} s after its"
            text += f" {oldest.api}, instead of {oldest.within_us / 1e6:.3f} s"
            self.violation(seen, "gave-up-early", (seen.actor, peer), text)

    def _broke(self, seen: Seen, fact: LinkDown) -> None:
        """Close the requests of a broken connection, because the client no longer waits and the server's answers are
        lost.
        """
        self._forget(seen.actor, fact.peer)
        for key, waiting in self._open.items():
            if key[:2] == (seen.actor, fact.peer):
                waiting[:] = [each._replace(within_us=_NEVER_US) for each in waiting]

    def _forget(self, client: ActorName, peer: ActorName) -> None:
        for key in [key for key, asked in self._sent.items() if key[0] == client and asked.peer == peer]:
            del self._sent[key]

    # --- servers -----------------------------------------------------------------------------------------------

    def _is_asked(self, seen: Seen, fact: Received) -> None:
        peer, connection, request_id, _, request = fact
        kind = type(request)
        self._got = seen[0]
        if kind is OpenSession:
            if fact.connection in self._sessions:
                text = f"{fact.peer} opened a session over a connection that had one already"
                self.violation(seen, "two-sessions", (fact.peer,), text)
            self._sessions[fact.connection] = None
        if kind is Produce and not request.acks:
            return
        if kind is JoinGroup or kind is SyncGroup:
            group = request.group
            if kind is JoinGroup:
                self._joins_us[group] = max(self._joins_us.get(group, 0), _rebalance_us(request))
            else:
                self._syncs[request.member_id] = seen[2], peer, connection
            held_us = self._joins_us.get(group, _NEVER_US)
        elif self._within_us.get((peer, seen[2])) == 0:
            held_us = _NEVER_US
        else:
            held_us = ANSWERS.get(kind, _timeout_us)(request)
        newest = self._newest.get((seen[2], peer), -1)
        if connection > newest:
            self._reconnected(seen[2], peer, connection)
        elif connection < newest:  # the request was in flight when the client reconnected
            held_us = _NEVER_US
        waiting = _new(OpenRequest, (request_id, held_us + ANSWER_US, kind.__name__, seen[1]))
        line = (seen[2], peer, connection)
        before = self._open.get(line)
        if before is None:
            self._open[line] = [waiting]
        else:
            before.append(waiting)

    def _reconnected(self, server: ActorName, client: ActorName, connection: int) -> None:
        """Note that a client waits for answers only on its newest connection."""
        is_first = (server, client) not in self._newest
        self._newest[server, client] = connection
        if is_first:
            return
        for key, waiting in self._open.items():
            if key[:2] == (server, client):
                waiting[:] = [each._replace(within_us=_NEVER_US) for each in waiting]

    def _member_removed(self, seen: Seen, fact: MemberRemoved) -> None:
        """Close the SyncGroup of a removed member, which is never answered."""
        waiting = self._open.get(self._syncs.pop(fact.member_id, ("", "", 0)), [])
        waiting[:] = [each._replace(within_us=_NEVER_US) if each.api == "SyncGroup" else each for each in waiting]

    def _answers(self, seen: Seen, fact: Send) -> None:
        line = (seen[2], fact[0], fact[1])
        waiting = self._open.get(line)
        if waiting is None or waiting[0][0] != fact[2]:
            self._answers_another(seen, fact, waiting or [])
        elif len(waiting) == 1:
            del self._open[line]
        else:
            del waiting[0]
            waiting[0] = waiting[0]._replace(since_us=seen.at_us)

    def _times_out_as(self, errors: Callable[[Any], Iterable[ErrorCode]]) -> Callable[[Seen, Send], None]:
        def times_out(seen: Seen, fact: Send) -> None:
            if ErrorCode.REQUEST_TIMED_OUT not in errors(fact[4]) or seen.seq == self._injected:
                return
            waiting = self._open.get((seen.actor, fact.to, fact.connection))
            asked = next((each for each in waiting or () if each.request_id == fact.request_id), None)
            if asked is None or asked.within_us >= _NEVER_US:
                return
            after_us, timeout_us = seen.at_us - asked.since_us, asked.within_us - ANSWER_US
            if after_us < timeout_us * 9 // 10:
                text = f"{seen.actor} answered {fact.to} that its {asked.api} timed out after"
                text += f" {after_us / 1e6:g} s of {timeout_us / 1e6:g} s"
                self.violation(seen, "timed-out-early", (seen.actor, fact.to), text)

        return times_out

    def _injects(self, seen: Seen, fact: AnswerInjected) -> None:
        self._injected = seen.seq

    def _answers_another(self, seen: Seen, fact: Send, waiting: list[OpenRequest]) -> None:
        """Judge an answer to another request than the first of the connection."""
        about = f"{seen.actor} sent {fact.to} a {type(fact.message).__name__} to request {fact.request_id}"
        asked = next((each for each in waiting if each.request_id == fact.request_id), None)
        if asked is None:
            text = f"{about}, which is not open"
            self.violation(seen, "answered-unasked", (seen.actor, fact.to), text)
            return
        if host_of(seen.actor) != host_of(fact.to) and role_of(seen.actor) in ("broker", "coordinator"):
            text = f"{about}, before its {waiting[0].api}, the earlier request {waiting[0].request_id}"
            self.violation(seen, "out-of-order", (seen.actor, fact.to), text)
        waiting.remove(asked)

    # --- hosts -------------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for client in [key for key in self._sent if host_of(key[0]) == fact.host]:
            del self._sent[client]
        for server in [key for key in self._open if host_of(key[0]) == fact.host]:
            del self._open[server]

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        """Forget the time limits of a started host, whose settings may have changed."""
        self._within_us = {}

    # --- time --------------------------------------------------------------------------------------------------

    def finish(self, at_us: int) -> None:
        """Judge the requests that are open at the end of the run."""
        self._look(self._last._replace(at_us=at_us))

    def _look(self, seen: Seen) -> None:
        self._looks_us, self._last = seen.at_us + LOOK_US, seen
        for key, asked in list(self._sent.items()):
            if asked.until_us < seen.at_us and self._lateness_us(key[0], asked, seen.at_us) > ANSWER_US:
                del self._sent[key]
                text = f"{key[0]} sent {asked.peer} a {asked.api} {(seen.at_us - asked.asked_us) // 1_000_000} s ago,"
                text += " got no answer, and keeps the connection"
                self.violation(seen, "waits-for-ever", (key[0], asked.peer), text, liveness=True)
        for (server, client, _), waiting in self._open.items():
            if waiting[0].since_us + waiting[0].within_us < seen.at_us and self._is_late(
                server, client, waiting[0], seen.at_us
            ):
                for_s = (seen.at_us - waiting[0].since_us) // 1_000_000
                text = f"{server} got a {waiting[0].api} from {client} {for_s} s ago,"
                text += " and has not answered it"
                self.violation(seen, "unanswered", (server, client), text, liveness=True)
                waiting[0] = waiting[0]._replace(within_us=_NEVER_US)

    def _lateness_us(self, client: ActorName, asked: SentRequest, at_us: int) -> int:
        """Time by which a running client is late to close the connection, in us."""
        runs_us = self.panel.disturbances.runs_since_us(host_of(client))
        if runs_us is None:
            return 0
        last_message_us = self._last_message_us.get(client, 0) if asked.peer == STORE else 0
        from_us = max(asked.asked_us, runs_us if asked.asked_us < runs_us else 0, last_message_us)
        return at_us - from_us - asked.within_us * 11 // 10

    def _is_late(self, server: ActorName, client: ActorName, waiting: OpenRequest, at_us: int) -> bool:
        hosts = {host_of(server), host_of(client)}
        if role_of(server) == "controller":
            hosts.add(STORE)
        since_us = self.panel.disturbances.undisturbed_since_us(hosts)
        return since_us is not None and at_us - max(since_us, waiting.since_us) > waiting.within_us
