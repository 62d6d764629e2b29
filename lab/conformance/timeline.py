"""The timeline of a plan: which commands a live run gives to real members and brokers, and when.

A scenario file says a plan once, for the emulator and for the live run. ``timeline_of`` translates the scenario's
members and actions into rows of text, which a recording keeps (``plan.md``):

| action of a scenario | row |
|---|---|
| first start of a member, start-host, add-members | start c1 group=g topics=orders,orders-b KEY=VALUE |
| close-host, rolling-restart | close c1; SIGTERM to broker 0 (clean shutdown) |
| rolling-upgrade with settings | close c1; start c1 with the new settings |
| crash | kill -9 of the process of c1; kill -9 broker 0 |
| pause | ``c1 stands still (SIGSTOP)``, ``c1 goes on (SIGCONT)`` |
| stop-polling | c1 does not poll for 20000 ms |
| subscribe | c1 subscribes to orders,orders-b |
| grow-topic | topic grows from 6 to 12 partitions |
| set-rate | orders gets 500 records/s |
| delete-group, delete-offsets | delete group g; delete offsets of group g in orders |

The keys ``emulated.*`` of members are their application: work for each record, slow callbacks, commits after each poll.
"""

from collections.abc import Iterator

from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions.admin import GroupDeletion, OffsetsDeletion
from kemu.emulator.plan.actions.consumers import ChangeSubscription, PollingStop
from kemu.emulator.plan.actions.hosts import Crash, Pause
from kemu.emulator.plan.actions.operators import (
    AddMembers,
    CloseHost,
    GrowTopic,
    RollingRestart,
    RollingUpgrade,
    SetRateOf,
    StartHost,
)
from kemu.emulator.plan.entries import At
from kemu.emulator.scenario.groups import SETTINGS_OF_CLASSIC
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import texts_of
from kemu.protocol.names import broker_host, consumer_host
from lab.conformance.timing import ASSIGNORS

PACKAGE = "org.apache.kafka.clients.consumer"
END = "end: everybody closes"


class NotLive(Exception):
    """A scenario has an entry that no live run can do; the message names the entry."""


