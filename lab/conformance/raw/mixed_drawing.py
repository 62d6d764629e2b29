"""Random short sequences of both protocols for one group: clients change their protocol, and the group is converted.

A client may speak either protocol: it has a member id for each, and one instance id for both. Classic members send real
subscriptions, and leaders send real assignments, so that the coordinator can convert the group.
"""

from collections.abc import Callable, Iterator, Mapping

from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages import group as messages
from kemu.protocol.messages.consumer_group import JOINS, LEAVES, LEAVES_FOR_A_WHILE
from kemu.protocol.messages.member import (
    HIGHEST_VERSION,
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kemu.protocol.names import UNKNOWN_MEMBER, TopicPartition
from kemu.protocol.wire.codec import CodecError
from lab.conformance.raw.consumer_drawing import ConsumerDrawing, DrawnConsumer
from lab.conformance.raw.drawing import DrawnClient, DrawnSequence, Versions
from lab.conformance.raw.steps import GROUP

_MALFORMED = b"\x00"
_STATES = ((), (), ("Stable",), ("Empty", "empty"), ("stable", "Assigning", "Reconciling"), ("PreparingRebalance",))


class _MixedDrawing(ConsumerDrawing):
    def __init__(self, seed: int, config: BrokerConfig, versions: Versions, topics: Mapping[str, str]) -> None:
        super().__init__(seed, config, versions, topics)
        classic = self.pick((20, 50, 80, 100))
        self._speaks_classic = [self.chance(classic) for _ in self.clients]
        self._topics = [self.pick(self.choices) for _ in self.clients]
        self._held: list[tuple[TopicPartition, ...]] = [()] * len(self.clients)
        self._listened: set[int] = set()
        self.known += [each.member_id for each in self.consumers]

    def _hear(self) -> None:
        super()._hear()
        for number in sorted(self.alone.answers.keys() - self._listened):
            self._listened.add(number)
            reply = self.alone.answers[number][1]
            if isinstance(reply, messages.SyncGroupReply) and reply.error is ErrorCode.NONE:
                place = self.clients.index(self._asked_by[number])
                self._held[place] = _partitions_in(reply.assignment)

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Add one step of a client in its protocol; sometimes it changes its protocol, or mixes up both."""
        if self.short and self.chance(12):
            self.wait_for_a_timer()
        if self.change_topic():
            return
        place = self.random.randrange(self.busy if self.chance(85) else len(self.clients))
        client, consumer = self.clients[place], self.consumers[place]
        kind = self.random.randrange(100)
        if kind < 8:
            self._change_protocol(place)
        elif kind < 16:
            self._mix_up(client, consumer)
        elif kind < 19:
            self._list(client)
        elif self._speaks_classic[place]:
            if self.chance(76):
                self._sensible(client)
            else:
                self._wild(client)
        elif self.chance(76):
            self._sensible_beat(consumer)
        else:
            self._wild_beat(consumer)

    def _change_protocol(self, place: int) -> None:
        """Leave the group, most often, and speak the other protocol from now on."""
        client, consumer = self.clients[place], self.consumers[place]
        was_classic = self._speaks_classic[place]
        self._speaks_classic[place] = not was_classic
        if self.chance(35):
            return
        if was_classic:
            self._leave(client, wild=False)
        else:
            self._beat(consumer, LEAVES if consumer.instance is None or self.chance(50) else LEAVES_FOR_A_WHILE)

    def _mix_up(self, client: DrawnClient, consumer: DrawnConsumer) -> None:
        """A request of one protocol with the member id of the other, or for a member of the other."""
        kind = self.random.randrange(100)
        member_id, epoch = consumer.member_id, consumer.epoch
        if kind < 12:
            self._heartbeat(client, member_id, epoch, client.instance)
        elif kind < 24:
            self._sync(client, member_id, epoch, client.instance, wild=self.chance(50))
        elif kind < 40:
            self._join(client, member_id, client.instance if self.chance(60) else None, wild=self.chance(50))
        elif kind < 55:
            self._take_away(client, member_id)
        elif kind < 62:
            self._commit(client, member_id, epoch, client.instance)
        elif kind < 70:
            self._fetch_of(consumer, client.member_id, client.generation)
        elif kind < 78:
            self._commit_of(consumer, client.generation, member_id=client.member_id)
        elif kind < 90:
            self._join_group(consumer, member_id=client.member_id or None)
        else:
            epoch = self.pick((client.generation, client.generation, JOINS, LEAVES, LEAVES_FOR_A_WHILE))
            self._beat(consumer, epoch, member_id=client.member_id, owned=self.pick((None, (), consumer.given)))

    def _take_away(self, client: DrawnClient, member_id: str) -> None:
        """LeaveGroup for a member of the consumer protocol: by its id, or as an admin, by its instance id."""
        version = self.versions.leave[1]
        rows = [messages.LeavingMember(member_id=member_id, instance_id=client.instance)]
        if client.instance is not None and self.chance(50):
            rows = [messages.LeavingMember(member_id=UNKNOWN_MEMBER, instance_id=client.instance)]
        if self.chance(25):
            rows.append(messages.LeavingMember(member_id=self.pick(self.known)))
        self.ask(client, version, messages.LeaveGroup(group=GROUP, members=tuple(rows)))

    # --- requests ----------------------------------------------------------------------------------------------

    def _ids_of_members(self) -> list[str]:
        return [*super()._ids_of_members(), *[each.member_id for each in self.clients]]

    def _metadata(self, client: DrawnClient, *, wild: bool) -> bytes:
        if wild and self.chance(4):
            return _MALFORMED
        place = self.clients.index(client)
        if self.chance(30 if wild else 8):
            self._topics[place] = self.pick(self.choices)
        held = self._held[place]
        owned = self.pick((held, held, held, (), (), self._some()))
        subscription = Subscription(
            self._topics[place],
            user_data=b"\x01" if self.chance(5) else None,
            owned=tuple(sorted(owned)),
            generation=client.generation,
            rack="r1" if self.chance(5) else None,
        )
        return encode_subscription(subscription, HIGHEST_VERSION if self.chance(70) else self.random.randrange(4))

    def _some(self) -> tuple[TopicPartition, ...]:
        return tuple([each for each in self.all_partitions() if self.chance(30)])

    def _assignments(self, members: int) -> Iterator[bytes]:
        kind = self.random.randrange(100)
        if kind < 3:
            yield from [_MALFORMED] * members
        user_data = b"\x01" if kind < 6 else None
        rows: list[list[TopicPartition]] = [[] for _ in range(members)]
        for each in self.all_partitions():
            if self.chance(90):
                self.pick(rows).append(each)
            if 6 <= kind < 9 and self.chance(40):
                self.pick(rows).append(each)
        version = HIGHEST_VERSION if self.chance(70) else self.random.randrange(4)
        for row in rows:
            yield encode_assignment(Assignment(tuple(row), user_data), version)

    def _list(self, client: DrawnClient) -> None:
        version = self.version(self.versions.list_groups)
        states = self.pick(_STATES) if version >= 4 else ()
        types = self.pick(((), ("consumer",), ("Classic",))) if version >= 5 else ()
        self.ask(client, version, messages.ListGroups(states_filter=states, types_filter=types))

    def last(self) -> list[Callable[[], None]]:
        """The descriptions at the end of the sequence."""
        client = self.clients[0]
        return [*super().last(), lambda: self.describe(client), lambda: self._list(client)]


def _partitions_in(assignment: bytes) -> tuple[TopicPartition, ...]:
    if not assignment:
        return ()
    try:
        return decode_assignment(assignment).partitions
    except CodecError:
        return ()


def draw_mixed(
    seed: int, config: BrokerConfig, versions: Versions, topics: Mapping[str, str], *, length: int
) -> DrawnSequence:
    """Draw a sequence of ``length`` requests of both protocols for a cluster with these topics (name -> id)."""
    return _MixedDrawing(seed, config, versions, topics).end(length)
