"""``session-expired``, ``static-member-session-expired``: the coordinator removed a member without heartbeats."""

from collections.abc import Sequence
from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Departure, How, Incident, apart_us
from kemu.tools.incident.words import plural
from kemu.tools.logs.events import Event

TOGETHER_US = 5 * SECOND
"""Sessions that end within this time may have one reason."""


def expiries(incident: Incident, static: bool) -> list[Departure]:
    """The sessions that the coordinator ended, of static or of dynamic members."""
    gone = incident.departures_by(How.EXPIRED)
    return [each for each in gone if is_static(incident, each) is static and not _ends_with_all(incident, each, gone)]


def _ends_with_all(incident: Incident, each: Departure, gone: Sequence[Departure]) -> bool:
    """Whether all members of a group expired together, as static members do that were closed for good (KIP-345)."""
    empty = incident.after(each.events[0], "group-empty", group=each.group)
    if not empty or incident.after(empty[0], "rebalance-begins", group=each.group):
        return False
    others = [other for other in gone if other.group == each.group and other is not each]
    return bool(others) and all(
        gap is not None and abs(gap) <= TOGETHER_US
        for end in (*(other.events[0] for other in others), empty[0])
        for gap in (apart_us(each.events[0], end),)
    )


def is_static(incident: Incident, gone: Departure) -> bool:
    """Whether the log says that a member is static: an instance id, or a group of static members only."""
    if any(event.instance for event in gone.events):
        return True
    named = incident.of("member-joins", "rebalance-begins", "static-replaced", group=gone.group)
    if any(event.instance and gone.member == event.member for event in named):
        return True
    counts = incident.of("assignment-received", "rebalance-completes", group=gone.group)
    after = [event for event in counts if incident.comes_after(gone.events[0], event) and event.static is not None]
    before = [event for event in counts if incident.comes_after(event, gone.events[0]) and event.static is not None]
    near = after[:1] or before[-1:]
    return any(event.static and event.static == event.members for event in near)


def scope(gone: Sequence[Departure]) -> str:
    """The number of processes, hosts or networks that the sessions' times point to."""
    bursts: list[list[Departure]] = []
    for each in gone:
        gap_us = apart_us(bursts[-1][-1].events[0], each.events[0]) if bursts else None
        if gap_us is not None and gap_us <= TOGETHER_US:
            bursts[-1].append(each)
        else:
            bursts.append([each])
    most = max(bursts, key=len)
    if len(most) == 1:
        return "one process at a time"
    if len({each.group for each in most}) > 1:
        return (
            f"{len(most)} members of several groups within {TOGETHER_US // SECOND} s: a host, the network or a broker"
        )
    return f"{len(most)} members of one group within {TOGETHER_US // SECOND} s: one host, or its network"


def _named(gone: Sequence[Departure]) -> str:
    names = list(dict.fromkeys(each.member or "a member that the log does not name" for each in gone))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _own(incident: Incident, each: Departure) -> list[Event]:
    """The lines of the process that was the member."""
    own = [event for event in incident.events if event.member == each.member and event.client and not event.of_broker]
    return [event for event in incident.events if own and _process(event) == _process(own[0])]


def _process(event: Event) -> tuple[str, int | None, str | None]:
    return event.file, event.process, event.client


def _last_lines(incident: Incident, gone: Sequence[Departure]) -> list[Event]:
    """The last line of each member's own log before its expiry."""
    before = ([event for event in _own(incident, each) if incident.comes_after(event, each.events[0])] for each in gone)
    return [events[-1] for events in before if events]


def _own_logs(incident: Incident, gone: Sequence[Departure]) -> str:
    """The end of the own log of the only member, in words, or the lines after the expiry; "" for several members."""
    last = _last_lines(incident, gone)
    if len(gone) > 1 or not last:
        return ""
    silent_us = apart_us(last[0], gone[0].events[0]) or 0
    goes_on = _own(incident, gone[0])[-1] is not last[0]
    what = "has later lines: a pause, or the network" if goes_on else "ends there: a dead process"
    return f"; its own log is silent for {silent_us / SECOND:.1f} s before the expiry and {what}"


_OF_BROKERS = Remedy(
    "setting", "with group.protocol=consumer, group.consumer.session.timeout.ms of the brokers instead", "KIP-848"
)
"""The setting of the consumer protocol, whose members have no session timeout of their own."""


