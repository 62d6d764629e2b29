"""Events of logs become facts: the notes of members and coordinators that a run of the emulator would report.

A fact is of one record. Some values are inferred from records before it, such as all partitions of a member that gave
some back. ``LogRecord.inferred`` names the notes with such values.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from kemu.emulator.facts import HostDown, LeadershipStated, LogRecord
from kemu.emulator.scenario.topics import MOST_PARTITIONS
from kemu.protocol.names import NO_GENERATION, TopicPartition, broker_host, consumer_host, coordinator_on
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CoordinatorKnown,
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberBecame,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Removal,
)
from kemu.protocol.topic_pattern import INTERNAL_TOPICS
from kemu.tools.kafka_files.input_files import LARGEST_ID, is_topic, whole_number
from kemu.tools.logs.clocks import ClockOffset
from kemu.tools.logs.events import Event
from kemu.tools.logs.wordings.values import Names, broker_id, expanded, split

_HALF_DAY_US = 43_200_000_000
_DAY_US = 86_400_000_000
_SILENT = (Removal.SESSION_EXPIRED, Removal.NOT_REJOINED)
_CALLS = ("partitions-assigned", "partitions-revoked", "partitions-lost")
_OF_THE_HEARTBEAT_THREAD = ("heartbeat-sent", "heartbeat-ok", "heartbeat-refused", "rejoin-requested")
_OF_THE_SPEAKER = ("join-sent", "member-id-issued", "join-answered", "assignment-synced", "partitions-assigned")
"""Kinds in which ``Event.member`` is the process that logs the record."""


@attrs.frozen
class LogStep:
    """The facts of one record: who states them, when (us since the first record), and whether they are inferred."""

    at_us: int
    actor: str
    record: LogRecord
    notes: tuple[Any, ...]


@attrs.define
class _Member:
    """A client's process as its log tells."""

    host: str
    client: str
    group: str = ""
    member_id: str = ""
    generation: int = NO_GENERATION
    state: str = "UNJOINED"
    owned: tuple[TopicPartition, ...] = ()


UNCERTAIN_US = 50_000
"""A call of a rebalance listener within this time of its record has the time of the record."""


@attrs.define
class LogFacts:
    """The facts of several logs, by time.

    ``clients`` maps a host of the trace to the client and its file. ``steps`` are in the order of time.
    ``calls_within_us``: (file, line) of a record about partitions -> the time until the next record of the client. A
    client writes the record before it calls the rebalance listener, so the call begins within this time.
    """

    steps: list[LogStep] = attrs.field(factory=list)
    clients: dict[str, str] = attrs.field(factory=dict)
    groups: dict[str, list[str]] = attrs.field(factory=dict)
    brokers: list[str] = attrs.field(factory=list)
    topics: dict[str, int] = attrs.field(factory=dict)
    first_us: int = 0
    calls_within_us: dict[tuple[str, int], int] = attrs.field(factory=dict)

    @property
    def uncertain_calls(self) -> int:
        """The number of calls of rebalance listeners whose time is uncertain by more than ``UNCERTAIN_US``."""
        return sum(within_us > UNCERTAIN_US for within_us in self.calls_within_us.values())

    @property
    def ended_us(self) -> int:
        """The time of the last record."""
        return self.steps[-1].at_us if self.steps else 0


def facts_of_events(events: Sequence[Event], offsets: Iterable[ClockOffset] = ()) -> LogFacts:
    """The facts of events, with the clocks of all files set to the clock of one."""
    return _Reading({offset.file: offset.offset_us for offset in offsets}).facts(events)


