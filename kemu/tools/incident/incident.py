"""The events of an incident in order, and questions that several causes ask about the events."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

from attrs import evolve

from kemu.protocol.frozen import define, frozen
from kemu.tools.incident.timeline import StatedGeneration, timeline_of
from kemu.tools.incident.words import REBALANCING, UNKNOWN_MEMBER, error_of
from kemu.tools.logs.events import Event

SECOND = 1_000_000
FEW_BEATS = 3
MANY_BEATS = 5
"""Fewest heartbeats in a log from which a silence means something: at the end of the log, or between two lines, because
an excerpt may lack lines."""
SILENT_US = 8 * SECOND
SILENT_BEATS = 4
_NEW_LIFE = ("coordinator-lookup", "coordinator-found", "join-sent", "member-id-issued", "join-failed")
"""First lines of a process: a silence before them is the time between two processes of one client id."""
_ANSWERED = ("join-answered", "join-failed", "assignment-synced", "sync-failed", "partitions-assigned")
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_MASK = re.compile(r"^[*.x]+$")
POLL_TIMEOUT = ("poll timeout", "poll interval", "max.poll")


class How(StrEnum):
    """The way in which a membership ended."""

    LEFT = "left"
    POLL_TIMEOUT = "left after its poll timeout"
    EXPIRED = "expired"
    NOT_REJOINED = "did not rejoin in time"
    UNKNOWN = "unknown to the coordinator"


@frozen
class Departure:
    """A membership that ended. ``events`` state the end, the first one is the earliest."""

    group: str
    member: str | None
    how: How
    events: tuple[Event, ...]

    @property
    def at_us(self) -> int | None:
        """Time of the first event."""
        return self.events[0].at_us

    @property
    def client_id(self) -> str:
        """The member id without its UUID; "" if unknown."""
        return client_of(self.member)


@frozen
class MemberRejoin:
    """One member's way from the news of a rebalance to its assignment, as the member's log shows the way."""

    group: str
    heard: Event
    again: tuple[Event, ...]
    """Later refusals before the member joined."""
    revoked: Event | None
    joined: Event | None
    done: Event | None
    before: tuple[str, ...] | None
    """Partitions that the member gave back."""
    after: tuple[str, ...] | None


def client_of(member: str | None) -> str:
    """The member id without its UUID: the client id, or the instance id of a static member; "" for a masked name."""
    return "" if member is None or _MASK.match(member) else _UUID.sub("", member)


def apart_us(first: Event, second: Event) -> int | None:
    """Time from the first to the second event; None if a time is unknown."""
    if first.at_us is None or second.at_us is None:
        return None
    return second.at_us - first.at_us


def ordered(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events by time, then by place. An event without a time keeps its place after its neighbour in the file.

    An event without a group gets the last group that its file and process named before, or the only group of all.
    """
    placed = sorted(events, key=lambda event: (event.file, event.line))
    keyed: list[tuple[int, str, int, Event]] = []
    last: dict[str, int] = {}
    earliest: dict[str, int] = {}
    for event in placed:
        if event.at_us is not None:
            earliest.setdefault(event.file, event.at_us)
    for event in placed:
        at_us = event.at_us if event.at_us is not None else last.get(event.file, earliest.get(event.file, 0))
        last[event.file] = at_us
        keyed.append((at_us, event.file, event.line, event))
    keyed.sort(key=lambda each: each[:3])
    return tuple(_with_groups([event for *_, event in keyed]))


def _with_groups(events: Sequence[Event]) -> Iterator[Event]:
    names = {event.group for event in events if event.group}
    only = next(iter(names)) if len(names) == 1 else None
    last: dict[tuple[object, ...], str] = {}
    for event in events:
        key = (event.file, event.process, event.client)
        if event.group:
            last[key] = event.group
            yield event
        elif event.category == "leadership":
            yield event
        else:
            group = only or last.get(key)
            yield event if group is None else evolve(event, group=group)


@define
class _Open:
    heard: Event
    again: list[Event]
    revoked: Event | None = None
    joined: Event | None = None


