"""A plan's scenario with the times of a run of a real Kafka: actions take effect at the same times.

A timeline has the times of commands. The delay until a command affects the group depends on the machine. A process
starts before its first JoinGroup, and a broker reads its disk before it answers. A course has the times of the effects
(``Course.took_effect``). This module builds a plan from these times, for the scenario that is compared with the course.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

import attrs
from attrs import frozen

from kemu.emulator.chance import Seeded
from kemu.emulator.draws import DrawSet
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions.consumers import ChangeSubscription
from kemu.emulator.plan.actions.hosts import Crash, Pause
from kemu.emulator.plan.actions.operators import (
    AddMembers,
    CloseHost,
    GrowTopic,
    RemoveMembers,
    RollingRestart,
    RollingUpgrade,
    StartHost,
)
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.draws import DrawName
from kemu.protocol.names import broker_host, consumer_host, number_of
from lab.conformance import rig
from lab.conformance.course import Course

LEAD_MS = 3
"""Time from the start of an emulated member until the arrival of its first JoinGroup at the coordinator, in ms. Before
the JoinGroup the member requests metadata and the coordinator over a network with a latency of at least 0.3 ms."""
LEAD_OF_CONSUMER_PROTOCOL_MS = LEAD_MS + 7
"""The same for a member of the consumer protocol, with the median of ``first.beat``."""
AT_ONCE_MS = 100
CLOSE_US = 1
"""Interval of a rolling upgrade of a single member, in us; the action needs a positive interval."""
WIDER = 1.5
"""Factor by which a drawn range of loading times exceeds the course's least and most. Two observed times are rarely the
extremes, and each coordinator loads many partitions."""
ASSIGNORS: Mapping[str, str] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


class Effect(StrEnum):
    """Effects of actions on a group. In a course, a host, broker or number follows the word."""

    JOINS = "joins"
    CLOSES = "closes"
    IS_KILLED = "is-killed"
    PAUSED = "stands-still"
    RESUMED = "goes-on"
    GROWS = "grows"
    BROKER_CLOSES = "broker-closes"
    BROKER_IS_KILLED = "broker-is-killed"
    BROKER_STARTS = "broker-starts"


OF_MEMBERS = (Effect.JOINS, Effect.CLOSES, Effect.IS_KILLED, Effect.PAUSED, Effect.RESUMED)
_ROWS: tuple[tuple[Effect, re.Pattern[str]], ...] = (
    (Effect.JOINS, re.compile(r"start (\w+)")),
    (Effect.CLOSES, re.compile(r"close (\w+)")),
    (Effect.IS_KILLED, re.compile(r"kill -9 of the process of (\w+)")),
    (Effect.PAUSED, re.compile(r"(\w+) stands still")),
    (Effect.RESUMED, re.compile(r"(\w+) goes on")),
    (Effect.GROWS, re.compile(r"topic grows from \d+ to (\d+) partitions")),
    (Effect.BROKER_IS_KILLED, re.compile(r"kill -9 broker (\d+)")),
    (Effect.BROKER_CLOSES, re.compile(r"SIGTERM (?:to )?(?:the )?broker ?(\d*)")),
    (Effect.BROKER_STARTS, re.compile(r"(?:the )?broker ?(\d*) has started")),
)
_REPLACED = (RollingRestart, RollingUpgrade, AddMembers, RemoveMembers, CloseHost, StartHost, Crash, Pause, GrowTopic)
"""Actions that the timeline replaces in the scenario."""


def done_by(row: str) -> tuple[Effect, str] | None:
    """(effect, object) of a timeline's row, or None. The object is a host, a broker ("0" for the only broker) or a
    number of partitions.
    """
    for what, pattern in _ROWS:
        if match := pattern.match(row):
            return what, match.group(1) or "0"
    return None


def timed(scenario: Scenario, course: Course, seed: int) -> Scenario:
    """The scenario with the starts and ends of members and brokers at the times of this course. A course is about the
    scenario's first group; other groups keep the times of the scenario. The seed decides what the course leaves open:
    whether a subscription that follows a start precedes the member's first poll().

    The course's effects replace all starts, ends, pauses and growth in the plan; other actions remain. The time without
    metadata after a restart of the only broker (``broker.window``) is drawn between the course's least and most. The
    loading times of new coordinators (``offsets.wait``, ``offsets.load``) are drawn from a wider range (``WIDER``). The
    scenario gets the draws of the course's machine (``lab.conformance.rig``), except draws that the scenario sets. A
    course without times of effects leaves the scenario unchanged.
    """
    if not course.took_effect:
        return scenario
    group, spec = next(iter(scenario.groups.items()))
    own = dict.fromkeys(map(consumer_host, range(1, spec.members + 1)))
    others = [host for host, its, _ in scenario.member_names() if its != group]
    stays = tuple(
        _with_its_start(each, course, seed)
        for each in scenario.plan
        if not isinstance(each.action, _REPLACED) or getattr(each.action, "host", "") in others
    )
    later: dict[str, MemberSpec] = {
        host: attrs.evolve(spec.overrides.get(host, AS_ITS_GROUP), start_later=True) for host in own
    }
    load = sum(topic.records_per_s for topic in scenario.topics.values())
    settings = {**rig.draws_of(course, load), **dict(scenario.draws.settings)}
    for name, spans_ms, wider in (
        (DrawName.BROKER_WINDOW, course.windows_ms, 1.0),
        (DrawName.OFFSETS_WAIT, [waited for waited, _ in course.loads_ms], WIDER),
        (DrawName.OFFSETS_LOAD, [read for _, read in course.loads_ms], WIDER),
    ):
        if spans_ms:
            settings[name.value] = f"uniform {min(spans_ms) / wider:.0f}ms {max(spans_ms) * wider:.0f}ms"
    return attrs.evolve(
        scenario,
        groups={
            **scenario.groups,
            group: attrs.evolve(spec, overrides=later, start_us=0, start_spread_us=0),
        },
        draws=DrawSet(scenario.draws.name, tuple(settings.items())),
        plan=tuple(sorted((*_Timing(scenario, group, spec, course).entries(), *stays), key=_due_us)),
    )


def _due_us(entry: object) -> int:
    return entry.at_us if isinstance(entry, At) else 0


def _with_its_start(entry: Entry, course: Course, seed: int) -> Entry:
    """The entry; a subscription that follows a start of the member at once races with the member's first poll().

    A member of a live run looks for an order to subscribe before each poll(). Its first poll() began after the start
    and before the first JoinGroup, at a time that no log has. So the order is late, and waits for the end of this
    poll(), with the probability that an even time between both is earlier than the order.
    """
    if not isinstance(entry, At) or not isinstance(entry.action, ChangeSubscription):
        return entry
    host, said = entry.action.host, entry.action.words()
    at_ms = next((at for at, row in course.timeline if row == said.replace(", ", ",")), entry.at_us // 1000)
    starts = [at for at, row in course.timeline if row.split()[:2] == ["start", host] and at <= at_ms < at + AT_ONCE_MS]
    joins = [at for at, row in course.took_effect if row == f"{Effect.JOINS} {host}" and starts and at >= starts[0]]
    if not joins:
        return entry
    began_us = (joins[0] - LEAD_MS) * 1000
    is_late = Seeded(seed).stream(f"subscription of {host}").below(joins[0] - starts[0]) < at_ms - starts[0]
    return At(at_us=max(began_us + 1, at_ms * 1000) if is_late else began_us, action=entry.action)


class _Timing:
    """Converts a course to a plan."""

    def __init__(self, scenario: Scenario, group: str, spec: GroupSpec, course: Course) -> None:
        self._group = group
        self._spec = spec
        self._topic = next(iter(scenario.topics))
        self._rows = [(at_ms, *_split(text)) for at_ms, text in course.took_effect]
        self._kinds = _kinds_by_life(course)
        self._brokers = _brokers_of(scenario, [whom for _, what, whom in self._rows if what in _OF_BROKERS])

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of the plan in the order of time."""
        life: dict[str, int] = {}
        done: set[int] = set()
        for place, (at_ms, what, whom) in enumerate(self._rows):
            if place in done:
                continue
            ends = self._end_of(place, what, whom)
            for_us = 0 if ends is None else (ends[1] - at_ms) * 1000
            action: Action
            match what:
                case Effect.JOINS:
                    life[whom] = life.get(whom, 0) + 1
                    at_ms = max(at_ms - self._lead_ms(whom, life[whom]), 0)
                    action = StartHost(host=whom)
                    if number_of(whom) > self._spec.members and life[whom] == 1:
                        action = AddMembers(group=self._group)
                case Effect.CLOSES:
                    action = CloseHost(host=whom)
                    assignors, settings = self._changes(whom, life[whom])
                    if ends is not None and (assignors or settings):
                        life[whom] += 1
                        for_us -= self._lead_ms(whom, life[whom]) * 1000
                        done.add(ends[0])
                        action = RollingUpgrade(
                            group=self._group,
                            every_us=CLOSE_US,
                            down_us=for_us,
                            hosts=(whom,),
                            assignors=assignors,
                            settings=settings,
                        )
                case Effect.IS_KILLED:
                    assert ends is not None
                    life[whom] += 1
                    done.add(ends[0])
                    for_us -= self._lead_ms(whom, life[whom]) * 1000
                    action = Crash(host=whom, mode="process", for_us=for_us)
                case Effect.PAUSED:
                    action = Pause(host=whom, for_us=for_us)
                case Effect.GROWS:
                    action = GrowTopic(topic=self._topic, partitions=int(whom))
                case Effect.BROKER_CLOSES:
                    action = CloseHost(host=self._brokers[whom])
                case Effect.BROKER_IS_KILLED:
                    assert ends is not None
                    done.add(ends[0])
                    action = Crash(host=self._brokers[whom], mode="process", for_us=for_us)
                case Effect.BROKER_STARTS:
                    action = StartHost(host=self._brokers[whom])
                case _:
                    continue
            yield At(at_us=at_ms * 1000, action=action)

    def _lead_ms(self, whom: str, life: int) -> int:
        is_modern = self._kinds.get((whom, life), _Kind()).protocol == "consumer"
        return LEAD_OF_CONSUMER_PROTOCOL_MS if is_modern else LEAD_MS

    def _changes(self, whom: str, life: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """New assignors and settings of a member's next life; () for no change."""
        was = self._kinds.get((whom, life), _Kind())
        becomes = self._kinds.get((whom, life + 1), was)
        protocol = (f"group.protocol={becomes.protocol}",) if becomes.protocol != was.protocol else ()
        return becomes.assignors if becomes.assignors != was.assignors else (), protocol

    def _end_of(self, place: int, what: Effect, whom: str) -> tuple[int, int] | None:
        """(index, time) of the row that ends the effect of the row at ``place``; None without such a row."""
        end = _ENDS.get(what)
        rows = enumerate(self._rows[place + 1 :], place + 1)
        return next(((at, row[0]) for at, row in rows if row[1:] == (end, whom)), None)


_ENDS: Mapping[Effect, Effect] = {
    Effect.CLOSES: Effect.JOINS,
    Effect.IS_KILLED: Effect.JOINS,
    Effect.PAUSED: Effect.RESUMED,
    Effect.BROKER_IS_KILLED: Effect.BROKER_STARTS,
}
_OF_BROKERS = (Effect.BROKER_CLOSES, Effect.BROKER_IS_KILLED, Effect.BROKER_STARTS)


def _split(text: str) -> tuple[Effect, str]:
    what, _, whom = text.partition(" ")
    return Effect(what), whom


@frozen
class _Kind:
    """The settings of a life in its start command that an upgrade changes."""

    assignors: tuple[str, ...] = ()
    protocol: str = "classic"


def _kinds_by_life(course: Course) -> dict[tuple[str, int], _Kind]:
    """(member, number of the life) -> settings in the start command."""
    lives: dict[str, int] = {}
    found = {}
    for _, row in course.timeline:
        if match := re.match(r"start (\w+)", row):
            whom = match.group(1)
            lives[whom] = lives.get(whom, 0) + 1
            named = re.search(r"partition__assignment__strategy=(\S+)", row)
            classes = [name.rpartition(".")[2] for name in named[1].split(",")] if named else []
            protocol = re.search(r"group__protocol=(\S+)", row)
            assignors = tuple(ASSIGNORS[name] for name in classes)
            found[whom, lives[whom]] = _Kind(assignors, protocol[1] if protocol else "classic")
    return found


def _brokers_of(scenario: Scenario, real: list[str]) -> dict[str, str]:
    """Broker of the real cluster -> emulated host. The order in which brokers go down on both sides decides."""
    brokers = [broker_host(number) for number in range(scenario.brokers.count)]
    hosts = [
        each.action.host
        for each in scenario.plan
        if isinstance(each.action, Crash | CloseHost | StartHost) and each.action.host in brokers
    ]
    return dict(zip(dict.fromkeys(real), dict.fromkeys(hosts), strict=True))
