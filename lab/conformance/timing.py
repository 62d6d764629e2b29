"""A plan's scenario at the times of a run of a real Kafka: what was done takes effect at the same moments here.

A timeline says when something was ordered. How long it takes from there until the group feels it is the machine's
affair: a process has to start before its first JoinGroup, a loop of poll(100 ms) has to look before it closes, a broker
reads its disk before it answers. A course keeps the moments at which it was felt (``Course.took_effect``); here they
become the plan of the scenario that is held against that course.
"""

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import attrs

from kemu.emulator.draws import DrawSet
from kemu.emulator.plan.action import Action
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
from kemu.protocol.draws import DrawName, distribution
from kemu.protocol.names import broker_host, consumer_host, number_of
from lab.conformance.course import Course

LEAD_MS = 3
"""From the start of a member to its first JoinGroup at its coordinator, here: metadata and the coordinator are asked
for over a network that takes 0.3 ms and more each way."""
CLOSE_US = 1
"""A rolling upgrade of one member alone needs some distance to the next one."""
MACHINES_SPREAD = 0.6
"""Of the logarithm of how busy machines are: the standard deviation (``machine.busy`` of the set life: p99 400 %)."""
SPANS_SPREAD = 1.0
"""Of single hand-overs on one machine: their standard deviation beside their mean (16 runs of 10 to 33 hand-overs)."""
DRIFT = 0.36
"""A machine is not as busy all the time: standard deviation of the logarithm from part to part of a run (the halves of
the same runs are apart by 0.74; spans that spread alike all the time would leave 0.53)."""
NORMAL_P99 = 2.326
LEAST_US = 500
"""Logs tell milliseconds."""
ASSIGNORS: Mapping[str, str] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


class Felt(StrEnum):
    """What a group feels of what is done, and the word before whom it concerns."""

    JOINS = "joins"
    CLOSES = "closes"
    IS_KILLED = "is-killed"
    STANDS_STILL = "stands-still"
    GOES_ON = "goes-on"
    GROWS = "grows"
    BROKER_CLOSES = "broker-closes"
    BROKER_IS_KILLED = "broker-is-killed"
    BROKER_STARTS = "broker-starts"


_ROWS: tuple[tuple[Felt, re.Pattern[str]], ...] = (
    (Felt.JOINS, re.compile(r"start (\w+)")),
    (Felt.CLOSES, re.compile(r"close (\w+)")),
    (Felt.IS_KILLED, re.compile(r"kill -9 of the process of (\w+)")),
    (Felt.STANDS_STILL, re.compile(r"(\w+) stands still")),
    (Felt.GOES_ON, re.compile(r"(\w+) goes on")),
    (Felt.GROWS, re.compile(r"topic grows from \d+ to (\d+) partitions")),
    (Felt.BROKER_IS_KILLED, re.compile(r"kill -9 broker (\d+)")),
    (Felt.BROKER_CLOSES, re.compile(r"SIGTERM (?:to the )?broker ?(\d*)")),
    (Felt.BROKER_STARTS, re.compile(r"(?:the )?broker ?(\d*) has started")),
)
_OF_MEMBERS = (RollingRestart, RollingUpgrade, AddMembers, RemoveMembers, CloseHost, StartHost, Crash, Pause, GrowTopic)
"""What a timeline says, and what is therefore not taken from the scenario."""


def done_by(row: str) -> tuple[Felt, str] | None:
    """What a row of a timeline does, and to whom ("0": the only broker; partitions of a topic that grows), or None."""
    for what, pattern in _ROWS:
        if match := pattern.match(row):
            return what, match.group(1) or "0"
    return None


def timed(scenario: Scenario, course: Course) -> Scenario:
    """The scenario with its members' and brokers' lives at the moments of this course.

    What the course felt replaces all starts, ends, pauses, and growth of the plan; other actions stay as they are.
    How long a lone broker that comes back knows nothing (``broker.window``), and how long new coordinators took to load
    (``offsets.wait``, ``offsets.load``), is between that course's least and most. How busy the machine was
    (``machine.busy``) is what the hand-overs of that course tell of it. A course that does not tell its moments leaves
    the scenario as it is.
    """
    if not course.took_effect:
        return scenario
    ((group, spec),) = scenario.groups.items()
    plan = tuple(_Timing(scenario, group, spec, course).entries())
    stays = tuple(each for each in scenario.plan if not isinstance(each.action, _OF_MEMBERS))
    later: dict[str, MemberSpec] = {
        host: attrs.evolve(spec.overrides.get(host, AS_ITS_GROUP), start_later=True)
        for host in map(consumer_host, range(1, spec.members + 1))
    }
    settings = {name: text for name, text in scenario.draws.settings if name != DrawName.CLOSE_NOTICE}
    for name, spans_ms in (
        (DrawName.BROKER_WINDOW, course.windows_ms),
        (DrawName.OFFSETS_WAIT, [waited for waited, _ in course.loads_ms]),
        (DrawName.OFFSETS_LOAD, [read for _, read in course.loads_ms]),
    ):
        if spans_ms:
            settings[name.value] = f"uniform {min(spans_ms)}ms {max(spans_ms)}ms"
    of_all = DrawName.FOLLOWER_SYNC.value
    if course.hand_overs_ms and of_all in settings:
        mean_us = distribution(settings[of_all]).mean
        settings[DrawName.MACHINE_BUSY.value] = busy_as(course.hand_overs_ms, mean_us)
    return attrs.evolve(
        scenario,
        groups={group: attrs.evolve(spec, overrides=later, start_us=0, start_spread_us=0)},
        draws=DrawSet(scenario.draws.name, tuple(settings.items())),
        plan=(*stays, *plan),
    )


