"""Groups for measuring assignors: the shapes of Kafka's own large tests, at any size."""

from collections.abc import Callable, Mapping
from random import Random

from attrs import evolve, frozen

from kemu.protocol.assign.base import Assignment, Assignor, Memory, Subscriber, Topics
from kemu.protocol.names import MemberId


@frozen
class MeasuredGroup:
    """A group, and one more member that could join the group."""

    topics: Topics
    members: Mapping[MemberId, Subscriber]
    newcomer: Subscriber

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return sum(self.topics.partitions.values())

    def owning(self, assignor: Assignor, assignment: Assignment) -> "MeasuredGroup":
        """The group after a rebalance: each member owns its assignment, and reports the assignment in the assignor's
        format.
        """
        members = {
            member: evolve(
                one,
                owned=tuple(assignment[member]),
                generation=1,
                user_data=assignor.user_data(Memory(tuple(assignment[member]), 1)),
            )
            for member, one in self.members.items()
        }
        return evolve(self, members=members)

    def with_one_less(self) -> "MeasuredGroup":
        """The group without the member in the middle."""
        departed = sorted(self.members)[len(self.members) // 2]
        return evolve(self, members={member: one for member, one in self.members.items() if member != departed})

    def with_one_more(self) -> "MeasuredGroup":
        """The group with the new member."""
        return evolve(self, members={**self.members, "newcomer": self.newcomer})


Shape = Callable[[int, int, int], MeasuredGroup]
"""Function of (number of topics, partitions per topic, number of members) that returns a group."""


def uniform(topics: int, partitions: int, members: int) -> MeasuredGroup:
    """Every member subscribes to every topic."""
    names = tuple(f"topic-{number:04d}" for number in range(topics))
    everything = Subscriber(names)
    return MeasuredGroup(
        Topics(dict.fromkeys(names, partitions)),
        {f"member-{number:05d}": everything for number in range(members)},
        everything,
    )


def odd_one(topics: int, partitions: int, members: int) -> MeasuredGroup:
    """Like ``uniform``, but the last member subscribes to only one topic."""
    group = uniform(topics, partitions, members)
    last = max(group.members)
    return evolve(group, members={**group.members, last: Subscriber(("topic-0000",))})


def halves(topics: int, partitions: int, members: int) -> MeasuredGroup:
    """Every fourth member subscribes to the first half of the topics, all other members to the second half."""
    group = uniform(topics, partitions, members)
    names = tuple(group.topics.partitions)
    first, second = Subscriber(names[: topics // 2]), Subscriber(names[topics // 2 :])
    by_number = {member: second if number % 4 else first for number, member in enumerate(group.members)}
    return evolve(group, members=by_number, newcomer=first)


def mixed(topics: int, partitions: int, members: int) -> MeasuredGroup:
    """Every member subscribes to a random half of the topics; two members rarely have the same half."""
    group = uniform(topics, partitions, members)
    names = tuple(group.topics.partitions)
    random = Random(topics * partitions * members)

    def some() -> Subscriber:
        return Subscriber(tuple(random.sample(names, max(1, topics // 2))))

    return evolve(group, members={member: some() for member in group.members}, newcomer=some())


SHAPES: Mapping[str, Shape] = {"uniform": uniform, "odd-one": odd_one, "halves": halves, "mixed": mixed}
