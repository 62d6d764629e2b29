"""Random short sequences of ConsumerGroupHeartbeat, commits, fetches and descriptions for one group (KIP-848).

As in ``drawing``, the machine answers in virtual time while a sequence is drawn. A client keeps the last assignment
that it was given, and the partitions that it says to own.
"""

import uuid
from collections.abc import Callable, Mapping

from attrs import define

from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages import control
from kemu.protocol.messages import group as messages
from kemu.protocol.messages.consumer_group import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicNumbers,
)
from kemu.protocol.names import UNKNOWN_MEMBER
from lab.conformance.raw.drawing import (
    BOGUS,
    CLEAR_MS,
    GAP_MS,
    LONG_REBALANCE_MS,
    SHORT_REBALANCE_MS,
    Drawing,
    DrawnSequence,
    Versions,
)
from lab.conformance.raw.steps import GROUP, SIZES, TOPICS_VERSION, symbol

TOPICS = (("t",), ("t",), ("t", "u"), ("t", "u"), ("u",), (), ("t", "missing"))
_ASSIGNORS = (None, None, None, "uniform", "range")
_COMMIT_EPOCH_SINCE, _FETCH_EPOCH_SINCE, _FETCH_ALL_SINCE = 9, 9, 2
UNKNOWN_TOPIC_ID = "00000000-0000-4000-8000-00000000dead"
_GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
Owned = tuple[TopicNumbers, ...]


@define
class DrawnConsumer:
    """The state that a member of the consumer protocol would keep. ``epoch`` 0: not in the group."""

    name: str
    instance: str | None
    member_id: str
    epoch: int = 0
    given: Owned = ()
    owned: Owned = ()
    waits: int = 0


