"""The present state of a run, as one value for JSON: groups, topics, brokers, real clients and hosts."""

from collections.abc import Mapping
from typing import Any

from kemu.emulator.cluster.cluster import Cluster
from kemu.emulator.engine.world import World
from kemu.emulator.facts import HostDown, Seen
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import (
    ActorName,
    GroupId,
    MemberId,
    TopicPartition,
    broker_host,
    client_of,
    host_of,
    is_real_client,
    part_of,
)
from kemu.protocol.notes.groups import (
    ClientConnected,
    ClientDisconnected,
    GroupBecame,
    GroupLoaded,
    MemberAdded,
    MemberRemoved,
    PartitionHosted,
)

UP, PAUSED, DOWN = "up", "paused", "down"
UNKNOWN = "Unknown"
"""State of a group without a coordinator. Source: ``ConsumerGroupState.UNKNOWN`` (3.9)."""
MOST_MEMBERS = 10_000
"""Largest number of member ids whose client is remembered; the oldest is forgotten."""

_WANTED = (
    *(GroupBecame, GroupLoaded, MemberAdded, MemberRemoved),
    *(PartitionHosted, ClientConnected, ClientDisconnected, HostDown),
)


class _Member:
    """A member as its coordinator added it."""

    __slots__ = ("actor", "client_id", "instance_id")

    def __init__(self, actor: ActorName, client_id: str, instance_id: str | None) -> None:
        self.actor, self.client_id, self.instance_id = actor, client_id, instance_id