class SessionExpired(KnownCause):
    """A dynamic member sent no heartbeat for its session timeout."""

    id: ClassVar[str] = "session-expired"
    means: ClassVar[str] = "The coordinator received no heartbeat of a member for session.timeout.ms, and removed it."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "find out whether the process died, was paused, or lost its network", "KIP-62"),
        Remedy("setting", "session.timeout.ms longer than the pauses of the process", "KIP-735"),
        Remedy("setting", "heartbeat.interval.ms at most a third of session.timeout.ms", "ConsumerConfig (3.9)"),
        _OF_BROKERS,
    )
    gives_way_to: ClassVar[tuple[str, ...]] = (
        *("unclean-leave-then-session-timeout", "process-or-network-stalled", "client-bug-kafka-python-iterator"),
        *("max-poll-interval-exceeded", "coordinator-unreachable"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """Expiries in the coordinator's log; else members' logs that say UNKNOWN_MEMBER_ID."""
        gone = expiries(incident, static=False)
        if gone:
            return Finding(
                says=f"{plural(len(gone), 'session')} expired ({scope(gone)}): {_named(gone)}"
                + _own_logs(incident, gone),
                confidence=0.9,
                evidence=(*(event for each in gone for event in each.events), *_last_lines(incident, gone)),
                against=self._missing(incident, gone),
            )
        told = [each for each in incident.departures_by(How.UNKNOWN) if not self._left(incident, each)]
        if not told:
            return self._ended(incident)
        return Finding(
            says=f"the coordinator no longer knew {_named(told)}",
            confidence=0.5,
            evidence=tuple(event for each in told for event in each.events),
            against=("no line of the coordinator says that a session expired", "no heartbeats in the log"),
        )

    def _ended(self, incident: Incident) -> Finding | None:
        """A member's log that ends between two heartbeats, without LeaveGroup, and others that then rebalance."""
        for last, following, silent_us, _ in incident.silences:
            heard = [each.heard for each in incident.rejoins if each.group == last.group]
            heard = [event for event in heard if incident.comes_after(last, event) and event.client != last.client]
            if following is None and heard:
                return Finding(
                    says=f"the log of {last.client} ends without LeaveGroup {silent_us / SECOND:.1f} s before the end,"
                    f" and the others rebalance {(apart_us(last, heard[0]) or 0) / SECOND:.1f} s later",
                    confidence=0.6,
                    evidence=(last, heard[0]),
                    against=("the coordinator's log is missing",),
                )
        return None

    def _left(self, incident: Incident, told: Departure) -> bool:
        left = incident.departures_by(How.LEFT, How.POLL_TIMEOUT)
        return any(each.group == told.group and incident.comes_after(each.events[0], told.events[0]) for each in left)

    def _missing(self, incident: Incident, gone: Sequence[Departure]) -> tuple[str, ...]:
        joined = {event.member for event in incident.of("member-joins", "rebalance-begins") if event.member}
        again = [each for each in gone if each.client_id and any(
            name != each.member and name.startswith(each.client_id) for name in joined
        )]  # fmt: skip
        logged = len(_last_lines(incident, gone)) == len(gone)
        said = [] if logged else ["the member's own log is missing: a dead process and a cut network look alike"]
        return (*said, "a member of the same client id joined") if again else tuple(said)


class StaticMemberSessionExpired(KnownCause):
    """A static member was away for longer than its session."""

    id: ClassVar[str] = "static-member-session-expired"
    means: ClassVar[str] = "A static member was away for longer than session.timeout.ms, so its return is a rebalance."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("setting", "session.timeout.ms longer than a restart", "KIP-345"),
        _OF_BROKERS,
        Remedy("action", "remove a member for good with LeaveGroup by instance id", "KIP-345"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """Expiries of members with an instance id."""
        gone = expiries(incident, static=True)
        if not gone:
            return None
        stated = any(event.instance for each in gone for event in each.events)
        return Finding(
            says=f"{plural(len(gone), 'static session')} expired ({scope(gone)}): {_named(gone)}",
            confidence=0.9 if stated else 0.8,
            evidence=tuple(event for each in gone for event in each.events),
            against=() if stated else ("the member counts as static because all members of its group are static",),
        )