class ConsumerDrawing(Drawing):
    def __init__(self, seed: int, config: BrokerConfig, versions: Versions, topics: Mapping[str, str]) -> None:
        sizes = [(name, topic_id, SIZES[name]) for name, topic_id in topics.items()]
        super().__init__(seed, config, versions, sizes)
        self.topics = topics
        self.names = {topic_id: name for name, topic_id in topics.items()}
        self.consumers = [DrawnConsumer(each.name, each.instance, f"{each.name}-{seed}") for each in self.clients]
        self.own = f"x{seed}"
        """Name of the topic that the sequence has for itself."""
        self.own_size = 0
        """Number of partitions of this topic; 0 while it does not exist."""
        self._own_ids: list[str] = []
        """The symbols of the ids that this topic had; the last id is the present or the last id."""
        self.changes_topics = self.chance(45)
        own = ((self.own,), ("t", self.own), ("t", "u", self.own)) if self.changes_topics else ()
        self.choices = (*TOPICS, *own)
        """Sets of topics to subscribe to."""
        self._beats: dict[int, tuple[DrawnConsumer, ConsumerGroupHeartbeat]] = {}
        self._seen: set[int] = set()

    def _close(self) -> list[int]:
        return [*super()._close(), *self.alone.edges_us()]

    def _hear(self) -> None:
        super()._hear()
        for number in sorted(self.alone.answers.keys() - self._seen):
            self._seen.add(number)
            if number in self._beats:
                self._heard_beat(number, *self._beats[number])

    def _heard_beat(self, number: int, client: DrawnConsumer, request: ConsumerGroupHeartbeat) -> None:
        reply: ConsumerGroupHeartbeatReply = self.alone.answers[number][1]
        minted = symbol(number) if not request.member_id else request.member_id
        if reply.error is ErrorCode.NONE and not request.member_id:
            client.member_id = minted
        if minted != client.member_id:
            return
        if reply.error is ErrorCode.NONE and reply.member_epoch > JOINS:
            client.epoch = reply.member_epoch
            if request.member_epoch == JOINS:
                client.given = client.owned = ()
            if reply.assignment is not None:
                client.given = tuple(
                    TopicNumbers(topic_id=self.names[each.topic_id], partitions=each.partitions)
                    for each in reply.assignment
                )
        elif reply.error in _GONE or reply.member_epoch < JOINS:
            client.epoch, client.given, client.owned = 0, (), ()

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Add one step: usually the next request of a real member, sometimes a random request."""
        if self.short and self.chance(12):
            self.wait_for_a_timer()
        if self.change_topic():
            return
        client = self.consumers[self.random.randrange(self.busy if self.chance(85) else 4)]
        if self.chance(72):
            self._sensible_beat(client)
        else:
            self._wild_beat(client)

    def change_topic(self) -> bool:
        """Create, grow or delete the sequence's topic, rarely."""
        if not self.changes_topics or not self.chance(9 if self._own_ids else 30):
            return False
        request: object
        if not self.own_size:
            self.own_size = self.pick((1, 2, 3))
            new = control.NewTopic(name=self.own, num_partitions=self.own_size, replication_factor=1)
            request = control.CreateTopics(topics=(new,))
            created, topic_id = symbol(len(self.steps)), str(uuid.UUID(int=self.random.getrandbits(128)))
            self._own_ids.append(created)
            self.new_topics[len(self.steps)] = topic_id
            self._ids[created], self.names[topic_id] = topic_id, created
        elif self.chance(50):
            self.own_size = 0
            request = control.DeleteTopics(topic_names=(self.own,))
        else:
            self.own_size += self.pick((1, 2))
            request = control.CreatePartitions(topics=(control.MorePartitions(name=self.own, count=self.own_size),))
        self.ask(self.clients[0], TOPICS_VERSION, request)
        self.pass_time(CLEAR_MS)
        return True

    def all_partitions(self) -> list[tuple[str, int]]:
        """All partitions of the cluster, by the names of topics."""
        sizes = {**SIZES, self.own: self.own_size}
        return [(topic, number) for topic, count in sizes.items() for number in range(count)]

    def _sensible_beat(self, client: DrawnConsumer) -> None:
        if not client.epoch:
            self._join_group(client)
            return
        kind = self.random.randrange(100)
        if kind < 55:
            if self.chance(65):
                client.owned = client.given
            self._beat(client, client.epoch, owned=client.owned if self.chance(75) else None)
        elif kind < 63:
            topics = self.pick(self.choices)
            self._beat(client, client.epoch, topics=topics, owned=client.owned if self.chance(50) else None)
        elif kind < 68:
            topics = self.pick(self.choices)
            self._beat(client, client.epoch, topics=topics, owned=client.owned, rebalance_timeout_ms=LONG_REBALANCE_MS)
        elif kind < 76:
            self._beat(client, LEAVES if client.instance is None or self.chance(30) else LEAVES_FOR_A_WHILE)
        elif kind < 88:
            self._commit_of(client, client.epoch + self.pick((0, 0, 0, 0, -1, -1, -2)))
        elif kind < 94:
            self._describe_any(client)
        else:
            self._fetch_of(client, client.member_id, client.epoch)

    def _wild_beat(self, client: DrawnConsumer) -> None:
        kind = self.random.randrange(100)
        member_id = client.member_id if self.chance(70) else self.pick(self._ids_of_members())
        epoch = client.epoch + self.pick((0, 0, 1, -1, -2))
        if kind < 25:
            self._join_group(client, wild=True)
        elif kind < 60:
            owned = self.pick((None, (), client.owned, client.given, self._some_partitions()))
            self._beat(client, max(epoch, -3), member_id=member_id, owned=owned)
        elif kind < 66:
            self._beat(client, self.pick((LEAVES, LEAVES_FOR_A_WHILE, -3)), member_id=member_id)
        elif kind < 72:
            self._beat(client, client.epoch, assignor=self.pick(("range", "uniform", BOGUS, "")))
        elif kind < 78:
            self._beat(client, epoch, instance=self.pick(("", "i1", "i2", None)), rack=self.pick((None, "", "r1")))
        elif kind < 88:
            self._commit_of(client, epoch, member_id=member_id)
        elif kind < 94:
            self._fetch_of(client, member_id, epoch)
        else:
            self._describe_any(client)

    def _ids_of_members(self) -> list[str]:
        return [*[each.member_id for each in self.consumers], BOGUS]

    # --- requests ----------------------------------------------------------------------------------------------

    def _join_group(self, client: DrawnConsumer, *, wild: bool = False, member_id: str | None = None) -> None:
        timeout_ms = SHORT_REBALANCE_MS if self.short and self.chance(50) else LONG_REBALANCE_MS
        owned: Owned | None = ()
        topics: tuple[str, ...] | None = self.pick(self.choices)
        if wild and self.chance(40):
            timeout_ms, owned, topics = self.pick(
                ((-1, owned, topics), (timeout_ms, None, topics), (timeout_ms, self._some_partitions(), topics),
                 (timeout_ms, owned, None))
            )  # fmt: skip
        self._beat(
            client,
            JOINS,
            member_id=member_id,
            rebalance_timeout_ms=timeout_ms,
            topics=topics,
            owned=owned,
            assignor=self.pick(_ASSIGNORS),
            rack="r1" if self.chance(10) else None,
            joins=True,
        )

    def _beat(
        self,
        client: DrawnConsumer,
        epoch: int,
        *,
        member_id: str | None = None,
        instance: str | None = "own",
        rebalance_timeout_ms: int = -1,
        topics: tuple[str, ...] | None = None,
        assignor: str | None = None,
        rack: str | None = None,
        owned: Owned | None = None,
        joins: bool = False,
    ) -> None:
        version = 1 if self.chance(85) else 0
        name = client.member_id if member_id is None else member_id
        if joins and version == 0 and self.chance(50):
            name = UNKNOWN_MEMBER
        request = ConsumerGroupHeartbeat(
            group="" if self.chance(1) else GROUP,
            member_id=name,
            member_epoch=epoch,
            instance_id=client.instance if instance == "own" else instance,
            rack=rack,
            rebalance_timeout_ms=rebalance_timeout_ms,
            topics=topics,
            assignor=assignor,
            owned=owned,
        )
        self._beats[len(self.steps)] = client, request
        self._ask_as(client, version, request)

    def _ask_as(self, client: DrawnConsumer, version: int, request: object) -> None:
        self.ask(self.clients[self.consumers.index(client)], version, request)

    def _some_partitions(self) -> Owned:
        if self._own_ids and self.chance(25):
            return (TopicNumbers(topic_id=self.pick(self._own_ids), partitions=(0,)),)
        name = self.pick(("t", "u"))
        return (TopicNumbers(topic_id=name, partitions=(self.random.randrange(SIZES[name]),)),)

    def _commit_of(self, client: DrawnConsumer, epoch: int, *, member_id: str | None = None) -> None:
        newest = self.versions.commit[1]
        version = self.random.randint(_COMMIT_EPOCH_SINCE, newest) if self.chance(90) else self.version((2, newest))
        name = client.member_id if member_id is None else member_id
        if self.chance(4):
            name, epoch = UNKNOWN_MEMBER, -1
        by_id = version >= messages.OFFSET_TOPIC_IDS_SINCE
        partitions = [(self._own_ids[-1] if by_id and t == self.own else t, n) for t, n in self.all_partitions()]
        mine = [(each.topic_id, number) for each in client.given for number in each.partitions]
        if not by_id:
            mine = [(self.own if topic in self._own_ids else topic, number) for topic, number in mine]
        chosen = mine if mine and self.chance(60) else [each for each in partitions if self.chance(40)]
        if self.chance(10):
            chosen = [*chosen, self.pick((("t", 7), (UNKNOWN_TOPIC_ID if by_id else "missing", 0)))]
        rows = [
            messages.OffsetToCommit(topic=name, topic_id=topic_id, partition=number, offset=len(self.steps))
            for topic, number in chosen
            for name, topic_id in [self.topic_in(version, topic)]
        ]
        request = messages.OffsetCommit(group=GROUP, generation=epoch, member_id=name, offsets=tuple(rows))
        self._ask_as(client, version, request)

    def _fetch_of(self, client: DrawnConsumer, member_id: str, epoch: int) -> None:
        newest = self.versions.fetch[1]
        is_older = self.chance(40)
        version = self.version(self.versions.fetch) if is_older else self.random.randint(_FETCH_EPOCH_SINCE, newest)
        by_id = version >= messages.OFFSET_TOPIC_IDS_SINCE
        numbers_of: dict[str, tuple[int, ...]] = {
            "t": (0, 1),
            **{each if by_id else self.own: (0, 1) for each in self._own_ids},
        }
        if by_id and self.chance(20):
            numbers_of[UNKNOWN_TOPIC_ID] = (0,)
        topics: tuple[messages.TopicPartitions, ...] | None = tuple(
            messages.TopicPartitions(topic=name, topic_id=topic_id, partitions=numbers)
            for topic, numbers in numbers_of.items()
            for name, topic_id in [self.topic_in(version, topic)]
        )
        if version >= _FETCH_ALL_SINCE and self.chance(25):
            topics = None
        if is_older:
            self._ask_as(client, version, messages.OffsetFetch(group=GROUP, topics=topics))
            return
        request = messages.OffsetFetch(
            group=GROUP,
            topics=topics,
            member_id=None if self.chance(10) else member_id,
            member_epoch=epoch,
            require_stable=self.chance(50),
        )
        self._ask_as(client, version, request)

    def _describe_any(self, client: DrawnConsumer) -> None:
        if self.chance(15):
            self.describe(self.clients[self.consumers.index(client)])
        else:
            self._describe_consumers(client)

    def _describe_consumers(self, client: DrawnConsumer) -> None:
        self._ask_as(client, 1 if self.chance(80) else 0, ConsumerGroupDescribe(groups=(GROUP,)))

    def last(self) -> list[Callable[[], None]]:
        """The descriptions at the end of the sequence."""
        return [lambda: self._describe_consumers(self.consumers[0])]

    def end(self, length: int) -> DrawnSequence:
        """The sequence of this length, with descriptions at its end."""
        last = self.last()
        while len(self.steps) < length - len(last):
            self.step()
        self.pass_time(GAP_MS)
        for describe in last:
            describe()
        self.pass_time(CLEAR_MS)
        return DrawnSequence(self.seed, tuple(self.steps), tuple(self.at_once), self.now_ms, self.topics)


def draw_consumers(
    seed: int, config: BrokerConfig, versions: Versions, topics: Mapping[str, str], *, length: int
) -> DrawnSequence:
    """Draw a sequence of ``length`` requests for a cluster with these topics (name -> id)."""
    return ConsumerDrawing(seed, config, versions, topics).end(length)