def busy_as(spans_ms: Sequence[int], mean_us: int) -> str:
    """How busy a machine was, as a distribution: its members took these spans, those of all machines take ``mean_us``.

    Before anything is known of it, it is any machine (``MACHINES_SPREAD``). The mean of n spans tells of it, off by
    ``SPANS_SPREAD`` / sqrt(n) and by ``DRIFT``; both are weighed (normal distributions of logarithms).
    """
    seen = math.log(max(statistics.fmean(spans_ms) * 1000, LEAST_US) / mean_us)
    sure, told = MACHINES_SPREAD**-2, 1 / (SPANS_SPREAD**2 / len(spans_ms) + DRIFT**2)
    median = math.exp(seen * told / (sure + told))
    p99 = median * math.exp(NORMAL_P99 * (sure + told) ** -0.5)
    return f"lognormal median={median:.0%} p99={p99:.0%}"


class _Timing:
    """One course as a plan."""

    def __init__(self, scenario: Scenario, group: str, spec: GroupSpec, course: Course) -> None:
        self._group = group
        self._spec = spec
        self._topic = next(iter(scenario.topics))
        self._rows = [(at_ms, *_split(text)) for at_ms, text in course.took_effect]
        self._assignors = _assignors_by_life(course)
        self._brokers = _brokers_of(scenario, [whom for _, what, whom in self._rows if what in _OF_BROKERS])

    def entries(self) -> Iterator[Entry]:
        """In the order of time."""
        life: dict[str, int] = {}
        done: set[int] = set()
        for place, (at_ms, what, whom) in enumerate(self._rows):
            if place in done:
                continue
            ends = self._end_of(place, what, whom)
            for_us = 0 if ends is None else (ends[1] - at_ms) * 1000
            action: Action
            match what:
                case Felt.JOINS:
                    at_ms = max(at_ms - LEAD_MS, 0)
                    life[whom] = life.get(whom, 0) + 1
                    action = StartHost(host=whom)
                    if number_of(whom) > self._spec.members and life[whom] == 1:
                        action = AddMembers(group=self._group)
                case Felt.CLOSES:
                    action = CloseHost(host=whom)
                    becomes = self._assignors.get((whom, life[whom] + 1))
                    if ends is not None and becomes is not None and becomes != self._assignors.get((whom, life[whom])):
                        life[whom] += 1
                        done.add(ends[0])
                        action = RollingUpgrade(
                            group=self._group,
                            every_us=CLOSE_US,
                            down_us=for_us - LEAD_MS * 1000,
                            hosts=(whom,),
                            assignors=becomes,
                        )
                case Felt.IS_KILLED:
                    assert ends is not None
                    life[whom] += 1
                    done.add(ends[0])
                    action = Crash(host=whom, mode="process", for_us=for_us - LEAD_MS * 1000)
                case Felt.STANDS_STILL:
                    action = Pause(host=whom, for_us=for_us)
                case Felt.GROWS:
                    action = GrowTopic(topic=self._topic, partitions=int(whom))
                case Felt.BROKER_CLOSES:
                    action = CloseHost(host=self._brokers[whom])
                case Felt.BROKER_IS_KILLED:
                    assert ends is not None
                    done.add(ends[0])
                    action = Crash(host=self._brokers[whom], mode="process", for_us=for_us)
                case Felt.BROKER_STARTS:
                    action = StartHost(host=self._brokers[whom])
                case _:
                    continue
            yield At(at_ms * 1000, action)

    def _end_of(self, place: int, what: Felt, whom: str) -> tuple[int, int] | None:
        """Place and time of the row that ends what this one begins."""
        end = _ENDS.get(what)
        rows = enumerate(self._rows[place + 1 :], place + 1)
        return next(((at, row[0]) for at, row in rows if row[1:] == (end, whom)), None)


_ENDS: Mapping[Felt, Felt] = {
    Felt.CLOSES: Felt.JOINS,
    Felt.IS_KILLED: Felt.JOINS,
    Felt.STANDS_STILL: Felt.GOES_ON,
    Felt.BROKER_IS_KILLED: Felt.BROKER_STARTS,
}
_OF_BROKERS = (Felt.BROKER_CLOSES, Felt.BROKER_IS_KILLED, Felt.BROKER_STARTS)


def _split(text: str) -> tuple[Felt, str]:
    what, _, whom = text.partition(" ")
    return Felt(what), whom


def _assignors_by_life(course: Course) -> dict[tuple[str, int], tuple[str, ...]]:
    """(Member, number of its life) -> the assignors that its start names; lives whose start names none are left out."""
    lives: dict[str, int] = {}
    found = {}
    for _, row in course.timeline:
        if match := re.match(r"start (\w+)", row):
            whom = match.group(1)
            lives[whom] = lives.get(whom, 0) + 1
            if named := re.search(r"partition__assignment__strategy=(\S+)", row):
                classes = [name.rpartition(".")[2] for name in named.group(1).split(",")]
                found[whom, lives[whom]] = tuple(ASSIGNORS[name] for name in classes)
    return found


def _brokers_of(scenario: Scenario, real: list[str]) -> dict[str, str]:
    """Broker of the real cluster -> host: the first one to go down there is the first one that goes down here."""
    brokers = [broker_host(number) for number in range(scenario.brokers.count)]
    hosts = [
        each.action.host
        for each in scenario.plan
        if isinstance(each.action, Crash | CloseHost | StartHost) and each.action.host in brokers
    ]
    return dict(zip(dict.fromkeys(real), dict.fromkeys(hosts), strict=True))