def in_order_of_time(events: Sequence[Event], offsets_us: Mapping[str, int]) -> list[tuple[int, Event]]:
    """Events with their times, by time; an event without a time has the time of the event before it in its file.

    Times without a date are on the day of the first dated record; a clock that falls by more than half a day begins the
    next day. Equal records of one file are one. A file whose times mostly fall has its newest record first.
    """
    day_us = next((event.at_us // _DAY_US * _DAY_US for event in events if _is_dated(event) and event.at_us), 0)
    timed: list[tuple[int, Event]] = []
    last: dict[str, int] = {}
    days: dict[str, int] = {}
    known: set[Event] = set()
    for event in _oldest_first(events):
        same = attrs.evolve(event, line=0, lines=(), same_event_as=None, assignment=None)
        if event.at_us is not None and same in known:
            continue
        known.add(same)
        at_us = last.get(event.file, day_us)
        if event.at_us is not None:
            at_us = event.at_us - offsets_us.get(event.file, 0)
            if not _is_dated(event):
                at_us += day_us + days.get(event.file, 0)
                if at_us < last.get(event.file, at_us) - _HALF_DAY_US:
                    days[event.file] = days.get(event.file, 0) + _DAY_US
                    at_us += _DAY_US
        last[event.file] = at_us
        timed.append((at_us, event))
    return sorted(timed, key=lambda pair: pair[0])


def _oldest_first(events: Sequence[Event]) -> Iterator[Event]:
    for _, group in itertools.groupby(events, key=lambda event: event.file):
        of_file = list(group)
        times = [event.at_us for event in of_file if event.at_us is not None]
        falls = sum(later < earlier for earlier, later in itertools.pairwise(times))
        rises = sum(later > earlier for earlier, later in itertools.pairwise(times))
        yield from reversed(of_file) if falls > rises + 1 else of_file


def _is_dated(event: Event) -> bool:
    return event.time is not None and "T" in event.time


class _Reading:
    def __init__(self, offsets_us: Mapping[str, int]) -> None:
        self._offsets_us = offsets_us
        self._facts = LogFacts()
        self._members: dict[tuple[str, int | None, str], _Member] = {}
        self._coordinators: dict[str, str] = {}
        self._broker_of: dict[str, int] = {}
        """File -> the broker that its last record with a broker id names."""
        self._states: dict[str, tuple[str, int]] = {}
        self._added: dict[str, dict[str, str]] = {}
        self._inferred: list[str] = []
        self._last_step: dict[str, int] = {}
        """Host of a member -> index of the step of its last record."""
        self._expired: dict[str, int] = {}
        """Member id -> index of the step in which its membership expired."""
        self._speaker = ""
        self._named: frozenset[str] = frozenset()
        self._of: Mapping[str, Callable[[Event], Iterator[Any]]] = {
            "rebalance-begins": self._rebalance_begins,
            "rebalance-completes": self._rebalance_completes,
            "assignment-received": self._assignment_stored,
            "group-empty": self._group_empty,
            "group-dead": self._group_dead,
            "group-loaded": self._group_loaded,
            "group-unloaded": self._group_unloaded,
            "member-joins": self._member_joins,
            "member-leaves": self._member_leaves,
            "member-expires": self._member_expires,
            "static-replaced": self._static_replaced,
            "join-sent": lambda event: self._became(event, "PREPARING_REBALANCE"),
            "join-answered": self._join_answered,
            "assignment-synced": self._synced,
            "assignment-notified": self._received,
            "assignment-computed": self._computed,
            "partitions-assigned": self._assigned,
            "partitions-revoked": self._revoked,
            "partitions-lost": self._lost,
            "rejoin-requested": lambda event: self._became(event, "PREPARING_REBALANCE"),
            "coordinator-found": self._coordinator,
            "coordinator-lost": self._coordinator,
        }

    def facts(self, events: Sequence[Event]) -> LogFacts:
        self._named = frozenset(event.client for event in events if event.client)
        timed = in_order_of_time(events, self._offsets_us)
        self._facts.first_us = timed[0][0] if timed else 0
        calls: dict[tuple[str, int | None, str], tuple[int, Event]] = {}
        for at_us, event in timed:
            self._bound_call(at_us, event, calls)
            told = event.category != "group-detail" or event.assignors is not None
            if not told or event.same_event_as is not None:
                continue
            self._inferred = []
            actor = self._actor(event)
            self._speaker = ""
            handler = self._of.get(event.kind)
            if event.category == "leadership":
                notes = tuple(self._leadership(event))
            else:
                notes = (*self._of_new_id(event), *(handler(event) if handler else ())) if _is_told(event) else ()
            record = LogRecord(
                file=event.file,
                line=event.line,
                kind=event.kind,
                inferred=tuple(dict.fromkeys(self._inferred)),
                stated=json.dumps(event.as_json(), ensure_ascii=False),
            )
            if not event.of_broker:
                self._last_step[actor] = len(self._facts.steps)
            for note in notes:
                if isinstance(note, MemberRemoved) and note.removal in _SILENT:
                    self._expired[note.member_id] = len(self._facts.steps)
            self._facts.steps.append(LogStep(at_us - self._facts.first_us, self._speaker or actor, record, notes))
            for partition in expanded(event.partitions or ()):
                self._topic(partition)
        self._end_silent_members()
        return self._facts

    def _bound_call(
        self, at_us: int, event: Event, calls: dict[tuple[str, int | None, str], tuple[int, Event]]
    ) -> None:
        """Let a record end the wait for a call of the same process. Heartbeats have a thread of their own."""
        process = (event.file, event.process, event.client or "")
        if event.of_broker or event.kind in _OF_THE_HEARTBEAT_THREAD:
            return
        if process in calls:
            called_us, call = calls.pop(process)
            self._facts.calls_within_us[call.file, call.line] = at_us - called_us
        if event.kind in _CALLS:
            calls[process] = (at_us, event)

    def _of_new_id(self, event: Event) -> Iterator[Any]:
        """A process with a new member id has no partition of its old id, even if it logged no callback."""
        member = self._members.get((event.file, event.process, event.client or ""))
        if event.of_broker or event.truncated or member is None or not event.member or not member.owned:
            return
        if member.member_id and member.member_id != event.member and event.kind in _OF_THE_SPEAKER:
            self._inferred.append("PartitionsLost")
            yield PartitionsLost(group=self._group(event), member_id=member.member_id, lost=member.owned)
            member.owned = ()

    def _end_silent_members(self) -> None:
        """A process whose log ends before its membership expires is down from its last record on."""
        for member in self._members.values():
            last, expired = self._last_step.get(member.host), self._expired.get(member.member_id)
            if last is None or expired is None or last >= expired:
                continue
            step = self._facts.steps[last]
            inferred = (*step.record.inferred, HostDown.__name__)
            said = step.record
            record = LogRecord(file=said.file, line=said.line, kind=said.kind, stated=said.stated, inferred=inferred)
            notes = (*step.notes, HostDown(host=member.host, life=1, how="process"))
            self._facts.steps[last] = attrs.evolve(step, record=record, notes=notes)

    # --- places -----------------------------------------------------------------------------------------------------

    def _actor(self, event: Event) -> str:
        if event.broker is not None:
            self._broker_of[event.file] = event.broker
        if event.of_broker or event.category == "leadership":
            host = broker_host(self._broker_of.get(event.file, 0))
            if host not in self._facts.brokers:
                self._facts.brokers.append(host)
            if event.category == "leadership":
                return host
            if event.group:
                self._coordinators[event.group] = host
            return coordinator_on(host)
        return self._member(event).host

    def _member(self, event: Event) -> _Member:
        key = (event.file, event.process, event.client or "")
        member = self._members.get(key)
        if member is None:
            host = self._free_host(event.client or "")
            member = self._members[key] = _Member(host, event.client or event.file)
            process = f", process {event.process}" if event.process is not None else ""
            self._facts.clients[host] = f"{event.client or 'a client'} in {event.file}{process}"
        if event.group and not member.group:
            member.group = event.group
            self._facts.groups.setdefault(event.group, []).append(member.host)
        if event.member and event.kind not in ("assignment-computed", "member-id-changed"):
            member.member_id = event.member
        if event.generation is not None:
            member.generation = event.generation
        return member

    def _free_host(self, client: str) -> str:
        """A client with a name such as c1 keeps its name; others get the next number."""
        if re.fullmatch(r"c[1-9]\d{0,5}", client) and client not in self._facts.clients:
            return client
        number = len(self._members) + 1
        while consumer_host(number) in self._facts.clients or consumer_host(number) in self._named:
            number += 1
        return consumer_host(number)

    def _topic(self, partition: str) -> TopicPartition | None:
        """The topic and the number of a partition; None for a name that Kafka does not allow."""
        parts = split(partition)
        if parts is None or not is_topic(parts[0]) or parts[1] >= MOST_PARTITIONS:
            return None
        topic, number = parts
        if topic not in INTERNAL_TOPICS:
            self._facts.topics[topic] = max(self._facts.topics.get(topic, 0), number + 1)
        return parts

    def _partitions(self, names: Names | None) -> tuple[TopicPartition, ...]:
        parts = (self._topic(name) for name in expanded(names or ()))
        return tuple(sorted(part for part in parts if part is not None))

    # --- coordinators -----------------------------------------------------------------------------------------------

    def _group(self, event: Event) -> str:
        assert event.group is not None
        self._facts.groups.setdefault(event.group, [])
        return event.group

    def _state(self, event: Event, new: str, generation: int, why: str = "") -> Iterator[Any]:
        group = self._group(event)
        old, _ = self._states.get(group, ("Empty" if generation == 0 else "Stable", 0))
        if group not in self._states:
            self._inferred.append("GroupBecame")
        if old != new:
            self._states[group] = (new, generation)
            yield GroupBecame(group=group, old=old, new=new, generation=generation, why=why)

    def _rebalance_begins(self, event: Event) -> Iterator[Any]:
        return self._state(event, "PreparingRebalance", event.old_generation or 0, event.reason or "")

    def _rebalance_completes(self, event: Event) -> Iterator[Any]:
        return self._state(event, "CompletingRebalance", event.generation or 0)

    def _assignment_stored(self, event: Event) -> Iterator[Any]:
        return self._state(event, "Stable", event.generation or 0)

    def _group_empty(self, event: Event) -> Iterator[Any]:
        return self._state(event, "Empty", event.generation or 0)

    def _group_dead(self, event: Event) -> Iterator[Any]:
        return self._state(event, "Dead", event.generation or 0)

    def _group_loaded(self, event: Event) -> Iterator[Any]:
        if event.generation is not None:
            self._inferred.append("GroupLoaded")
            yield GroupLoaded(group=self._group(event), state="Stable", generation=event.generation, members=())

    def _group_unloaded(self, event: Event) -> Iterator[Any]:
        yield GroupUnloaded(group=self._group(event))

    def _member_joins(self, event: Event) -> Iterator[Any]:
        if event.member:
            client = event.client or _client_of(event.member)
            self._added.setdefault(self._group(event), {})[event.member] = client
            yield MemberAdded(
                group=self._group(event), member_id=event.member, client_id=client, instance_id=event.instance
            )

    def _removed(self, event: Event, member: str, why: str) -> Iterator[Any]:
        client = self._added.get(self._group(event), {}).pop(member, None) or event.client or _client_of(member)
        yield MemberRemoved(group=self._group(event), member_id=member, client_id=client, why=why)

    def _member_leaves(self, event: Event) -> Iterator[Any]:
        if not event.of_broker:
            yield from self._became(event, "CLOSED" if "clos" in (event.reason or "") else "UNJOINED")
        elif event.member:
            yield from self._removed(event, event.member, Removal.LEFT)

    def _member_expires(self, event: Event) -> Iterator[Any]:
        if event.member:
            reason = event.reason or ""
            late = {"rebalance timeout": Removal.NOT_REJOINED, "sync timeout": Removal.NOT_SYNCED}
            why = Removal.JOIN_TOO_LONG if event.state == "pending" else late.get(reason, Removal.SESSION_EXPIRED)
            yield from self._removed(event, event.member, why)

    def _static_replaced(self, event: Event) -> Iterator[Any]:
        if isinstance(event.previous, str) and event.member:
            yield from self._removed(event, event.previous, f"{Removal.REPLACED} {event.member}")
            yield from self._member_joins(event)

    # --- leaders and ISRs -------------------------------------------------------------------------------------------

    def _leadership(self, event: Event) -> Iterator[Any]:
        """The stated values of each partition of the record, or of its broker."""
        names = (event.partition,) if event.partition else event.partitions or ()
        places: Sequence[TopicPartition | None] = self._partitions(names) or (None,)
        is_update = event.kind == "isr-updated"
        led_by = event.broker if event.kind == "leader-starts" else _number(event.leader)
        for place in places:
            yield LeadershipStated(
                kind=event.kind,
                topic=place[0] if place else None,
                partition=place[1] if place else None,
                leader=led_by,
                leader_epoch=None if is_update else event.epoch,
                isr=event.isr if event.isr is not None else _brokers(event.to),
                isr_before=_brokers(event.from_),
                version=event.epoch if is_update else None,
                why=event.reason or event.error or _states(event),
            )

    # --- members ----------------------------------------------------------------------------------------------------

    def _became(self, event: Event, new: str) -> Iterator[Any]:
        member = self._member(event)
        old, member.state = member.state, new
        if old != new:
            yield MemberBecame(
                group=self._group(event),
                member_id=member.member_id,
                old=old,
                new=new,
                generation=member.generation,
                why=event.reason or "",
            )

    def _join_answered(self, event: Event) -> Iterator[Any]:
        return self._became(event, "COMPLETING_REBALANCE")

    def _synced(self, event: Event) -> Iterator[Any]:
        yield from self._became(event, "STABLE")
        yield from self._received(event)

    def _received(self, event: Event) -> Iterator[Any]:
        if event.partitions is not None:
            member = self._member(event)
            if event.generation is None:
                self._inferred.append("AssignmentReceived")
            partitions = self._partitions(event.partitions)
            yield AssignmentReceived(
                group=self._group(event),
                member_id=member.member_id,
                generation=member.generation,
                partitions=partitions,
            )

    def _computed(self, event: Event) -> Iterator[Any]:
        """The leader's assignment names the members of the generation."""
        if event.assignment and event.generation is not None:
            member = self._member(event)
            self._inferred.append("JoinPhaseCompleted")
            self._speaker = coordinator_on(self._coordinators.get(self._group(event)) or broker_host(0))
            members = tuple(sorted(event.assignment))
            yield JoinPhaseCompleted(
                group=self._group(event),
                generation=event.generation,
                protocol=event.assignor,
                leader=member.member_id,
                members=members,
            )

    def _assigned(self, event: Event) -> Iterator[Any]:
        member = self._member(event)
        added = self._partitions(event.partitions)
        member.owned = tuple(sorted({*member.owned, *added}))
        self._inferred.append("PartitionsAssigned")
        yield PartitionsAssigned(
            group=self._group(event),
            member_id=member.member_id,
            generation=member.generation,
            added=added,
            owned=member.owned,
        )

    def _revoked(self, event: Event) -> Iterator[Any]:
        member = self._member(event)
        revoked = self._partitions(event.partitions) if event.partitions is not None else member.owned
        member.owned = tuple(each for each in member.owned if each not in revoked)
        self._inferred.append("PartitionsRevoked")
        if revoked:
            yield PartitionsRevoked(
                group=self._group(event),
                member_id=member.member_id,
                generation=member.generation,
                revoked=revoked,
                owned=member.owned,
            )

    def _lost(self, event: Event) -> Iterator[Any]:
        member = self._member(event)
        lost = self._partitions(event.partitions) or member.owned
        member.owned = ()
        yield PartitionsLost(group=self._group(event), member_id=member.member_id, lost=lost)

    def _coordinator(self, event: Event) -> Iterator[Any]:
        if not event.of_broker:
            found = _broker_of_node(event.node or "") if event.kind == "coordinator-found" else ""
            yield CoordinatorKnown(group=self._group(event), host=found, why=event.reason or "")


def _states(event: Event) -> str | None:
    """The states of ``partition-state``, such as "NewPartition to OnlinePartition"."""
    states = [state for state in (event.from_, event.to) if isinstance(state, str)]
    return " to ".join(states) or None


def _number(text: str | None) -> int | None:
    return whole_number(text, LARGEST_ID) if text else None


def _brokers(value: str | tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The ISR of ``isr-shrunk`` and ``isr-expanded``; None for names of states."""
    return value if isinstance(value, tuple) else None


def _is_told(event: Event) -> bool:
    """Whether facts come from the record. Other logs state the facts of a request log."""
    return event.group is not None and event.dialect != "request-log"


def _broker_of_node(node: str) -> str:
    """The host of a broker; the text if the text names no id."""
    number = broker_id(node)
    return node if number is None else broker_host(number)


def _client_of(member: str) -> str:
    """The client id (or static id) before the UUID of a member id; the member id without a UUID."""
    head, _, _ = member.rpartition("-") if len(member) <= 37 else (member[:-37], "", "")
    return head or member
