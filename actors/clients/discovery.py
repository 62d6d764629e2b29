"""How a client finds its way: who coordinates its group, which brokers lead its topics.

A part of a client. One FindCoordinator and one Metadata are in flight at a time; after a failure the next broker is
asked, not before the backoff is over. Nothing is asked that nobody wants to know.

Source: Kafka's ``AbstractCoordinator.lookupCoordinator`` and ``Metadata``.
"""

from array import array
from typing import Protocol

from attrs import frozen

from kemu.actors.client import Backoff, Client
from kemu.actors.machine import Chance, Machine
from kemu.protocol.assign.base import Topics
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Metadata, MetadataReply, PartitionMetadata
from kemu.protocol.messages.group import FindCoordinator, FindCoordinatorReply
from kemu.protocol.messages.versions import ApiVersions
from kemu.protocol.names import ActorName, GroupId
from kemu.protocol.notes.groups import CoordinatorKnown

FIND = ("find",)
"""Fires when the coordinator may be looked up again."""
METADATA = ("metadata",)
"""Fires when metadata is too old, or may be asked for again."""

FATAL_TOPIC_ERRORS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


class Watcher(Protocol):
    """Who wants to know what discovery found."""

    def coordinator_found(self) -> None:
        """There is a coordinator."""
        ...

    def coordinator_lost(self) -> None:
        """There is none any more."""
        ...

    def metadata_refreshed(self, changed: bool) -> None:
        """An answer came; ``changed`` says whether it differs from the one before."""
        ...

    def wake(self) -> None:
        """Something was learned or lost."""
        ...

    def wake_at(self, at_us: int) -> None:
        """The coordinator may be asked from this time on."""
        ...

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """A fatal error, to be raised by the next poll."""
        ...


@frozen
class TopicLayout:
    """Where a topic's partitions are, by number; compact, since every client of a large cluster has its own.

    ``replicas`` is empty while no broker has a rack: nobody asks then.
    """

    leaders: "array[int]"
    """Node ids; -1 = none."""
    epochs: "array[int]"
    replicas: tuple[tuple[int, ...], ...]


@frozen
class Cluster:
    """What the last Metadata answer said of the topics asked for."""

    brokers: dict[int, ActorName]
    racks: dict[int, str]
    topics: dict[str, TopicLayout]

    def leader_of(self, topic: str, partition: int) -> tuple[ActorName | None, int]:
        """The address of a partition's leader (None: unknown) and its epoch."""
        layout = self.topics.get(topic)
        if layout is None or partition >= len(layout.leaders):
            return None, -1
        return self.brokers.get(layout.leaders[partition]), layout.epochs[partition]

    def seen_by_assignor(self, names: tuple[str, ...]) -> Topics:
        """Partition counts and, when brokers have racks, the racks of the replicas."""
        known = {name: self.topics[name] for name in names if name in self.topics}
        racks = None
        if self.racks:
            racks = {
                name: tuple(
                    tuple(dict.fromkeys(self.racks[node] for node in replicas if node in self.racks))
                    for replicas in layout.replicas
                )
                for name, layout in known.items()
            }
        return Topics({name: len(layout.leaders) for name, layout in known.items()}, racks)


NOTHING_KNOWN = Cluster({}, {}, {})


def cluster_of(reply: MetadataReply) -> Cluster:
    """What a client keeps of a Metadata answer; topics with an error are left out."""
    racks = {broker.node_id: broker.rack for broker in reply.brokers if broker.rack}
    topics: dict[str, TopicLayout] = {}
    for topic in reply.topics:
        if topic.error is ErrorCode.NONE:
            rows = sorted(topic.partitions, key=_number)
            topics[topic.topic] = TopicLayout(
                array("i", [row.leader for row in rows]),
                array("i", [row.leader_epoch for row in rows]),
                tuple(row.replicas for row in rows) if racks else (),
            )
    return Cluster({broker.node_id: broker.host for broker in reply.brokers}, racks, topics)


