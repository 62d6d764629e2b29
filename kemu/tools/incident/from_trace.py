"""The events of a trace of kemu: the facts that a coordinator's and a member's log would state.

``Event.file`` is the trace, ``Event.line`` the number of the step, ``Event.client`` the host of a member.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import evolve

from kemu.emulator.facts import BrokerHostAdded, HostDown, HostStarted, RunStarted, Seen
from kemu.emulator.trace.traces import Step, Trace, facts_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.member import decode_assignment
from kemu.protocol.names import CLASSIC, CONSUMER, TopicPartition, broker_of, host_of, is_coordinator
from kemu.protocol.notes import consumer_groups
from kemu.protocol.notes import groups as notes
from kemu.protocol.wire.values import from_row
from kemu.tools.logs.events import Event, event_from_json
from kemu.tools.logs.wordings.reasons import read_reason
from kemu.tools.logs.wrappers.wrappers import Opened

_PREPARING, _STABLE, _EMPTY, _DEAD = "PreparingRebalance", "Stable", "Empty", "Dead"
_REFUSALS = {"Heartbeat": "heartbeat-refused", "JoinGroup": "join-failed", "SyncGroup": "sync-failed"}
_POLL_TIMEOUT = "poll timeout"


def clock(at_us: int) -> str:
    """A virtual time as the text of a log: "00:01:05.250"."""
    ms = at_us // 1000
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.brokers: set[str] = set()
        self.ids: dict[str, tuple[str, str]] = {}
        """Host of a member -> its group and its last member id."""
        self.states: dict[str, str] = {}
        self.completed: dict[str, notes.JoinPhaseCompleted] = {}
        self.epochs: dict[str, int] = {}
        """Group of the consumer protocol -> its epoch."""
        self.modern: set[str] = set()
        """Hosts of members that joined with the consumer protocol."""
        self.hosts: dict[str, str] = {}
        """Member id -> host of the member, as its requests state."""
        self.asked: dict[str, Any] = {}
        """Settings of the last JoinGroup."""
        self.settings: dict[str, dict[str, Any]] = {}
        """Member id -> settings of its JoinGroup."""
        self.static: dict[str, str] = {}
        """Member id -> static id."""
        self.coordinators: dict[str, str] = {}
        """Host of a member -> host of its coordinator."""
        self.generations: dict[str, int] = {}
        """Host of a member -> its last generation."""
        self.on: Mapping[type, Callable[[Seen, Any], Iterator[Event]]] = {
            RunStarted: self._run_started,
            BrokerHostAdded: self._broker_added,
            HostStarted: self._host_started,
            HostDown: self._host_down,
            notes.GroupBecame: self._group_became,
            notes.MemberAdded: self._member_added,
            notes.MemberRemoved: self._member_removed,
            notes.JoinPhaseCompleted: self._join_completed,
            consumer_groups.GroupEpochsChanged: self._epochs_changed,
            consumer_groups.MemberReconciled: self._reconciled,
            consumer_groups.GroupConverted: self._converted,
            notes.GroupLoaded: self._loaded,
            notes.GroupUnloaded: self._unloaded,
            notes.GroupRecordWritten: self._record_written,
            notes.GroupRequestRead: self._request_read,
            notes.RequestRefused: self._refused,
            notes.CommitAnswered: self._commit_answered,
            notes.MemberBecame: self._member_became,
            notes.AssignmentReceived: self._synced,
            notes.PartitionsAssigned: self._assigned,
            notes.PartitionsRevoked: self._revoked,
            notes.PartitionsLost: self._lost,
            notes.CoordinatorKnown: self._coordinator,
            notes.MemberFailed: self._failed,
        }

    def events(self, trace: Trace) -> Iterator[Event]:
        for seen in facts_of(trace):
            reads = self.on.get(type(seen.fact))
            if reads is not None:
                yield from reads(seen, seen.fact)

    def event(self, seen: Seen, kind: str, **fields: Any) -> Event:
        host = host_of(seen.actor)
        if is_coordinator(seen.actor):
            fields.setdefault("broker", broker_of(host))
        return Event(file=self.file, line=seen.seq, kind=kind, time=clock(seen.at_us), at_us=seen.at_us, **fields)

    def own(self, seen: Seen, kind: str, group: str, member: str, **fields: Any) -> Event:
        """An event of a member's own log."""
        if member:
            self.ids[host_of(seen.actor)] = group, member
        if "generation" in fields:
            self.generations[host_of(seen.actor)] = fields["generation"]
        return self.event(seen, kind, group=group, member=member or None, client=host_of(seen.actor), **fields)

    def _run_started(self, seen: Seen, fact: RunStarted) -> Iterator[Event]:
        self.brokers |= set(fact.brokers)
        yield from ()

    def _broker_added(self, seen: Seen, fact: BrokerHostAdded) -> Iterator[Event]:
        self.brokers.add(fact.host)
        yield from ()

    def _host_started(self, seen: Seen, fact: HostStarted) -> Iterator[Event]:
        if fact.host in self.brokers and fact.life > 1:
            yield self.event(seen, "broker-started", node=fact.host)

    def _host_down(self, seen: Seen, fact: HostDown) -> Iterator[Event]:
        if fact.host in self.brokers:
            yield self.event(seen, "broker-stops", node=fact.host, reason=fact.how)

    def _group_became(self, seen: Seen, fact: notes.GroupBecame) -> Iterator[Event]:
        self.states[fact.group] = fact.new
        if fact.group in self.epochs:
            return
        if fact.new == _PREPARING:
            fields: dict[str, Any] = {"reason": fact.why}
            read_reason(fields, Opened(fact.why))
            yield self.event(
                seen,
                "rebalance-begins",
                group=fact.group,
                old_generation=fact.generation,
                reason=fact.why,
                cause=fields["cause"],
                member=fields.get("member"),
                state=fact.old,
            )
        elif fact.new == _STABLE and fact.old not in (_EMPTY, _DEAD):
            done = self.completed.get(fact.group)
            known: dict[str, Any] = {}
            if done is not None and done.generation == fact.generation:
                static = sum(member in self.static for member in done.members)
                known = {"leader": done.leader, "members": len(done.members), "static": static}
            yield self.event(seen, "assignment-received", group=fact.group, generation=fact.generation, **known)
        elif fact.new == _EMPTY and fact.old != _DEAD:
            yield self.event(seen, "group-empty", group=fact.group, generation=fact.generation)

    def _member_added(self, seen: Seen, fact: notes.MemberAdded) -> Iterator[Event]:
        if fact.instance_id is not None:
            self.static[fact.member_id] = fact.instance_id
        self.settings[fact.member_id] = self.asked
        yield self.event(
            seen,
            "member-joins",
            group=fact.group,
            member=fact.member_id,
            instance=fact.instance_id,
            client=fact.client_id,
            state=self.states.get(fact.group, _EMPTY),
            **({"protocol": CONSUMER} if fact.client_id in self.modern else self.asked),
        )

    def _member_removed(self, seen: Seen, fact: notes.MemberRemoved) -> Iterator[Event]:
        why = fact.removal
        known: dict[str, Any] = {"group": fact.group, "member": fact.member_id, "client": fact.client_id}
        instance = self.static.pop(fact.member_id, None)
        if why is notes.Removal.LEFT:
            yield self.event(seen, "member-leaves", instance=instance, **known, **self.settings.get(fact.member_id, {}))
        elif why is notes.Removal.REPLACED:
            known["member"] = fact.why.removeprefix(notes.Removal.REPLACED).strip()
            state = self.states.get(fact.group, _EMPTY)
            yield self.event(
                seen, "static-replaced", instance=instance, previous=fact.member_id, state=state, **known
            )  # fmt: skip
        else:
            missed = "haven't joined" if why is not notes.Removal.SESSION_EXPIRED else fact.why
            yield self.event(seen, "member-expires", instance=instance, reason=missed, **known)

    def _join_completed(self, seen: Seen, fact: notes.JoinPhaseCompleted) -> Iterator[Event]:
        self.completed[fact.group] = fact
        if fact.group in self.epochs:
            yield self.event(
                seen, "target-computed", group=fact.group, generation=fact.generation, members=len(fact.members),
                assignor=fact.protocol,
            )  # fmt: skip
            return
        yield self.event(
            seen, "rebalance-completes", group=fact.group, generation=fact.generation, members=len(fact.members),
            leader=fact.leader, protocol=fact.protocol,
        )  # fmt: skip

    def _epochs_changed(self, seen: Seen, fact: consumer_groups.GroupEpochsChanged) -> Iterator[Event]:
        if self.epochs.get(fact.group) != fact.epoch:
            yield self.event(seen, "group-epoch-bumped", group=fact.group, generation=fact.epoch)
        self.epochs[fact.group] = fact.epoch

    def _reconciled(self, seen: Seen, fact: consumer_groups.MemberReconciled) -> Iterator[Event]:
        yield self.event(
            seen, "member-reconciled", group=fact.group, member=fact.member_id, generation=fact.epoch,
            state=fact.state, partitions=_names(fact.assigned), revoked=_names(fact.revoking),
        )  # fmt: skip

    def _converted(self, seen: Seen, fact: consumer_groups.GroupConverted) -> Iterator[Event]:
        if fact.protocol == CLASSIC:
            self.epochs.pop(fact.group, None)
        yield self.event(seen, "protocol-converted", group=fact.group, generation=fact.generation)

    def _loaded(self, seen: Seen, fact: notes.GroupLoaded) -> Iterator[Event]:
        yield self.event(
            seen, "group-loaded", group=fact.group, generation=fact.generation, node=host_of(seen.actor),
            members=len(fact.members),
        )  # fmt: skip

    def _unloaded(self, seen: Seen, fact: notes.GroupUnloaded) -> Iterator[Event]:
        yield self.event(seen, "group-unloaded", group=fact.group, node=host_of(seen.actor))

    def _record_written(self, seen: Seen, fact: notes.GroupRecordWritten) -> Iterator[Event]:
        if fact.error not in (ErrorCode.NONE, ErrorCode.RECORD_LIST_TOO_LARGE):
            yield self.event(seen, "append-refused", partition="__consumer_offsets", error=fact.error.name)

    def _request_read(self, seen: Seen, fact: notes.GroupRequestRead) -> Iterator[Event]:
        self.hosts |= {member: host_of(fact.client) for member, _ in fact.ids if member}
        if fact.api == "JoinGroup":
            names = tuple(name for name, _ in fact.rows)
            self.asked = {
                "session_ms": fact.session_timeout_ms, "rebalance_ms": fact.rebalance_timeout_ms, "assignors": names,
            }  # fmt: skip
        elif fact.api == "Heartbeat" and fact.ids:
            yield self.event(
                seen,
                "heartbeat-sent",
                group=fact.group,
                member=fact.ids[0][0],
                client=host_of(fact.client),
                generation=fact.generation,
                broker=None,
            )
        elif fact.api == "SyncGroup" and fact.rows:
            given = {member: _names(decode_assignment(data).partitions) for member, data in fact.rows}
            yield self.event(
                seen, "assignment-computed", group=fact.group, member=fact.ids[0][0], client=host_of(fact.client),
                generation=fact.generation, assignment=given, broker=None,
            )  # fmt: skip

    def _refused(self, seen: Seen, fact: notes.RequestRefused) -> Iterator[Event]:
        """An answer with an error: the member's log states the answer."""
        host = self.hosts.get(fact.member_id)
        if fact.api in _REFUSALS and host is not None:
            yield self.event(
                seen, _REFUSALS[fact.api], group=fact.group, member=fact.member_id, client=host, error=fact.error.name,
                generation=self.generations.get(host), broker=None,
            )  # fmt: skip

    def _commit_answered(self, seen: Seen, fact: notes.CommitAnswered) -> Iterator[Event]:
        if fact.error is not ErrorCode.NONE:
            yield self.own(
                seen, "commit-failed", fact.group, fact.member_id, error=fact.error.name, generation=fact.generation
            )

    def _member_became(self, seen: Seen, fact: notes.MemberBecame) -> Iterator[Event]:
        if fact.new == "JOINING":  # a state of the consumer protocol only
            self.modern.add(host_of(seen.actor))
        elif fact.new == "PREPARING_REBALANCE":
            self.modern.discard(host_of(seen.actor))
        if _POLL_TIMEOUT in fact.why and fact.new == "UNJOINED":
            yield self.own(seen, "member-leaves", fact.group, fact.member_id, reason=fact.why, also=("poll-timeout",),
                           node=self.coordinators.get(host_of(seen.actor)))  # fmt: skip
        elif fact.new == "PREPARING_REBALANCE":
            yield self.own(seen, "join-sent", fact.group, fact.member_id, reason=fact.why)
        elif fact.new == "COMPLETING_REBALANCE":
            yield self.own(seen, "join-answered", fact.group, fact.member_id, generation=fact.generation)

    def _synced(self, seen: Seen, fact: notes.AssignmentReceived) -> Iterator[Event]:
        yield self.own(seen, "assignment-synced", fact.group, fact.member_id, generation=fact.generation)

    def _assigned(self, seen: Seen, fact: notes.PartitionsAssigned) -> Iterator[Event]:
        names = _names(fact.added)
        yield self.own(
            seen, "partitions-assigned", fact.group, fact.member_id, generation=fact.generation, partitions=names
        )

    def _revoked(self, seen: Seen, fact: notes.PartitionsRevoked) -> Iterator[Event]:
        names = _names(fact.revoked)
        yield self.own(seen, "partitions-revoked", fact.group, fact.member_id, partitions=names)

    def _lost(self, seen: Seen, fact: notes.PartitionsLost) -> Iterator[Event]:
        names = _names(fact.lost)
        yield self.own(seen, "partitions-lost", fact.group, fact.member_id, partitions=names)

    def _coordinator(self, seen: Seen, fact: notes.CoordinatorKnown) -> Iterator[Event]:
        host = host_of(seen.actor)
        _, member = self.ids.get(host, ("", ""))
        if fact.host:
            self.coordinators[host] = host_of(fact.host)
            yield self.own(seen, "coordinator-found", fact.group, member, node=host_of(fact.host))
        else:
            yield self.own(
                seen, "coordinator-lost", fact.group, member, reason=fact.why, node=self.coordinators.get(host)
            )

    def _failed(self, seen: Seen, fact: notes.MemberFailed) -> Iterator[Event]:
        yield self.own(seen, "error-to-application", fact.group, fact.member_id, error=fact.error.name, reason=fact.why)


def _names(partitions: tuple[TopicPartition, ...]) -> tuple[str, ...]:
    return tuple(f"{topic}-{partition}" for topic, partition in partitions)


def events_of_trace(trace: Trace) -> Iterator[Event]:
    """The events of one run. Those of a trace of logs are the events of the logs, by the clock of one log.

    Raises:
        TraceError: the trace is damaged.
    """
    if trace.header.source == "log":
        yield from _events_of_logs(trace)
    else:
        yield from _Reader(str(trace.path)).events(trace)


def _events_of_logs(trace: Trace) -> Iterator[Event]:
    for step in trace.records():
        if isinstance(step, Step):
            record = from_row(step.event[1])
            event = event_from_json(json.loads(record.stated))
            yield event if event.time is None else evolve(event, at_us=step.at_us)
