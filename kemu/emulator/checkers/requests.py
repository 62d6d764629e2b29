"""Requests and their answers, as they cross the wire: each gets one, in time, or whoever asked hangs up.

================  =================================================================  ==================================
kind              what is wrong                                                      bound
================  =================================================================  ==================================
answered-unasked  a server answers what it was not asked over that connection, or
                  what it has answered already
out-of-order      a broker answers a request before an earlier one of its connection
unanswered        a server that nothing disturbs does not answer the first request   ``ANSWERS``, ``ANSWER_US`` more
                  that it has of a connection that stands
waits-for-ever    a client neither gets an answer nor hangs up                       the client's request timeout; of
                                                                                     JoinGroup the rebalance timeout
gave-up-early     a broker or its controller part closes a connection that owes an  the same
                  answer, although its host is not told to end and nothing came
timed-out-early   a server answers REQUEST_TIMED_OUT                                 the timeout of the request
two-sessions      a client of the store opens a session over a connection that had
                  one already
================  =================================================================  ==================================

Fetch, the most frequent request, is left to ``pace`` and ``duties``. ``StoreEvents`` are said unasked; a Produce with
acks=0 has no answer; within a broker's process nobody hangs up. Source: Kafka 3.4 ``NetworkClient``, ``SocketServer``
(it mutes channels), ``DelayedOperation``, ``AbstractCoordinator.sendJoinGroupRequest``; ZooKeeper 3.5 ``ClientCnxn``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

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
"""How long a server may take to answer, with other work before the request."""
QUEUE_US = 60_000_000
"""How long a request may wait in a controller's queue, or an order at a broker that creates logs."""
JOIN_MORE_US = 5_000_000
"""Source: ``AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE``."""
LOOK_US = 2_000_000
_MS = 1_000
_NEVER_US = 1 << 62
_new = tuple.__new__


def _timeout_us(request: Any) -> int:
    return max(0, getattr(request, "timeout_ms", 0)) * _MS


def _rebalance_us(request: JoinGroup) -> int:
    return max(request.rebalance_timeout_ms, request.session_timeout_ms) * _MS


OFFSETS_US = 5_000_000
"""``offsets.commit.timeout.ms``, by default."""
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
"""How long a server may hold a request back; those with a timeout of their own as long as that, all others not at all.

A JoinGroup and a SyncGroup wait as long as the longest rebalance timeout of their group.
"""
WITH_TIMEOUT: Mapping[type, Callable[[Any], Iterable[ErrorCode]]] = {
    ProduceReply: lambda reply: [row.error for row in reply.batches],
    CreateTopicsReply: lambda reply: [row.error_code for row in reply.topics],
    CreatePartitionsReply: lambda reply: [row.error_code for row in reply.topics],
    DeleteTopicsReply: lambda reply: [row.error_code for row in reply.topics],
    DeleteRecordsReply: lambda reply: [row.error for row in reply.partitions],
    ElectLeadersReply: lambda reply: [row.error_code for row in reply.replica_election_results],
}
"""Answers to requests with a timeout of their own -> the errors in them."""


class Owed(NamedTuple):
    """A request that a server has: its id, and how long it may take from when it is the first of its connection."""

    request_id: int
    within_us: int
    api: str
    since_us: int


class Awaited(NamedTuple):
    """A request that waits for its answer: until when."""

    until_us: int
    api: str
    peer: ActorName
    asked_us: int
    within_us: int