class Discovery:
    """The coordinator and the metadata a client knows; see the module."""

    def __init__(
        self,
        machine: Machine,
        client: Client,
        watcher: Watcher,
        config: ConsumerConfig,
        bootstrap: tuple[ActorName, ...],
        versions: ApiVersions,
        chance: Chance,
    ) -> None:
        self.coordinator: ActorName | None = None
        self.cluster = NOTHING_KNOWN
        self.stale = False
        """Newer metadata is wanted and not here yet."""
        self.behind = False
        """Some topics of interest were not asked for yet."""
        self.interest: tuple[str, ...] = ()
        self._machine = machine
        self._client = client
        self._chance = chance
        self._watcher = watcher
        self._group: GroupId = config.group_id
        self._bootstrap = bootstrap
        self._nodes = bootstrap
        self._turn = chance.below(len(bootstrap))
        self._retry = Backoff(config.retry_backoff_ms * 1000, config.retry_backoff_max_ms * 1000)
        self._max_age_us = config.metadata_max_age_ms * 1000
        self._find_version = versions["FindCoordinator"]
        self._metadata_version = versions["Metadata"]
        self._finding = False
        self._find_failures = 0
        self._asked_for: tuple[str, ...] | None = None
        """The topics of the Metadata in flight."""
        self._metadata_failures = 0
        self._not_before_us = 0
        self._timer_us = 0

    # --- coordinator -------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether the coordinator can be asked now; if not, what is needed for it is under way."""
        if self.coordinator is None:
            self.find()
            return False
        at_us = self._client.available_at(self.coordinator)
        if at_us > self._machine.now_us:
            self._watcher.wake_at(at_us)
            return False
        return True

    def find(self) -> None:
        """Look the coordinator up, unless it is known, asked for already, or the last try is too recent."""
        if self.coordinator is not None or self._finding:
            return
        self._finding = True
        question = FindCoordinator(key=self._group)
        self._client.call(self._pick(), question, self._find_version, self._found, self._not_found, self._turn)

    def find_timer_fired(self) -> None:
        """FIND fired."""
        self._finding = False
        if self.interest:
            self.find()

    def lose_coordinator(self, why: str, *, connected: bool = True) -> None:
        """Forget the coordinator. Unless the connection is gone anyway it is closed: nothing stays in flight."""
        lost = self.coordinator
        if lost is None:
            return
        self.coordinator = None
        self._machine.note(CoordinatorKnown(group=self._group, host="", why=why))
        if connected:
            self._client.drop_connection(lost, why)
        self._watcher.coordinator_lost()
        self._watcher.wake()

    def _found(self, reply: FindCoordinatorReply, turn: int) -> None:
        if reply.error is not ErrorCode.NONE:
            if reply.error.retriable:
                self._not_found(reply.error.name, turn)
            else:
                self._finding = False
                self._watcher.fail_later(reply.error, "FindCoordinator")
            return
        self._finding = False
        self._find_failures = 0
        self.coordinator = reply.host
        self._machine.note(CoordinatorKnown(group=self._group, host=reply.host, why="found"))
        self._watcher.coordinator_found()
        self._watcher.wake()

    def _not_found(self, why: str, turn: int) -> None:
        self._pass_over(turn)
        self._find_failures += 1
        self._machine.start_timer(FIND, self._retry.after(self._find_failures, self._chance))

    # --- metadata ----------------------------------------------------------------------------------------------

    def want(self, topics: tuple[str, ...]) -> None:
        """Be interested in exactly these topics from now on; new ones are asked for."""
        new = [topic for topic in topics if topic not in self.interest]
        self.interest = topics
        if new:
            self.stale = self.behind = True
            self._not_before_us = 0
            self._ask()

    def refresh(self) -> None:
        """What is known proved wrong: ask again, as soon as the backoff allows."""
        self.stale = True
        self._ask()

    def metadata_timer_fired(self) -> None:
        """METADATA fired."""
        self._timer_us = 0
        self.stale = True
        self._ask()

    def _ask(self) -> None:
        if self._asked_for is not None or not self.interest:
            return
        if self._machine.now_us < self._not_before_us:
            self._ask_at(self._not_before_us)
            return
        self._asked_for = self.interest
        question = Metadata(topics=self.interest)
        self._client.call(self._pick(), question, self._metadata_version, self._answered, self._failed, self._turn)

    def _ask_at(self, at_us: int) -> None:
        if at_us < self._timer_us or not self._timer_us:
            self._timer_us = at_us
            self._machine.start_timer(METADATA, at_us - self._machine.now_us)

    def _failed(self, why: str, turn: int) -> None:
        self._asked_for = None
        self._pass_over(turn)
        self._try_again_later()

    def _try_again_later(self) -> None:
        self.stale = True
        self._metadata_failures += 1
        wait_us = self._retry.after(self._metadata_failures, self._chance)
        self._not_before_us = self._machine.now_us + wait_us
        self._ask_at(self._not_before_us)

    def _answered(self, reply: MetadataReply, turn: int) -> None:
        asked_for, self._asked_for = self._asked_for, None
        for topic in reply.topics:
            if topic.error in FATAL_TOPIC_ERRORS:
                self._watcher.fail_later(topic.error, f"Metadata of {topic.topic}")
                return
        learned = cluster_of(reply)
        changed = learned != self.cluster
        if changed:
            self.cluster = learned
            known = tuple(learned.brokers.values())
            self._nodes = known + tuple(node for node in self._bootstrap if node not in known)
        self.behind = asked_for != self.interest and not set(self.interest).issubset(asked_for or ())
        self.stale = self.behind
        self._timer_us = 0
        self._ask_at(self._machine.now_us + self._max_age_us)
        if self.behind:
            self._ask()
        elif any(topic.error is not ErrorCode.NONE for topic in reply.topics):
            self._try_again_later()
        else:
            # KIP-580: answers that say nothing new are asked for ever more slowly.
            self._metadata_failures = 0 if changed else self._metadata_failures + 1
            wait_us = self._retry.after(max(1, self._metadata_failures), self._chance)
            self._not_before_us = self._machine.now_us + wait_us
        self._watcher.metadata_refreshed(changed)

    # --- brokers -----------------------------------------------------------------------------------------------

    def _pick(self) -> ActorName:
        """The broker to ask: the last one that answered, the next in turn while that one is unreachable."""
        nodes = self._nodes
        for _ in nodes:
            node = nodes[self._turn % len(nodes)]
            if self._client.available_at(node) <= self._machine.now_us:
                return node
            self._turn += 1
        return nodes[self._turn % len(nodes)]

    def _pass_over(self, turn: int) -> None:
        """The broker whose turn it was failed: the next one's, unless another failure said so already."""
        if self._turn == turn:
            self._turn += 1


def _number(partition: PartitionMetadata) -> int:
    return partition.partition
