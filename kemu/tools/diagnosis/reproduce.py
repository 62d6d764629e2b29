"""A scenario that repeats an incident: members, topics, settings and external events, inferred from events.

Each part of the scenario is *read* (an event states it), *inferred* (computed from events) or *assumed* (no event
tells; the value is Kafka's default, or a plain choice). Only one group is repeated, a classic group or a group of the
consumer protocol (KIP-848).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from attrs import evolve

from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.text.toml_text import toml_key, toml_value
from kemu.emulator.text.units import duration_text
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.consumer_group.states import ReconcilingState
from kemu.protocol.names import CLASSIC, CONSUMER, broker_host, consumer_host
from kemu.tools.diagnosis.reproduction import (
    Basis,
    Inferred,
    LoggedMembership,
    PlanLine,
    ReproducedHost,
    Reproduction,
)
from kemu.tools.errors import BadInput
from kemu.tools.incident.incident import SECOND, Departure, How, Incident, apart_us, client_of
from kemu.tools.kafka_files.input_files import is_topic
from kemu.tools.logs.events import Event
from kemu.tools.logs.wordings.releases import parse

LEAD_US = 15 * SECOND
"""Time in which a group forms that the events show only in the middle of its life."""
START_US = SECOND
TAIL_US = 5 * SECOND
CLOSED_TAIL_US = SECOND
"""Time after the last event; short if all members ended, because partitions without members count as downtime."""
SESSIONS_MS = (6_000, 10_000, 15_000, 20_000, 30_000, 45_000, 60_000, 90_000, 120_000, 180_000, 300_000)
"""Usual values of session.timeout.ms; an inferred session is the nearest of them."""
NEAR_SHARE = 0.15
RESTART_US = 5 * SECOND
SILENT = "no line in its log"
METADATA_MS = 1_000
"""metadata.max.age.ms of a group whose topic grows."""
PARTITIONS, RATE = 6, "10/s"
_STARTS = ("member-id-issued", "member-joins", "rebalance-begins", "join-sent", "join-answered", "assignment-synced")
_BROKER_STOPS = ("broker-stops", "controlled-shutdown", "coordinator-stops")
_FIRST_US = 50_000
"""Time by which the first member of a rebalance starts before the others."""
_REJOIN_US = 5_000
"""Time from a rejoin to its JoinGroup at the coordinator."""
_NATURAL = "need to revoke partitions"
"""Reason of a member that rejoins after a cooperative revocation, as members of the scenario do."""
FOLLOWS = ("leader-rejoin", "metadata-change")
"""Causes of a rebalance for a member that rejoins. Chance decides which member rejoins first."""
_OF_CONSUMER_PROTOCOL = ("group-epoch-bumped", "target-computed", "member-reconciled", "member-reconciling")
_OF_CLASSIC_MEMBERS = ("join-sent", "join-answered", "assignment-computed", "member-id-issued")
GROUP_PROTOCOL = "group.protocol"
_OTHER_PROTOCOLS = {"share", "streams"}
_CONSUMER_RELEASES = ("4.0", "4.1", "4.2", "4.3")
"""The releases of the profiles with the consumer protocol."""
SLOW_BEATS = 2
_LIMITS_MS = {"session.timeout.ms": (45_000, 60_000), "heartbeat.interval.ms": (5_000, 15_000)}
"""Setting -> Kafka's default limits of the brokers' setting (``GroupCoordinatorConfig`` 4.0)."""
_NAMED_ID = re.compile(r"id=(?P<id>[\w-]+), name=(?P<topic>[a-zA-Z0-9._-]{1,249}), numPartitions=(?P<count>\d{1,6})")
_WITHIN = re.compile(r"within (\d{1,9})ms")
_TOPIC = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<number>\d{1,6})")


def reproduce(incident: Incident, group: str = "", broker_release: str = "") -> Reproduction:
    """The scenario of an incident.

    Args:
        incident: the events.
        group: the group to repeat; "" for the group with the most events.
        broker_release: the first release whose brokers write the words of the events; "": unknown.

    Raises:
        BadInput: no event names a group of consumers with a time and a member.
    """
    counts = Counter(event.group for event in incident.events if event.group and event.kind != "client-internal")
    if not counts:
        raise BadInput("no line names a group: a scenario needs at least one")
    if group and group not in counts:
        raise BadInput(f'no line names the group "{group}"; the lines name {", ".join(sorted(map(str, counts)))}')
    chosen = group or max(sorted(map(str, counts)), key=lambda name: counts[name])
    return _Reproducing(incident, chosen, broker_release).result()


class _Reproducing:
    def __init__(self, incident: Incident, group: str, broker_release: str) -> None:
        self.incident = incident
        self.group = group
        self.broker_release = broker_release
        self.name = group if re.fullmatch(r"[A-Za-z0-9._-]{1,249}", group) else "g"
        self.own = [event for event in incident.events if event.group == group and event.at_us is not None]
        if not self.own:
            raise BadInput(f'no line of the group "{group}" has a time: a plan needs times')
        protocols = {event.protocol for event in self.own if event.kind == "member-joins" and event.protocol}
        if protocols and protocols <= _OTHER_PROTOCOLS:
            kind = " and ".join(sorted(protocols))
            raise BadInput(f'the group "{group}" has the {kind} protocol: only groups of consumers can be repeated')
        self.epochs = [event for event in self.own if event.kind in _OF_CONSUMER_PROTOCOL]
        """Events that only groups of the consumer protocol have."""
        self.parts: list[Inferred] = []
        self.unmatched: list[str] = []
        self.grown: list[tuple[str, int, Event]] = []
        self.members = self._memberships()
        self.hosts = self._hosts()
        if not self.hosts:
            raise BadInput(f'no line names a member of the group "{group}"')
        rows = [row for row in incident.generations if row.group == group]
        self.rows = sorted(rows, key=lambda row: row.generation)
        first = self.rows[0].generation if self.rows else 1
        self.from_empty = self._from_empty(first)
        self.first_generation = first if self.from_empty else max(1, first - 1 if self._begun(first) else first)
        if self.epochs and not self.from_empty:  # each earlier member has an epoch of its own in the scenario
            self.first_generation = first - sum(host.lives[0].started is None for host in self.hosts)
        lead_us = START_US if self.from_empty else LEAD_US
        self.at_us = (self.own[0].at_us or 0) - lead_us
        self.session_ms = 45_000

    # --- who -------------------------------------------------------------------------------------------------------

    def _memberships(self) -> list[LoggedMembership]:
        clients = {event.member: event.client for event in self.own if event.member and event.client}
        found: dict[str, LoggedMembership] = {}
        last: dict[tuple[object, ...], str] = {}
        asked: dict[tuple[object, ...], Event] = {}
        by_process = self._members_of_processes()
        for event in self.own:
            key = (event.file, event.process, event.client)
            names = [unmasked(event.member)] if event.member and not _is_cut(event) else []
            if event.kind in ("assignment-computed", "target-computed") and event.assignment:
                names += list(event.assignment)
            if event.kind == "assignment-received" and event.leader:
                names.append(unmasked(event.leader))
            if not names and event.client and event.kind in ("join-answered", "assignment-synced"):
                names = [last.get(key) or by_process.get(key) or f"{event.client}@{event.process or event.file}"]
            stated = unmasked(event.member) if event.member else None
            if event.kind == "client-internal" and stated not in found:
                if event.assignors:
                    asked[key] = event
                continue
            for name in names:
                if name not in found:
                    client = clients.get(name) or client_of(name) or name
                    found[name] = LoggedMembership(name, client, event, instance=event.instance)
                each = found[name]
                joins = event.kind in _STARTS and (event.kind != "rebalance-begins" or event.cause == "join")
                joins = joins or (event.kind, event.to) == ("client-state", "JOINING")
                if each.started is None and joins and name == stated and each.first is event:
                    each.started = event
                each.instance = each.instance or (event.instance if name == stated else None)
                if name == stated:
                    each.protocol = each.protocol or _protocol_of(event)
                    _note_assignors(each, event, asked.pop(key, None))
            if stated and event.client and event.kind not in ("member-leaves", "member-expires"):
                last[key] = stated
            if event.client and "pro-actively leaving" in (event.reason or "") and last.get(key) in found:
                found[last[key]].closed = found[last[key]].closed or event
        for gone in self.incident.departures:
            left = found.get(unmasked(gone.member)) if gone.member and gone.group == self.group else None
            if left is not None and left.gone is None:
                left.gone = gone
        return list(found.values())

    def _members_of_processes(self) -> dict[tuple[object, ...], str]:
        """A process whose log states no member id is the member to which the leader gave the same partitions."""
        given: dict[tuple[int | None, frozenset[str]], str] = {}
        for event in self.own:
            if event.kind == "assignment-computed":
                for member, names in (event.assignment or {}).items():
                    if isinstance(names, tuple) and names:
                        given[event.generation, frozenset(names)] = member
        found: dict[tuple[object, ...], str] = {}
        generations: dict[tuple[object, ...], int | None] = {}
        for event in self.own:
            key = (event.file, event.process, event.client)
            if event.kind in ("assignment-synced", "join-answered"):
                generations[key] = event.generation
            elif event.kind == "partitions-assigned" and event.partitions and key in generations:
                owner = given.get((generations[key], frozenset(event.partitions)))
                if owner is not None:
                    found.setdefault(key, owner)
        return found

    def _hosts(self) -> list[ReproducedHost]:
        """Memberships of one client id that do not overlap are lives of one process."""
        hosts: list[ReproducedHost] = []
        for each in self.members:
            free = None
            for host in hosts:
                end = host.lives[-1].end
                follows = end is not None and self.incident.comes_after(end, each.first)
                replaced = each.instance and host.lives[-1].instance == each.instance
                if host.client == each.client and end is None and self._is_forgotten(host.lives[-1], each):
                    host.lives[-1].forgotten = replaced = True
                if host.client == each.client and (follows or replaced):
                    free = host
                    break
            if free is None:
                free = ReproducedHost(consumer_host(len(hosts) + 1), each.client)
                hosts.append(free)
            free.lives.append(each)
        return _named_in_order(hosts)

    def _is_forgotten(self, earlier: LoggedMembership, later: LoggedMembership) -> bool:
        """Whether a coordinator stopped between two memberships, and no assignment has the earlier one."""
        stops = self.incident.of(*_BROKER_STOPS, "coordinator-lost")
        between = [
            stop
            for stop in stops
            if self.incident.comes_after(earlier.first, stop) and self.incident.comes_after(stop, later.first)
        ]
        given = (event.assignment or {} for event in self.own if event.kind == "assignment-computed")
        return bool(between) and not any(earlier.member in members for members in given)

    # --- when ------------------------------------------------------------------------------------------------------

    def _begun(self, generation: int) -> bool:
        return any(row.generation == generation and row.begins for row in self.rows)

    def _from_empty(self, first: int) -> bool:
        states = [event.state for event in self.own[:6] if event.state]
        return first == 1 or (bool(states) and states[0] == "Empty")

    def _us(self, event: Event) -> int:
        return max(0, (event.at_us or 0) - self.at_us)

    # --- settings --------------------------------------------------------------------------------------------------

    def _stated(self, what: str, values: Iterable[tuple[int | None, Event]]) -> Inferred | None:
        """The most frequent stated value of a setting in ms."""
        stated = [(ms, event) for ms, event in values if ms is not None and ms > 0]
        counts = Counter(ms for ms, _ in stated)
        if not counts:
            return None
        chosen = max(counts, key=lambda ms: (counts[ms], -ms))
        if len(counts) > 1:
            self.unmatched.append(f"several values of {what} ({', '.join(map(str, counts))}): all members have one")
        return Inferred(what, str(chosen), "read", (next(event for ms, event in stated if ms == chosen),))

    def _session(self) -> Inferred:
        stated = self._stated("session.timeout.ms", ((event.session_ms, event) for event in self.own))
        if stated is not None:
            return stated
        spans: list[tuple[int, Event]] = []
        bounds: list[tuple[int, Event]] = []
        done_kinds = ("rebalance-completes", "member-reconciled")
        for each in self.members:
            if each.gone is None or each.gone.how is not How.EXPIRED:
                continue
            end = each.gone.events[0]
            signs = [
                event
                for event in self.incident.before(end, "heartbeat-ok", "heartbeat-sent", "commit-ok", group=self.group)
                if each.member == event.member or (event.client and event.client == each.client)
            ]
            done = self.incident.before(end, *done_kinds, group=self.group)
            last = done[-1] if done else each.started if self.epochs else None
            bound_us = apart_us(last, end) if last is not None else None
            if bound_us is not None:
                bounds.append((bound_us, end))
            if (signs and (us := apart_us(signs[-1], end)) is not None) or (
                done and len(self.hosts) == 1 and (us := apart_us(done[-1], end)) is not None
            ):
                spans.append((us, end))
        for us, end in spans:
            near = min(SESSIONS_MS, key=lambda ms: abs(ms * 1000 - us))
            if abs(near * 1000 - us) <= NEAR_SHARE * near * 1000 + 200_000:
                return Inferred(
                    "session.timeout.ms", str(near), "inferred", (end,), f"{us / SECOND:.1f} s without a sign"
                )
        old = any(
            "group instance" not in (event.reason or "") and event.kind == "rebalance-begins" for event in self.own
        )
        default = 10_000 if old and not any("client reason" in (event.reason or "") for event in self.own) else 45_000
        most_us = min((us for us, _ in bounds), default=default * 1000)
        if most_us < default * 1000:
            near = max((ms for ms in SESSIONS_MS if ms * 1000 <= most_us), default=SESSIONS_MS[0])
            note = f"at most {most_us / SECOND:.1f} s: from a completed rebalance to the expiry"
            return Inferred("session.timeout.ms", str(near), "assumed", (bounds[0][1],), note)
        return Inferred("session.timeout.ms", str(default), "assumed", (), "the default of the release")

    def _heartbeat(self) -> Inferred | None:
        by_client: dict[object, list[Event]] = {}
        for event in self.own:
            if event.kind == "heartbeat-sent" or (event.kind == "heartbeat-ok" and event.dialect == "request-log"):
                by_client.setdefault((event.file, event.process, event.client), []).append(event)
        gaps = sorted(
            gap
            for events in by_client.values()
            for a, b in pairwise(events)
            if (gap := apart_us(a, b)) and gap < 60 * SECOND
        )
        if len(gaps) < 3:
            return None
        ms = max(100, round(gaps[len(gaps) // 2] / 100_000) * 100)
        return Inferred("heartbeat.interval.ms", str(ms), "inferred", (), f"the median of {len(gaps)} gaps")

    def _poll_interval(self) -> Inferred | None:
        late = [(int(found[1]), event) for event in self.own if (found := _WITHIN.search(event.reason or ""))]
        stated = self._stated("max.poll.interval.ms", [*((event.rebalance_ms, event) for event in self.own), *late])
        if stated is not None:
            return stated
        gone = [each for each in self.members if each.gone is not None and each.gone.how is How.POLL_TIMEOUT]
        if not gone:
            return None
        spans = []
        for each in gone:
            assert each.gone is not None
            end = each.gone.events[0]
            own = self.incident.before(end, "partitions-assigned", "assignment-received", group=self.group)
            if own and (us := apart_us(own[-1], end)):
                spans.append(us)
        if not spans or min(spans) >= 300 * SECOND:
            return Inferred("max.poll.interval.ms", "300000", "assumed", (), "the default")
        ms = max(1000, min(spans) // (2 * SECOND) * 1000)
        note = f"at most {min(spans) / SECOND:.1f} s: from an assignment to the departure; half of it is taken"
        return Inferred("max.poll.interval.ms", str(ms), "assumed", (), note)

    def _delay(self) -> Inferred:
        if self.from_empty:
            for begin, us in self.incident.spans(self.group):
                if us < SECOND // 2:
                    return Inferred("group.initial.rebalance.delay.ms", "0", "inferred", (begin,))
                if us >= 2_900_000:
                    return Inferred("group.initial.rebalance.delay.ms", "3000", "inferred", (begin,))
                break
        return Inferred("group.initial.rebalance.delay.ms", "3000", "assumed", (), "the default")

    def _assignors(self) -> Inferred:
        """The list of the first process; other processes have lists of their own."""
        first = next((life for host in self.hosts for life in host.lives if life.assignors), None)
        if first is None:
            named = [event for event in self.own if (event.assignor or event.protocol) in ASSIGNORS]
            if named:
                return Inferred("assignors", str(named[0].assignor or named[0].protocol), "read", (named[0],))
            return Inferred("assignors", "range", "assumed", (), "the default until 2.4, and preferred since")
        basis: Basis = "read" if first.listed is not None and first.listed.assignors else "inferred"
        evidence = (first.listed,) if first.listed is not None else ()
        return Inferred("assignors", ", ".join(first.assignors), basis, evidence)

    def _becomes(self, host: ReproducedHost, number: int) -> LoggedMembership | None:
        """The next membership of a process, if its protocol or its list of assignors is another one."""
        later = host.lives[number + 1] if number + 1 < len(host.lives) else None
        if later is None or later.started is None:
            return None
        if "" not in (later.protocol, host.lives[number].protocol) and later.protocol != host.lives[number].protocol:
            return later
        if not later.assignors or later.protocol == CONSUMER:
            return None
        return later if later.assignors != (host.lives[number].assignors or later.assignors) else None

    def _upgrade(self, host: ReproducedHost, later: LoggedMembership, at_us: int, how: str, *events: Event) -> PlanLine:
        assert later.started is not None
        down_us = max(1_000, self._us(later.started) - at_us)
        keys: dict[str, object] = {
            "group": self.name,
            "hosts": [host.name],
            "how": how,
            "every": duration_text(down_us),
            "down": duration_text(down_us),
        }
        changes = later.assignors if later.protocol != CONSUMER else ()
        if changes:
            keys["assignors"] = list(changes)
        if self.epochs and later.protocol:
            keys["settings"] = [f"{GROUP_PROTOCOL}={later.protocol}"]
            changes = (later.protocol, *changes)
        evidence = (*events, later.started, *([later.listed] if later.listed is not None else []))
        source = Inferred("upgrade of", f"{host.name} to {', '.join(changes)}", "read", evidence)
        return PlanLine(at_us, "rolling-upgrade", "", tuple(keys.items()), source)

    def _topics(self) -> list[tuple[str, int, Inferred]]:
        """(topic, partitions at the first assignment, its basis) of all topics."""
        most: dict[str, int] = {}
        first: dict[str, int] = {}
        shown: dict[str, Event] = {}
        for event in self.own:
            if event.kind not in ("assignment-computed", "assignment-synced", "partitions-assigned"):
                continue
            now: dict[str, int] = {}
            for name in (*(event.partitions or ()), *(name for names in _tuples(event) for name in names)):
                found = _TOPIC.fullmatch(name)
                if found is not None and found["topic"] != "__consumer_offsets":
                    now[found["topic"]] = max(now.get(found["topic"], 0), int(found["number"]) + 1)
            for topic, count in now.items():
                shown.setdefault(topic, event)
                whole = event.kind == "assignment-computed"
                if topic in first and whole and count > most[topic]:
                    self.grown.append((topic, count, event))
                most[topic] = max(most.get(topic, 0), count)
                if whole:
                    first.setdefault(topic, most[topic])
        if not most and (told := self._topics_by_id()):
            return told
        if not most:
            return [("orders", PARTITIONS, Inferred("topic", f"orders with {PARTITIONS} partitions", "assumed"))]
        note = "at least: the highest partition in an assignment"
        return [
            (topic, count, Inferred("topic", f"{topic} with {count} partitions", "inferred", (shown[topic],), note))
            for topic, count in sorted((most | first).items())
        ]

    def _topics_by_id(self) -> list[tuple[str, int, Inferred]]:
        """The topics of targets, which a broker's log names by id; a new topic id is a topic."""
        named: dict[str, tuple[str, Event]] = {}
        subscribed: dict[str, None] = {}
        most: dict[str, int] = {}
        first: dict[str, tuple[int, Event]] = {}
        for event in self.own:
            for found in _NAMED_ID.finditer(event.topics or ""):
                named.setdefault(found["id"], (found["topic"], event))
            if event.member and event.topics:
                subscribed |= dict.fromkeys(filter(is_topic, event.topics.strip("[]. ").split(", ")))
            if event.kind != "target-computed" or not event.assignment:
                continue
            now: dict[str, int] = {}
            for given in event.assignment.values():
                for topic_id, numbers in given.items() if isinstance(given, Mapping) else ():
                    now[topic_id] = max(now.get(topic_id, 0), max(numbers, default=-1) + 1)
            for topic_id, count in now.items():
                first.setdefault(topic_id, (count, event))
                if count > most.setdefault(topic_id, count):
                    most[topic_id] = count
                    self.grown.append((topic_id, count, event))
        names = {topic_id: name for topic_id, (name, _) in named.items()}
        left = [topic_id for topic_id in first if topic_id not in names]
        unused = [name for name in subscribed if name not in names.values()]
        if len(left) == len(unused) == 1:
            names[left[0]] = unused[0]
        names |= {topic_id: f"topic-{number}" for number, topic_id in enumerate(first, 1) if topic_id not in names}
        self.grown = [(names[topic_id], count, event) for topic_id, count, event in self.grown]
        note = "the partitions of the first target"
        return [
            (
                names[topic_id],
                count,
                Inferred("topic", f"{names[topic_id]} with {count} partitions", "read", (event,), note),
            )
            for topic_id, (count, event) in first.items()
        ]

    # --- external events ---------------------------------------------------------------------------------------------

    def _plan(self) -> Iterator[PlanLine]:
        for host in self.hosts:
            for number, life in enumerate(host.lives):
                yield from self._start(host, number, life)
                yield from self._end(host, number, life)
        yield from self._pauses()
        yield from self._slow_revocations()
        yield from self._growth()
        yield from self._rejoins()
        yield from self._brokers()

    def _pauses(self) -> Iterator[PlanLine]:
        """Processes whose logs have no line for several heartbeats, and then continue."""
        beating = {event.member for event in self.own if event.kind == "heartbeat-sent"}
        for last, following, silent_us, _ in self.incident.silences:
            if self.epochs and last.member not in beating:
                continue  # the lines of an earlier member of the process have heartbeats, those of this member do not
            host = next((host for host in self.hosts if host.client == last.client), None)
            if following is None or host is None or last.group != self.group:
                continue
            source = Inferred("pause of", host.name, "inferred", (last, following), SILENT)
            yield PlanLine(self._us(last) + 1_000, "pause", host.name, (("for", duration_text(silent_us)),), source)

    def _slow_revocations(self) -> Iterator[PlanLine]:
        """Members of the consumer protocol that keep revoked partitions for several heartbeats.

        A member gives partitions up in poll(), and its next heartbeat follows at once.
        """
        asked: dict[str | None, Event] = {}
        for event in self.own:
            if event.kind in ("member-leaves", "member-expires", "member-joins"):
                asked.pop(event.member, None)
            if event.kind != "member-reconciled":
                continue
            if event.state == ReconcilingState.UNREVOKED_PARTITIONS.name:
                asked.setdefault(event.member, event)
                continue
            told = asked.pop(event.member, None)
            held_us = apart_us(told, event) if told is not None else None
            host = next((host for host in self.hosts if any(life.member == event.member for life in host.lives)), None)
            if told is None or held_us is None or host is None or held_us < SLOW_BEATS * 1_000 * self.beat_ms:
                continue
            note = f"it kept revoked partitions for {held_us / SECOND:.1f} s"
            source = Inferred("stop of polling of", host.name, "inferred", (told, event), note)
            keys = (("for", duration_text(held_us)),)
            yield PlanLine(max(0, self._us(told) - _FIRST_US), "stop-polling", host.name, keys, source)

    def _is_repeated(self, line: PlanLine, plan: Sequence[PlanLine]) -> bool:
        """Whether a pause from a silent log is also the pause or crash from the coordinator's view."""
        near_us = 2_000 * self.beat_ms
        others = [other for other in plan if other is not line and other.host == line.host]
        return line.source.note == SILENT and any(
            other.action in ("pause", "crash", "stop-polling") and abs(other.at_us - line.at_us) <= near_us
            for other in others
        )

    def _growth(self) -> Iterator[PlanLine]:
        """Topics that get partitions: the first assignment with higher partitions follows the growth."""
        for topic, count, event in self.grown:
            begins = self.incident.before(
                event, "rebalance-begins", "join-sent", "group-epoch-bumped", group=self.group
            )
            at = begins[-1] if begins else event
            source = Inferred("growth of", f"{topic} to {count} partitions", "inferred", (at, event))
            keys = (("topic", topic), ("partitions", count))
            yield PlanLine(max(0, self._us(at) - METADATA_MS * 500), "grow-topic", "", keys, source)

    def _rejoins(self) -> Iterator[PlanLine]:
        """Rebalances that a leader starts for a change that the events do not show, such as new metadata."""
        cooperative = any("cooperative" in name for life in self.members for name in life.assignors)
        grown = [event for _, _, event in self.grown]
        begun: set[int | None] = set()
        for event in self.own:
            again = event.old_generation in begun  # another coordinator begins the same rebalance
            if event.kind == "rebalance-begins":
                begun.add(event.old_generation)
            again = again and event.cause != "leader-rejoin"
            if event.kind != "rebalance-begins" or again or event.cause not in (*FOLLOWS, "other", "store-error"):
                continue
            reason = event.reason or ""
            near = any(0 <= (apart_us(event, growth) or 0) < 10 * SECOND for growth in grown)
            if near or _NATURAL in reason or (cooperative and "client reason" not in reason):
                continue
            host = next((host for host in self.hosts if any(life.member == event.member for life in host.lives)), None)
            if event.cause == "leader-rejoin" and host is not None:
                source = Inferred("rejoin of", host.name, "inferred", (event,), "the leader rejoined")
                yield PlanLine(max(0, self._us(event) - _REJOIN_US), "enforce-rebalance", host.name, (), source)
            else:
                self.unmatched.append(
                    f"{event.file}:{event.line}: {reason}: the scenario has no event with this effect"
                )

    def _first_members_start_first(self, plan: Sequence[PlanLine]) -> list[PlanLine]:
        """The member that a coordinator names for a rebalance joined before others that started at the same time."""
        lines = list(plan)
        for event in self.own:
            if event.kind != "rebalance-begins" or event.cause != "join":
                continue
            named = {host.name for host in self.hosts if any(life.member == event.member for life in host.lives)}
            starts = [
                line for line in lines if line.action == "start-host" and 0 <= self._us(event) - line.at_us < SECOND
            ]
            own = [line for line in starts if line.host in named]
            others = [line for line in starts if line.host not in named and own and line.at_us <= own[0].at_us]
            if others:
                at_us = max(0, min(line.at_us for line in others) - _FIRST_US)
                lines[lines.index(own[0])] = evolve(own[0], at_us=at_us)
        return lines

    def _start(self, host: ReproducedHost, number: int, life: LoggedMembership) -> Iterator[PlanLine]:
        if number and (host.lives[number - 1].forgotten or self._becomes(host, number - 1) is not None):
            return
        if number:
            before = host.lives[number - 1].gone
            if before is not None and before.how in (How.POLL_TIMEOUT, How.UNKNOWN, How.NOT_REJOINED):
                return  # the same process rejoins
            if before is not None and before.how is How.EXPIRED:
                return  # the crash ends
        basis: Basis = "read" if life.started is not None else "assumed"
        at_us = START_US if life.started is None else self._us(life.started)
        note = "" if life.started is not None else "a member before the first line"
        evidence = (life.started or life.first,)
        source = Inferred("start of", f"{host.name} ({life.client})", basis, evidence, note)
        yield PlanLine(at_us, "start-host", host.name, (), source)

    def _end(self, host: ReproducedHost, number: int, life: LoggedMembership) -> Iterator[PlanLine]:
        gone, following = life.gone, host.lives[number + 1] if number + 1 < len(host.lives) else None
        later = self._becomes(host, number)
        if life.forgotten:
            return
        if gone is None:
            if life.closed is not None and later is not None:
                yield self._upgrade(host, later, self._us(life.closed), "close", life.closed)
            elif life.closed is not None:
                source = Inferred("end of", host.name, "read", (life.closed,), "a static member closes")
                yield PlanLine(self._us(life.closed), "close-host", host.name, (), source)
            elif following is not None and following.started is not None:
                at_us = max(0, self._us(following.started) - RESTART_US)
                source = Inferred("end of", host.name, "assumed", (following.started,), "replaced by a new member id")
                yield PlanLine(at_us, "close-host", host.name, (), source)
            return
        end_us = self._us(gone.events[0])
        back_us = self._us(following.started or following.first) if following is not None else None
        match gone.how:
            case How.LEFT if later is not None:
                yield self._upgrade(host, later, end_us, "close", *gone.events)
            case How.LEFT:
                yield PlanLine(
                    end_us, "close-host", host.name, (), Inferred("close of", host.name, "read", gone.events)
                )
            case How.POLL_TIMEOUT | How.NOT_REJOINED:
                interval_us = 1000 * int(self.poll_ms)
                at_us = max(0, end_us - interval_us)
                for_us = (back_us if back_us is not None else end_us + 4 * interval_us) - at_us
                basis: Basis = "inferred" if back_us is not None else "assumed"
                source = Inferred(
                    "stop of polling of", host.name, basis, gone.events, "it ends with the member's return"
                )
                yield PlanLine(at_us, "stop-polling", host.name, (("for", duration_text(for_us)),), source)
            case How.EXPIRED:
                told = [
                    each
                    for each in self.incident.departures_by(How.UNKNOWN)
                    if each.member == life.member and self.incident.comes_after(gone.events[0], each.events[0])
                ]
                told += self._same_id_again(life, gone)
                at_us = max(0, end_us - 1000 * self.session_ms + self.beat_ms * 500)
                if later is not None:
                    yield self._upgrade(host, later, at_us, "crash", *gone.events)
                elif told:
                    for_us = self._us(told[0].events[0]) - at_us
                    source = Inferred("pause of", host.name, "inferred", (*gone.events, *told[0].events),
                                      "expired, and later told so")  # fmt: skip
                    yield PlanLine(at_us, "pause", host.name, (("for", duration_text(for_us)),), source)
                else:
                    for_us = 0 if back_us is None else max(0, back_us - at_us)
                    source = Inferred("crash of", host.name, "inferred", gone.events, "a session before its expiry")
                    keys = (("mode", "process"), ("for", duration_text(for_us)))
                    yield PlanLine(at_us, "crash", host.name, keys, source)
            case How.UNKNOWN:
                last = self.incident.silence_before_us(gone.events[0])
                at_us = self._us(last[0]) if last is not None else max(0, end_us - 2000 * self.session_ms)
                source = Inferred("pause of", host.name, "inferred" if last else "assumed", gone.events)
                yield PlanLine(at_us + 1, "pause", host.name, (("for", duration_text(end_us - at_us)),), source)

    def _same_id_again(self, life: LoggedMembership, gone: Departure) -> list[Departure]:
        """The rejoin of an expired member under its id, which a member of the consumer protocol keeps."""
        again = [
            event
            for event in self.incident.after(gone.events[-1], "member-joins", group=self.group)
            if self.epochs and event.member == life.member
        ]
        return [evolve(gone, how=How.UNKNOWN, events=tuple(again[:1]))] if again else []

    def _brokers(self) -> Iterator[PlanLine]:
        ids = self._broker_ids()
        stops = self.incident.of(*_BROKER_STOPS)
        last: dict[str, int] = {}
        for event in (event for event in self.incident.events if event in stops or event.kind == "broker-started"):
            if event.at_us is None:
                continue
            key = str(event.broker if event.broker is not None else event.node or "")
            host = broker_host(ids.index(key) if key in ids else 0)
            action = "start-host" if event.kind == "broker-started" else "close-host"
            if action == "close-host" and host in last:
                continue  # several lines state one stop
            if action == "start-host" and host not in last:
                continue  # the start of the cluster
            if self._us(event) <= 0:
                continue
            last = {**last, host: 0} if action == "close-host" else {name: 0 for name in last if name != host}
            ready = self._loaded(event, stops) if action == "start-host" else None
            evidence, note = ((event,), "") if ready is None else ((event, ready), "when it had loaded the group")
            source = Inferred("broker", f"{action} {host}", "read", evidence, note)
            yield PlanLine(self._us(ready or event), action, host, (), source)

    def _loaded(self, start: Event, stops: Sequence[Event]) -> Event | None:
        """The event in which a broker that started has loaded the group; brokers of a scenario load at once."""
        for event in self.incident.after(start, "group-loaded", group=self.group):
            if any(self.incident.comes_after(start, stop) and self.incident.comes_after(stop, event) for stop in stops):
                return None
            if event.file == start.file and event.generation is not None:
                return event
        return None

    def _broker_ids(self) -> list[str]:
        kinds = ("broker-stops", "controlled-shutdown", "coordinator-stops", "broker-started", "rebalance-begins")
        named = [
            str(event.broker if event.broker is not None else event.node)
            for event in self.incident.events
            if event.kind in kinds and (event.broker is not None or event.node)
        ]
        return sorted(set(named))

    def _profile(self) -> Inferred:
        """The profile of the broker's release; the words of several releases are equal."""
        release = self.broker_release
        known = [each for each in _CONSUMER_RELEASES if release and parse(each) <= parse(release)]
        if not known:
            return Inferred("profile", f"kafka-{_CONSUMER_RELEASES[0]}", "assumed", (), "the first with the protocol")
        return Inferred("profile", f"kafka-{known[-1]}", "inferred", (), f"brokers of {release} or later write so")

    def _remote_assignor(self) -> Inferred:
        named = [event for event in self.own if event.kind == "target-computed" and event.assignor]
        if named:
            return Inferred("group.remote.assignor", str(named[0].assignor), "read", (named[0],))
        return Inferred("group.remote.assignor", "uniform", "assumed", (), "the default")

    # --- the file ----------------------------------------------------------------------------------------------------

    def result(self) -> Reproduction:
        session, beat, poll = self._session(), self._heartbeat(), self._poll_interval()
        self.session_ms = int(session.value)
        default_ms = 5_000 if self.epochs else 3_000
        self.beat_ms = int(beat.value) if beat is not None else min(default_ms, self.session_ms // 3)
        self.poll_ms = poll.value if poll is not None else "300000"
        topics = self._topics()
        protocols = {host.name: host.lives[0].protocol or CONSUMER for host in self.hosts} if self.epochs else {}
        of_consumers = bool(self.epochs) and CLASSIC not in protocols.values()
        if of_consumers:
            of_brokers = [row for each in (session, beat) if each for row in _of_brokers(each)]
            settings = [Inferred(GROUP_PROTOCOL, CONSUMER, "read", (self.epochs[0],)), *([poll] if poll else [])]
        else:
            of_brokers = [self._delay()]
            settings = [session, *([beat] if beat else []), *([poll] if poll else [])]
        if self.grown and not of_consumers:
            note = "so that members soon see the new partitions"
            settings.append(Inferred("metadata.max.age.ms", str(METADATA_MS), "assumed", (), note))
        assignors = self._remote_assignor() if of_consumers else self._assignors()
        plan = sorted(self._first_members_start_first(list(self._plan())), key=lambda line: (line.at_us, line.host))
        plan = [line for line in plan if not self._is_repeated(line, plan)]
        closed = all(host.lives[-1].end is not None for host in self.hosts)
        end_us = max((self._us(event) for event in self.own), default=0) + (CLOSED_TAIL_US if closed else TAIL_US)
        count = max(1, len(self._broker_ids()))
        brokers = Inferred("brokers", str(count), "read" if count > 1 else "assumed")
        profile = self._profile() if self.epochs else None
        self.parts += [*([profile] if profile else []), brokers, *of_brokers]
        self.parts += [*(topic[2] for topic in topics), assignors, *settings]
        self.parts += [line.source for line in plan]
        static = [host for host in self.hosts if any(life.instance for life in host.lives)]
        lines = [f"# {part.text}" for part in self.parts]
        lines += [f"# not repeated: {each}" for each in self.unmatched]
        lines += [
            f"summary = {toml_value(f'Group {self.group}, repeated from a log')}",
            f"duration = {toml_value(duration_text(end_us))}",
            *([f"profile = {toml_value(profile.value)}"] if profile else []),
            *("", "[draws]", 'set = "calm"', 'identity = "uuid"'),
            *("", "[brokers]", f"count = {count}", *(f"config.{each.what} = {each.value}" for each in of_brokers)),
        ]
        for topic, partitions, _ in topics:
            lines += ["", f"[topics.{toml_key(topic)}]", f"partitions = {partitions}", f'rate = "{RATE}"']
        group = toml_key(self.name)
        lines += [
            *("", f"[groups.{group}]", f"topics = {toml_value([topic for topic, *_ in topics])}"),
            f"members = {len(self.hosts)}",
            _assignors_line(assignors),
            f"labels = {toml_value([host.client[:40] for host in self.hosts])}",
            *(f"config.{setting.what} = {_setting_value(setting.value)}" for setting in settings),
        ]
        for host in self.hosts:
            lines += ["", f"[groups.{group}.overrides.{host.name}]", "start_later = true"]
            if host in static:
                instance = next(life.instance for life in host.lives if life.instance)
                lines.append(f"instance = {toml_value(instance)}")
            own = next((life.assignors for life in host.lives if life.assignors), ())
            if protocols.get(host.name) == CONSUMER and not of_consumers:
                lines.append(f"config.{GROUP_PROTOCOL} = {toml_value(CONSUMER)}")
            elif own and not of_consumers and ", ".join(own) != assignors.value:
                lines.append(f"assignors = {toml_value(list(own))}")
        for line in plan:
            lines += ["", "[[plan]]", f"at = {toml_value(duration_text(line.at_us))}", f'do = "{line.action}"']
            lines += [
                *([f'host = "{line.host}"'] if line.host else []),
                *(f"{key} = {toml_value(value)}" for key, value in line.keys),
            ]
        toml = "\n".join(lines) + "\n"
        names = tuple((life.member, host.name) for host in self.hosts for life in host.lives)
        return Reproduction(
            self.group, toml, scenario_from_toml(toml), tuple(self.parts), names, self.first_generation, self.at_us,
            tuple(self.unmatched), bool(self.epochs),
        )  # fmt: skip


def _named_in_order(hosts: list[ReproducedHost]) -> list[ReproducedHost]:
    """The hosts with names in the order of their member ids, by which assignors sort members.

    Clients with names such as c1 keep their names.
    """
    names = [consumer_host(number + 1) for number in range(len(hosts))]
    if sorted(host.client for host in hosts) == sorted(names):
        for host in hosts:
            host.name = host.client
        return hosts
    in_order = sorted(hosts, key=lambda host: (host.lives[0].instance or host.client, host.lives[0].member))
    for host, name in zip(in_order, sorted(names), strict=True):
        host.name = name
    return hosts


def _note_assignors(life: LoggedMembership, event: Event, asked: Event | None) -> None:
    """Add the assignors that an event of a member states."""
    for each in filter(None, (asked, event)):
        listed = tuple(name for name in each.assignors or () if name in ASSIGNORS)
        if listed and (life.listed is None or not life.listed.assignors):
            life.assignors, life.listed = listed, each
    one = event.assignor or event.protocol
    if one is not None and one in ASSIGNORS and (life.listed is None or not life.listed.assignors):
        life.assignors, life.listed = (one, *(name for name in life.assignors if name != one)), event


def _protocol_of(event: Event) -> str:
    """The protocol of the member that an event names; "" if the event does not tell."""
    if event.kind == "member-joins" and event.protocol in (CLASSIC, CONSUMER):
        return str(event.protocol)
    if event.dialect == "java-kip848-client":
        return CONSUMER
    of_broker = event.dialect in ("broker-java-classic", "broker-scala")
    return CLASSIC if of_broker or event.kind in _OF_CLASSIC_MEMBERS else ""


def _of_brokers(setting: Inferred) -> Iterator[Inferred]:
    """The setting of the brokers for a setting of classic members, with its limit if the default limit refuses it."""
    yield evolve(setting, what=f"group.consumer.{setting.what}")
    least, most = _LIMITS_MS[setting.what]
    for limit, is_passed in (("min", int(setting.value) < least), ("max", int(setting.value) > most)):
        if is_passed:
            yield Inferred(
                f"group.consumer.{limit}.{setting.what}", setting.value, "inferred", (), "it allows the value"
            )


def _assignors_line(assignors: Inferred) -> str:
    if assignors.what == "assignors":
        return f"assignors = {toml_value(assignors.value.split(', '))}"
    return f"config.{assignors.what} = {toml_value(assignors.value)}"


def _setting_value(value: str) -> str:
    return value if value.isdecimal() else toml_value(value)


def unmasked(member: str) -> str:
    """The member id; one name for all names that somebody masked."""
    return member if client_of(member) else "*"


def _is_cut(event: Event) -> bool:
    """Whether the member's name may be torn: the reason of a rebalance ends with the name."""
    return bool(event.truncated) and event.kind == "rebalance-begins"


def _tuples(event: Event) -> Iterable[Sequence[str]]:
    return [names for names in (event.assignment or {}).values() if isinstance(names, tuple)]