class Requests(Checker):
    """See the module. ``settings``: those in force; None: it is shown nothing."""

    name = "requests"

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._newest: dict[tuple[ActorName, ActorName], int] = {}
        """(server, client) -> the newest connection over which a request came."""
        self._owed: dict[tuple[ActorName, ActorName, int], list[Owed]] = {}
        """(server, client, connection) -> what it owes, oldest first."""
        self._asked: dict[tuple[ActorName, int], Awaited] = {}
        """(client, request id) -> what it waits for."""
        self._joins_us: dict[str, int] = {}
        """Group -> the longest rebalance timeout that any member has sent."""
        self._syncs: dict[str, tuple[ActorName, ActorName, int]] = {}
        """Member id -> the connection that it asked for its assignment over last, as a key of ``_owed``."""
        self._got = -1
        """The last step in which anybody received a message."""
        self._injected = -1
        """The last step in which anybody answered what it was told to."""
        self._sessions: dict[int, None] = {}
        """Connections over which a session of the store was opened."""
        self._heard_us: dict[ActorName, int] = {}
        """Client of the store -> when it last heard of it."""
        self._within_us: dict[tuple[ActorName, ActorName], int] = {}
        """(client, server) -> how long an answer is waited for; 0: both are in one process."""
        self._looks_us = 0
        self._last = Seen(0, 0, "", 0, None)
        if settings is None:
            return
        self._settings = settings
        self.on = {Hangup: self._hung_up, LinkDown: self._broke, HostDown: self._down, HostStarted: self._started}
        self.on[MemberRemoved] = self._member_gone
        for (api, kind), spec in MESSAGES.items():
            if kind is Kind.REPLY and (api, Kind.REQUEST) in MESSAGES and spec.cls is not FetchReply:
                request = MESSAGES[api, Kind.REQUEST].cls
                self.on[sent(request)] = self._asks
                self.on[received(request)] = self._is_asked
                self.on[sent(spec.cls)] = self._answers
                self.on[received(spec.cls)] = self._is_answered
        self.on[received(StoreEvents)] = self._hears
        self.on[AnswerInjected] = self._injects
        self.shown_to({sent(reply): self._times_out_as(errors) for reply, errors in WITH_TIMEOUT.items()})
        self.shown_to(settings.on)

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
        self._asked[actor, request_id] = _new(Awaited, (at_us + within_us, kind.__name__, to, at_us, within_us))

    def _waits_us(self, client: ActorName, server: ActorName) -> int:
        if host_of(client) == host_of(server):
            return 0
        if server == STORE:
            return self._settings.controller.zookeeper_session_timeout_ms * _MS * 2 // 3
        return self._settings.request_us(client)

    def _is_answered(self, seen: Seen, fact: Received) -> None:
        self._got = seen[0]
        self._asked.pop((seen[2], fact[2]), None)
        if fact[0] == STORE:
            self._heard_us[seen.actor] = seen.at_us
        if seen[1] >= self._looks_us:
            self._look(seen)

    def _hears(self, seen: Seen, fact: Received) -> None:
        self._got = seen.seq
        self._heard_us[seen.actor] = seen.at_us

    def _hung_up(self, seen: Seen, fact: Hangup) -> None:
        if role_of(seen.actor) in ("broker", "controller") and self._got != seen.seq:
            self._gave_up(seen, fact.peer)
        self._gone(seen.actor, fact.peer)

    def _gave_up(self, seen: Seen, peer: ActorName) -> None:
        """Nothing but the time can have told it to."""
        owed = [each for (client, _), each in self._asked.items() if client == seen.actor and each.peer == peer]
        oldest = min(owed, key=lambda each: each.asked_us, default=None)
        if oldest is None or any(each.api == "CloseSession" for each in owed):
            return
        from_us = oldest.asked_us
        if peer == STORE and oldest.api != "OpenSession":
            from_us = self._heard_us.get(seen.actor, from_us)
        if seen.at_us - from_us < oldest.within_us * 9 // 10:
            text = (
                f"{seen.actor} closed its connection to {peer} {(seen.at_us - from_us) / 1e6:.3f} s after it had asked"
            )
            text += f" by {oldest.api}, instead of {oldest.within_us / 1e6:.3f} s"
            self.violation(seen, "gave-up-early", (seen.actor, peer), text)

    def _broke(self, seen: Seen, fact: LinkDown) -> None:
        """Of a client: nobody waits any more. Of a server: nobody will get what it answers."""
        self._gone(seen.actor, fact.peer)
        for key, owed in self._owed.items():
            if key[:2] == (seen.actor, fact.peer):
                owed[:] = [each._replace(within_us=_NEVER_US) for each in owed]

    def _gone(self, client: ActorName, peer: ActorName) -> None:
        for key in [key for key, asked in self._asked.items() if key[0] == client and asked.peer == peer]:
            del self._asked[key]

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
            self._connects_anew(seen[2], peer, connection)
        elif connection < newest:  # it was on its way when its client connected anew
            held_us = _NEVER_US
        owed = _new(Owed, (request_id, held_us + ANSWER_US, kind.__name__, seen[1]))
        line = (seen[2], peer, connection)
        before = self._owed.get(line)
        if before is None:
            self._owed[line] = [owed]
        else:
            before.append(owed)

    def _connects_anew(self, server: ActorName, client: ActorName, connection: int) -> None:
        """A client waits for answers over its newest connection alone."""
        self._newest[server, client] = connection
        for key, owed in self._owed.items():
            if key[:2] == (server, client):
                owed[:] = [each._replace(within_us=_NEVER_US) for each in owed]

    def _member_gone(self, seen: Seen, fact: MemberRemoved) -> None:
        """Its SyncGroup is never answered."""
        owed = self._owed.get(self._syncs.pop(fact.member_id, ("", "", 0)), [])
        owed[:] = [each._replace(within_us=_NEVER_US) if each.api == "SyncGroup" else each for each in owed]

    def _answers(self, seen: Seen, fact: Send) -> None:
        line = (seen[2], fact[0], fact[1])
        owed = self._owed.get(line)
        if owed is None or owed[0][0] != fact[2]:
            self._answers_another(seen, fact, owed or [])
        elif len(owed) == 1:
            del self._owed[line]
        else:
            del owed[0]
            owed[0] = owed[0]._replace(since_us=seen.at_us)

    def _times_out_as(self, errors: Callable[[Any], Iterable[ErrorCode]]) -> Callable[[Seen, Send], None]:
        def times_out(seen: Seen, fact: Send) -> None:
            if ErrorCode.REQUEST_TIMED_OUT not in errors(fact[4]) or seen.seq == self._injected:
                return
            owed = self._owed.get((seen.actor, fact.to, fact.connection))
            asked = next((each for each in owed or () if each.request_id == fact.request_id), None)
            if asked is None or asked.within_us >= _NEVER_US:
                return
            after_us, timeout_us = seen.at_us - asked.since_us, asked.within_us - ANSWER_US
            if after_us < timeout_us * 9 // 10:
                text = f"{seen.actor} tells {fact.to} that its {asked.api} took too long after"
                text += f" {after_us / 1e6:g} s of {timeout_us / 1e6:g} s"
                self.violation(seen, "timed-out-early", (seen.actor, fact.to), text)

        return times_out

    def _injects(self, seen: Seen, fact: AnswerInjected) -> None:
        self._injected = seen.seq

    def _answers_another(self, seen: Seen, fact: Send, owed: list[Owed]) -> None:
        """Not the first request of the connection."""
        about = f"{seen.actor} sent {fact.to} a {type(fact.message).__name__} to request {fact.request_id}"
        asked = next((each for each in owed if each.request_id == fact.request_id), None)
        if asked is None:
            text = f"{about}, which it did not have to answer"
            self.violation(seen, "answered-unasked", (seen.actor, fact.to), text)
            return
        if host_of(seen.actor) != host_of(fact.to) and role_of(seen.actor) in ("broker", "coordinator"):
            text = f"{about}, before its {owed[0].api}, request {owed[0].request_id}, which came first"
            self.violation(seen, "out-of-order", (seen.actor, fact.to), text)
        owed.remove(asked)

    # --- hosts -------------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for client in [key for key in self._asked if host_of(key[0]) == fact.host]:
            del self._asked[client]
        for server in [key for key in self._owed if host_of(key[0]) == fact.host]:
            del self._owed[server]

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        """It may be set otherwise."""
        self._within_us = {}

    # --- time --------------------------------------------------------------------------------------------------

    def finish(self, at_us: int) -> None:
        """Look for the last time."""
        self._look(self._last._replace(at_us=at_us))

    def _look(self, seen: Seen) -> None:
        self._looks_us, self._last = seen.at_us + LOOK_US, seen
        for key, asked in list(self._asked.items()):
            if asked.until_us < seen.at_us and self._lateness_us(key[0], asked, seen.at_us) > ANSWER_US:
                del self._asked[key]
                text = f"{key[0]} asked {asked.peer} by {asked.api} {(seen.at_us - asked.asked_us) // 1_000_000} s ago,"
                text += " has no answer, and keeps the connection"
                self.violation(seen, "waits-for-ever", (key[0], asked.peer), text, liveness=True)
        for (server, client, _), owed in self._owed.items():
            if owed[0].since_us + owed[0].within_us < seen.at_us and self._is_late(server, client, owed[0], seen.at_us):
                text = (
                    f"{server} has a {owed[0].api} of {client} since {(seen.at_us - owed[0].since_us) // 1_000_000} s,"
                )
                text += " and has not answered it"
                self.violation(seen, "unanswered", (server, client), text, liveness=True)
                owed[0] = owed[0]._replace(within_us=_NEVER_US)

    def _lateness_us(self, client: ActorName, asked: Awaited, at_us: int) -> int:
        """How long a client that runs should have given up already."""
        runs_us = self.panel.disturbances.runs_since_us(host_of(client))
        if runs_us is None:
            return 0
        heard_us = self._heard_us.get(client, 0) if asked.peer == STORE else 0
        from_us = max(asked.asked_us, runs_us if asked.asked_us < runs_us else 0, heard_us)
        return at_us - from_us - asked.within_us * 11 // 10

    def _is_late(self, server: ActorName, client: ActorName, owed: Owed, at_us: int) -> bool:
        hosts = {host_of(server), host_of(client)}
        if role_of(server) == "controller":
            hosts.add(STORE)
        since_us = self.panel.disturbances.undisturbed_since_us(hosts)
        return since_us is not None and at_us - max(since_us, owed.since_us) > owed.within_us