class Incident:
    """The events of one incident, in order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = ordered(events)
        self.groups = tuple(dict.fromkeys(event.group for event in self.events if event.group))

    def of(self, *kinds: str, group: str | None = None) -> list[Event]:
        """The events of these kinds, in order; also events that say a second kind (``also``)."""
        return [
            event
            for event in self.events
            if (event.kind in kinds or any(kind in kinds for kind in event.also or ()))
            and (group is None or event.group == group)
        ]

    def with_error(self, *codes: str, kinds: Sequence[str] = ()) -> list[Event]:
        """The events that state one of these errors."""
        return [event for event in self.events if (not kinds or event.kind in kinds) and error_of(event) in codes]

    @cached_property
    def generations(self) -> tuple[StatedGeneration, ...]:
        """The timeline."""
        return timeline_of(self.events)

    @cached_property
    def begins(self) -> tuple[Event, ...]:
        """The rebalances that a coordinator announced."""
        return tuple(self.of("rebalance-begins"))

    @property
    def span_us(self) -> int:
        """Time from the first to the last event; 0 without times."""
        times = [event.at_us for event in self.events if event.at_us is not None]
        return max(times) - min(times) if times else 0

    def spans(self, group: str) -> list[tuple[Event, int]]:
        """The rebalances of a group with their durations: from the coordinator's begin to its completion."""
        found = []
        start: Event | None = None
        for event in self.of("rebalance-begins", "rebalance-completes", group=group):
            if event.kind == "rebalance-begins":
                start = event
            elif start is not None:
                took_us = apart_us(start, event)
                if took_us is not None:
                    found.append((start, took_us))
                start = None
        return found

    @cached_property
    def departures(self) -> tuple[Departure, ...]:
        """Every membership that ended, once, in order."""
        found: list[Departure] = []
        for event in self.events:
            how = _how(event)
            if how is None or event.group is None:
                continue
            same = next((each for each in reversed(found) if _is_same(each, event, how)), None)
            if same is None:
                found.append(Departure(event.group, event.member, how, (event,)))
            else:
                known = same.member if len(same.member or "") >= len(event.member or "") else event.member
                how = same.how if How.POLL_TIMEOUT not in (same.how, how) else How.POLL_TIMEOUT
                found[found.index(same)] = evolve(same, member=known, how=how, events=(*same.events, event))
        return tuple(found)

    def departures_by(self, *hows: How) -> list[Departure]:
        """The departures of these kinds."""
        return [each for each in self.departures if each.how in hows]

    @cached_property
    def rejoins(self) -> tuple[MemberRejoin, ...]:
        """The rebalances that members' logs show, by the time of the news."""
        found: list[MemberRejoin] = []
        waiting: dict[tuple[object, ...], _Open] = {}
        owned: dict[tuple[object, ...], tuple[str, ...]] = {}

        def end(key: tuple[object, ...], done: Event | None) -> None:
            each = waiting.pop(key)
            after = done.partitions if done is not None and done.kind == "partitions-assigned" else None
            before = each.revoked.partitions if each.revoked is not None else owned.get(key)
            found.append(
                MemberRejoin(
                    str(key[-1]), each.heard, tuple(each.again), each.revoked, each.joined, done, before, after
                )
            )

        for event in self.events:
            if event.group is None:
                continue
            own: tuple[object, ...] = (event.file, event.process, event.client, event.group)
            each = waiting.get(own)
            match event.kind:
                case "heartbeat-refused" | "rejoin-requested" | "rebalance-seen":
                    if each is None:
                        if error_of(event) == REBALANCING or (event.kind == "heartbeat-refused" and not event.error):
                            waiting[own] = _Open(event, [])
                    elif each.joined is None:
                        each.again.append(event)
                case "revoke-begins" | "revoke-delegated" | "partitions-revoked" | "partitions-unassigning":
                    if each is not None and (each.revoked is None or event.partitions):
                        each.revoked = event
                case "join-sent":
                    if each is not None and each.joined is None:
                        each.joined = event
                case "partitions-assigned" | "session-begins":
                    if event.partitions is not None:
                        owned[own] = event.partitions
                    if each is not None and each.joined is not None:
                        end(own, event)
                case "assignment-synced" if event.partitions is not None:
                    if each is not None:
                        end(own, event)
        for key in list(waiting):
            end(key, None)
        found.sort(key=lambda each: self._place[id(each.heard)])
        return tuple(found)

    @cached_property
    def _place(self) -> dict[int, int]:
        return {id(event): place for place, event in enumerate(self.events)}

    def comes_after(self, first: Event, second: Event) -> bool:
        """Whether the second event is later than the first one."""
        return self._place[id(second)] > self._place[id(first)]

    def after(self, event: Event, *kinds: str, group: str | None = None) -> list[Event]:
        """The later events of these kinds."""
        return [each for each in self.of(*kinds, group=group) if self.comes_after(event, each)]

    def before(self, event: Event, *kinds: str, group: str | None = None) -> list[Event]:
        """The earlier events of these kinds."""
        return [each for each in self.of(*kinds, group=group) if self.comes_after(each, event)]

    @cached_property
    def silences(self) -> tuple[tuple[Event, Event | None, int, int], ...]:
        """Times in which a member's log has no line at all, though it had many heartbeats: (last line, next line or
        None if the process ended, time in us, usual time between heartbeats in us). Members that closed do not count.
        """
        own: dict[tuple[object, ...], list[Event]] = {}
        for event in self.events:
            if event.at_us is not None and event.client is not None:
                own.setdefault((event.file, event.process, event.client, event.group), []).append(event)
        end_us = max((event.at_us for event in self.events if event.at_us is not None), default=0)
        found = []
        for events in own.values():
            beats = [event for event in events if event.kind == "heartbeat-sent"]
            closed = any(map(_is_last, events[-10:]))
            gaps = sorted(gap for a, b in pairwise(beats) if (gap := apart_us(a, b)))
            if len(beats) < FEW_BEATS or not gaps:
                continue
            usual_us = gaps[len(gaps) // 2]
            joins = False
            for event, following in zip(events, (*events[1:], None), strict=True):
                joins = event.kind in ("join-sent", "sync-sent") or (joins and event.kind not in _ANSWERED)
                if closed if following is None else len(beats) < MANY_BEATS:
                    continue
                until_us = end_us if following is None else following.at_us or 0
                silent_us = until_us - (event.at_us or 0)
                if silent_us >= max(SILENT_US, SILENT_BEATS * usual_us) and not joins and not _is_last(event):
                    restarted = following is None or following.kind in _NEW_LIFE
                    found.append((event, None if restarted else following, silent_us, usual_us))
        return tuple(found)

    def silence_before_us(self, event: Event) -> tuple[Event, int, int] | None:
        """The member's last sign of life before an event, the silence, and the usual time between two signs.

        None without two earlier heartbeats of the same file, process and group.
        """
        signs = [
            each
            for each in self.before(event, "heartbeat-sent", "heartbeat-ok", group=event.group)
            if (each.file, each.process, each.client) == (event.file, event.process, event.client)
        ]
        if len(signs) < 2:
            return None
        silence_us = apart_us(signs[-1], event)
        gaps = sorted(gap for a, b in pairwise(signs) if (gap := apart_us(a, b)) is not None)
        if silence_us is None or not gaps:
            return None
        return signs[-1], silence_us, gaps[len(gaps) // 2]


def _is_last(event: Event) -> bool:
    """Whether a member ends with this event, or looks for its coordinator, which it may do for long."""
    ends = any(word in (event.reason or "") for word in ("leaving the group", "being closed"))
    return ends or event.kind in ("member-leaves", "coordinator-lost", "coordinator-lookup", "partitions-revoked")


def _how(event: Event) -> How | None:
    said = f"{event.reason or ''} {event.error or ''}".lower()
    polled = event.kind == "poll-timeout" or "poll-timeout" in (event.also or ())
    if polled or (event.kind in ("member-leaves", "rebalance-begins") and any(word in said for word in POLL_TIMEOUT)):
        return How.POLL_TIMEOUT
    match event.kind:
        case "member-leaves":
            return How.LEFT
        case "member-expires":
            late = ("haven't joined", "not rejoin", "failed to transition")
            return How.NOT_REJOINED if any(words in said for words in late) else How.EXPIRED
        case "rebalance-begins" if event.cause in ("expire", "leave"):
            return How.EXPIRED if event.cause == "expire" else How.LEFT
        case "heartbeat-refused" | "commit-failed" | "sync-failed" if error_of(event) == UNKNOWN_MEMBER:
            return How.UNKNOWN
    return None


def _is_same(known: Departure, event: Event, how: How) -> bool:
    """Whether an event states a departure again: the coordinator writes a line and the reason of the rebalance."""
    if known.group != event.group:
        return False
    gap_us = apart_us(known.events[-1], event)
    if gap_us is not None and abs(gap_us) > SECOND:
        return False
    if gap_us is None and len({each.kind for each in known.events} | {event.kind}) == len(known.events):
        return False
    if known.member and event.member:
        short, long = sorted((known.member, event.member), key=len)
        cut = event.truncated or any(each.truncated for each in known.events) or bool(_MASK.match(short))
        if short != long and not (cut and long.startswith(short)):
            return False
    elif known.events[-1].kind == event.kind:
        return False
    ends = (How.LEFT, How.POLL_TIMEOUT)
    return known.how is how or (known.how in ends and how in ends) or How.NOT_REJOINED in (known.how, how)