def timeline_of(scenario: Scenario) -> tuple[tuple[int, str], ...]:
    """The rows (time in ms, text) of a plan, in the order of time.

    Raises:
        NotLive: an entry of the scenario cannot be done live.
    """
    rows = list(_Timeline(scenario).rows())
    return (*sorted(rows, key=lambda row: row[0]), (scenario.duration_us // 1000, END))


class _Timeline:
    """Translates a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._group_of: dict[str, str] = {}
        self._partitions = {name: topic.partitions for name, topic in scenario.topics.items()}
        for host, group, _ in scenario.member_names():
            self._group_of[host] = group
        self._brokers: dict[str, int] = {broker_host(number): number for number in range(scenario.brokers.count)}
        self._topics: dict[str, tuple[str, ...]] = {}
        self._changed: dict[str, tuple[str, ...]] = {}
        """Host -> settings after a rolling upgrade."""

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield the rows, not in the order of time."""
        for name, spec in self._scenario.groups.items():
            hosts = [host for host, group in self._group_of.items() if group == name]
            for number, host in enumerate(hosts):
                if host not in spec.overrides or not spec.overrides[host].start_later:
                    yield spec.start_of(number) // 1000, self._start(host)
        for entry in self._scenario.plan:
            if not isinstance(entry, At):
                raise NotLive(f"{entry}: a live run knows the times of entries only")
            yield from self._done(entry.at_us // 1000, entry.action)

    def _done(self, at_ms: int, action: Action) -> Iterator[tuple[int, str]]:
        match action:
            case AddMembers(group=group, count=count):
                for _ in range(count):
                    added = consumer_host(len(self._group_of) + 1)
                    self._group_of[added] = group
                    yield at_ms, self._start(added)
            case StartHost(host=host):
                yield at_ms, self._started(host)
            case CloseHost(host=host):
                yield at_ms, self._closed(host)
            case RollingRestart(group=group, every_us=every_us, down_us=down_us, how="close"):
                yield from self._restarted(at_ms, self._hosts_of(group), every_us, down_us)
            case RollingUpgrade(how="close", profile="", assignors=()):
                hosts = list(action.hosts) or self._hosts_of(action.group)
                self._changed |= dict.fromkeys(hosts, action.settings)
                yield from self._restarted(at_ms, hosts, action.every_us, action.down_us)
            case Crash(host=host, for_us=for_us):
                killed = self._broker(host) if host in self._brokers else f"of the process of {host}"
                yield at_ms, f"kill -9 {killed}"
                if for_us:
                    yield at_ms + for_us // 1000, self._started(host)
            case Pause(host=host, for_us=for_us) if host in self._group_of:
                yield at_ms, f"{host} stands still (SIGSTOP)"
                yield at_ms + for_us // 1000, f"{host} goes on (SIGCONT)"
            case PollingStop(host=host, for_us=for_us):
                yield at_ms, f"{host} does not poll for {for_us // 1000} ms"
            case ChangeSubscription(host=host, topics=topics) if topics:
                self._topics[host] = topics
                yield at_ms, f"{host} subscribes to {','.join(topics)}"
            case GrowTopic(topic=topic, partitions=partitions):
                yield at_ms, f"topic grows from {self._partitions[topic]} to {partitions} partitions"
                self._partitions[topic] = partitions
            case SetRateOf(topic=topic, records_per_s=rate):
                yield at_ms, f"{topic} gets {rate} records/s"
            case GroupDeletion(group=group):
                yield at_ms, f"delete group {group}"
            case OffsetsDeletion(group=group, topic=topic):
                yield at_ms, f"delete offsets of group {group} in {topic}"
            case _:
                raise NotLive(f"{action.words()}: not done live")

    def _hosts_of(self, group: str) -> list[str]:
        return [host for host, its in self._group_of.items() if its == group]

    def _restarted(self, at_ms: int, hosts: list[str], every_us: int, down_us: int) -> Iterator[tuple[int, str]]:
        for number, each in enumerate(hosts):
            closed_ms = at_ms + number * every_us // 1000
            yield closed_ms, self._closed(each)
            yield closed_ms + down_us // 1000, self._started(each)

    def _started(self, host: str) -> str:
        if host not in self._brokers:
            return self._start(host)
        return f"{self._broker(host)} is started again"

    def _closed(self, host: str) -> str:
        if host not in self._brokers:
            return f"close {host}"
        return f"SIGTERM to {self._broker(host)} (clean shutdown)"

    def _broker(self, host: str) -> str:
        return f"broker {self._brokers[host]}" if len(self._brokers) > 1 else "the broker"

    def _start(self, host: str) -> str:
        group = self._group_of[host]
        spec = self._scenario.groups[group]
        own = spec.overrides.get(host)
        settings = dict(text.split("=", 1) for text in texts_of(spec.config))
        if own is not None:
            settings |= dict(text.split("=", 1) for text in texts_of(own.config))
        settings |= dict(text.split("=", 1) for text in self._changed.get(host, ()))
        consumer = settings.get("group.protocol") == "consumer"
        if consumer:
            settings = {key: value for key, value in settings.items() if key not in SETTINGS_OF_CLASSIC}
        if own is not None and own.instance:
            settings["group.instance.id"] = own.instance
        elif spec.static:
            settings["group.instance.id"] = host
        assignors = (own.assignors if own is not None else ()) or spec.assignors
        if assignors and not consumer:
            classes = {name: f"{PACKAGE}.{kind}" for kind, name in ASSIGNORS.items()}
            settings["partition.assignment.strategy"] = ",".join(classes[name] for name in assignors)
        topics = self._topics.get(host) or spec.subscribed_to(self._scenario.topics)
        texts = "".join(f" {key.replace('.', '__')}={value}" for key, value in settings.items())
        return f"start {host} group={group} topics={','.join(topics)}{texts}"