class LiveState:
    """The state of a run, from its facts. An observer that sees each fact after the panel.

    Args:
        scenario: the scenario of the run.
        panel: the panel of the run.
    """

    def __init__(self, scenario: Scenario, world: World, panel: Panel, cluster: Cluster) -> None:
        self._scenario = scenario
        self._world = world
        self._panel = panel
        self._cluster = cluster
        self._generations: dict[GroupId, int] = {}
        self._members: dict[MemberId, _Member] = {}
        self._connections: dict[ActorName, ClientConnected] = {}
        """Open connections of real clients."""
        self._hosted: dict[TopicPartition, tuple[str, int]] = {}
        """Partition of brokers without replication -> (broker, leader epoch)."""

    def wants(self, kind: type) -> bool:
        """Whether facts of this kind change the state beside the panel."""
        return kind in _WANTED

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        match seen.fact:
            case GroupBecame(group=group, generation=generation) | GroupLoaded(group=group, generation=generation):
                if self._panel.is_current(seen):
                    self._generations[group] = generation
            case MemberAdded(member_id=member_id, client_id=actor, instance_id=instance_id):
                connection = self._connections.get(actor)
                client_id = actor if connection is None else connection.client_id
                self._members[member_id] = _Member(actor, client_id, instance_id)
                if len(self._members) > MOST_MEMBERS:
                    del self._members[next(iter(self._members))]
            case MemberRemoved(member_id=member_id):
                self._members.pop(member_id, None)
            case PartitionHosted(topic=topic, partition=partition, leader_epoch=epoch):
                self._hosted[topic, partition] = host_of(seen.actor), epoch
            case ClientConnected():
                self._connections[seen.actor] = seen.fact
            case ClientDisconnected():
                self._connections.pop(seen.actor, None)
            case HostDown(host=host):
                for actor in [actor for actor in self._connections if host_of(actor) == host]:
                    del self._connections[actor]
            case _:
                pass

    def whole(self) -> dict[str, Any]:
        """The whole state."""
        return {
            "at_us": self._world.now_us,
            "scenario": self._scenario.name,
            "brokers": {name: self.host(name) for name in self._cluster.brokers},
            "topics": {topic: self._topic(topic) for topic in self._panel.topics_there()},
            "groups": {group: self.group(group) for group in self.groups()},
            "clients": {client_of(host): self.client(host) for host in self.clients()},
            "hosts": {name: self.host(name)["state"] for name, host in self._world.hosts.items() if host.life},
        }

    # --- hosts -----------------------------------------------------------------------------------------------------

    def hosts(self) -> list[str]:
        """The names of all hosts."""
        return list(self._world.hosts)

    def brokers(self) -> list[str]:
        """The names of all brokers."""
        return list(self._cluster.brokers)

    def host(self, name: str) -> dict[str, Any]:
        """State of a host, and the number of its starts."""
        host = self._world.hosts[name]
        state = DOWN if not host.running else PAUSED if self._panel.is_paused(name) else UP
        return {"state": state, "life": host.life}

    def clients(self) -> list[str]:
        """The hosts of the named clients, and of the guests that have come."""
        spec, hosts = self._scenario.clients, self._world.hosts
        return [*spec.named_hosts(), *[name for name in spec.guest_hosts() if hosts[name].life]]

    def client(self, host: str) -> dict[str, Any]:
        """State and open connections of a real client. A client that has never come is "down"."""
        rows = [
            {"connection": part_of(actor), "client_id": each.client_id, "broker": each.broker or None}
            for actor, each in self._connections.items()
            if host_of(actor) == host
        ]
        return {"host": host, **self.host(host), "connections": rows}

    # --- partitions ------------------------------------------------------------------------------------------------

    def partitions(self) -> list[str]:
        """The names of all partitions, such as "orders-0"."""
        return [f"{topic}-{number}" for topic in self._panel.topics_there() for number in self._numbers(topic)]

    def _numbers(self, topic: str) -> range:
        return range(self._panel.topics[topic])

    def _topic(self, topic: str) -> dict[str, Any]:
        return {f"{topic}-{number}": self.partition((topic, number)) for number in self._numbers(topic)}

    def partition(self, at: TopicPartition) -> dict[str, Any]:
        """Leader (None without a leader), epoch, ISR and replicas of a partition, and the start and end of its log."""
        panel, state = self._panel, self._panel.states.get(at)
        leader, epoch, isr, replicas = "", -1, list[str](), list[str]()
        if state is not None:
            leader, epoch, isr = panel.leaders.get(at, ""), state.leader_epoch, [*map(broker_host, state.isr)]
            replicas += map(broker_host, panel.assigned[at].replicas if at in panel.assigned else state.isr)
        elif at in self._hosted:
            broker, epoch = self._hosted[at]
            replicas = [broker]
            if panel.runs(broker):
                leader, isr = broker, [broker]
        return {
            "leader": host_of(leader) or None,
            "epoch": epoch,
            "isr": isr,
            "replicas": replicas,
            "start": panel.logs.of(at).records.start,
            "end": panel.readable.end(at),
        }

    # --- groups ----------------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        """The groups of the scenario, and the groups that a coordinator has reported."""
        return list(dict.fromkeys((*self._scenario.groups, *self._panel.groups)))

    def group(self, name: GroupId) -> dict[str, Any]:
        """State, generation, coordinator, members and lag of a group.

        ``lag`` counts the records behind the committed offset of each partition of the group; without a committed
        offset, all records of the partition count.
        """
        watched, known = self._panel.groups.get(name), self._panel.memberships.groups.get(name)
        ids = () if known is None else tuple(known.entries)
        members = {each: self._member(name, each) for each in ids}
        offsets = {f"{at[0]}-{at[1]}": self._offsets(name, at) for at in self._partitions_of(name, ids)}
        state, coordinator = "Empty", self._cluster.coordinator_of(name)
        if watched is not None:
            state = watched.state if watched.coordinator or name not in self._generations else UNKNOWN
            coordinator = host_of(watched.coordinator) or coordinator
        return {
            "state": state,
            "generation": self._generations.get(name, 0),
            "coordinator": coordinator or None,
            "members": members,
            "lag": sum(each["lag"] for each in offsets.values()),
            "offsets": offsets,
        }

    def _member(self, group: GroupId, member_id: MemberId) -> dict[str, Any]:
        known = self._members.get(member_id) or _Member("", "", None)
        holding = self._panel.took.get((group, member_id))
        host = host_of(known.actor)
        return {
            "client": client_of(host) if is_real_client(host) else host,
            "client_id": known.client_id,
            "instance_id": known.instance_id,
            "generation": -1 if holding is None else holding.generation,
            "assigned": _texts(() if holding is None else holding.received or ()),
            "owned": _texts(() if holding is None else holding.owned),
        }

    def _partitions_of(self, group: GroupId, ids: tuple[MemberId, ...]) -> list[TopicPartition]:
        """The partitions of the group's topics, of its assignments, and with committed offsets."""
        panel, spec = self._panel, self._scenario.groups.get(group)
        topics = [topic for topic in (spec.topics if spec is not None else ()) if topic in panel.topics]
        found = {(topic, number) for topic in topics for number in self._numbers(topic)}
        found |= {*panel.commits.partitions(group)}
        holdings = [panel.took[group, each] for each in ids if (group, each) in panel.took]
        found |= {at for each in holdings for at in each.received or ()}
        return sorted(found)

    def _offsets(self, group: GroupId, at: TopicPartition) -> dict[str, Any]:
        committed, end = self._panel.commits.of(group, at), self._panel.readable.end(at)
        first = max(committed, self._panel.logs.of(at).records.start)
        return {"committed": committed if committed >= 0 else None, "end": end, "lag": max(end - first, 0)}


def _texts(partitions: Any) -> list[str]:
    return [f"{topic}-{number}" for topic, number in sorted(partitions)]


def numbers(state: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a state that a condition can compare: lists and tables become their number of entries."""
    return {key: len(value) if isinstance(value, list | dict) else value for key, value in state.items()}
