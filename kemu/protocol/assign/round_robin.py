"""The round-robin assignor: it deals all partitions to the members in a circle."""

from bisect import bisect_left
from collections.abc import Mapping

from kemu.protocol.assign.base import Assignment, Memory, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.assign.search.order import known_topics, partitions_of, static_first
from kemu.protocol.frozen import frozen
from kemu.protocol.names import MemberId


@frozen
class RoundRobinAssignor:
    """Kafka's ``roundrobin``."""

    name: str = "roundrobin"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, memory: Memory | None) -> bytes | None:
        """None: the round-robin assignor needs no memory."""
        return None

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The partitions, by topic and number, dealt to the members in a circle; static members are first.

        Members that do not subscribe to a topic are skipped. The circle continues from topic to topic.
        """
        assignment: Assignment = {member: [] for member in sorted(members)}
        circle = static_first(members)
        wanted = {member: frozenset(members[member].topics) for member in circle}
        names = known_topics(topics, (topic for member in circle for topic in members[member].topics))
        if len(set(wanted.values())) == 1:
            everything = partitions_of(topics, names)
            for place, member in enumerate(circle):
                assignment[member] = everything[place :: len(circle)]
            return assignment
        place = 0
        for topic in names:
            takers = [at for at, member in enumerate(circle) if topic in wanted[member]]
            turn = bisect_left(takers, place)
            for partition in range(topics.partitions[topic]):
                taker = takers[turn % len(takers)]
                assignment[circle[taker]].append((topic, partition))
                turn += 1
                place = taker + 1
        return assignment
