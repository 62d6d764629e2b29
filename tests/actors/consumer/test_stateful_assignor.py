"""An assignor that remembers and that returns bytes next to partitions, as the one of Kafka Streams does."""

from collections.abc import Mapping

import pytest

from kemu.protocol.assign.base import (
    Assignment,
    GroupAssignment,
    MemberAssignor,
    Memory,
    RebalanceProtocol,
    StatefulAssignor,
    Subscriber,
    Topics,
)
from kemu.protocol.assign.checked import InvalidAssignment, NotAnAssignor, checked
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.messages.group import JoinGroup, SyncGroup
from kemu.protocol.messages.member import decode_assignment, decode_subscription
from kemu.protocol.names import TopicPartition
from tests.actors.consumer.consumer_harness import Harness


class Tasks:
    """A toy: everything to the first member, which is told how often its group was dealt; it says so when it joins."""

    name = "tasks"
    version = 0
    protocols = (RebalanceProtocol.EAGER,)

    def user_data(self, memory: Memory | None) -> bytes | None:
        return None

    def assign(self, topics: Topics, members: Mapping[str, Subscriber]) -> Assignment:
        return self.for_member().assign(topics, members).partitions

    def for_member(self) -> MemberAssignor:
        return TasksOfMember()


class TasksOfMember:
    """Its memory: what it was told last, and how often."""

    name = Tasks.name

    def __init__(self) -> None:
        self.told: list[tuple[int, bytes | None]] = []

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        return b"/".join([data or b"" for _, data in self.told]) + b"?" + ",".join(topics).encode()

    def assign(self, topics: Topics, members: Mapping[str, Subscriber]) -> GroupAssignment:
        first, *rest = sorted(members)
        partitions = [(topic, number) for topic, count in topics.partitions.items() for number in range(count)]
        claim = members[first].user_data or b""
        return GroupAssignment({first: partitions, **{one: [] for one in rest}}, {first: b"after " + claim[:7]})

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        self.told.append((generation, user_data))


@pytest.mark.parametrize("custom", [False, True], ids=["of the table", "the user's own, behind checks"])
def test_a_member_keeps_an_assignor_with_memory_whose_bytes_go_round(custom: bool) -> None:
    """ConsumerPartitionAssignor: userData of the Assignment reaches onAssignment, whose memory the next join tells."""
    tasks = checked(Tasks(), "mine:Tasks") if custom else Tasks()
    assert isinstance(tasks, StatefulAssignor)
    assignors = {"tasks": tasks}
    harness = Harness(assignors=assignors, partition_assignment_strategy=("tasks",)).stable()
    harness.rejoin_now()
    harness.stable()

    syncs = [message for _, _, message in harness.sent if isinstance(message, SyncGroup)]
    given = [decode_assignment(sync.assignments[0].assignment) for sync in syncs]
    assert [one.user_data for one in given] == [b"after ?t", b"after after ?"]
    assert all(len(one.partitions) == 4 for one in given)
    joins = [message for _, _, message in harness.sent if isinstance(message, JoinGroup) and message.member_id]
    said = [decode_subscription(join.protocols[0].metadata).user_data for join in joins]
    assert said == [b"?t", b"after ?t?t"]


def test_each_life_begins_without_memory() -> None:
    """A process that starts anew has another instance of its assignor."""
    tasks = Tasks()
    for _ in range(2):
        harness = Harness(assignors={"tasks": tasks}, partition_assignment_strategy=("tasks",)).stable()
        first = next(message for _, _, message in harness.sent if isinstance(message, JoinGroup))
        assert decode_subscription(first.protocols[0].metadata).user_data == b"?t"


def test_an_assignor_that_is_a_function_is_no_stateful_one() -> None:
    """Those of Kafka's clients get their memory handed in."""
    assert not [name for name, one in ASSIGNORS.items() if isinstance(one, StatefulAssignor)]


class Broken(Tasks):
    """Its members' own say what they should not."""

    def __init__(self, returned: object) -> None:
        self.returned = returned

    def for_member(self) -> MemberAssignor:
        made = TasksOfMember()
        made.assign = lambda topics, members: self.returned  # type: ignore[method-assign, assignment, return-value]
        return made


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (GroupAssignment({"m": [("t", 9)]}), InvalidAssignment, "t-9 to m: there is no such partition"),
        (GroupAssignment({}, {"x": b""}), InvalidAssignment, "gave x: no such member"),
        (GroupAssignment({}, {"m": "text"}), NotAnAssignor, "bytes or None, not str"),  # type: ignore[dict-item]
        (None, NotAnAssignor, "must return member -> partitions, not NoneType"),
    ],
)
def test_what_a_members_own_assignor_returns_is_checked(returned: object, error: type[Exception], text: str) -> None:
    """As of an assignor without memory: the mistake is named where it is made."""
    one = checked(Broken(returned), "mine:Broken")
    assert isinstance(one, StatefulAssignor)
    with pytest.raises(error, match=text):
        one.for_member().assign(Topics({"t": 2}), {"m": Subscriber(topics=("t",))})


def test_a_members_own_assignor_without_a_method_is_refused() -> None:
    """When it is loaded, not when the first member joins."""

    class Half(Tasks):
        def for_member(self) -> MemberAssignor:
            return object()  # type: ignore[return-value]

    with pytest.raises(NotAnAssignor, match=r"mine:Half: the result of its for_member\(\) has no method user_data"):
        checked(Half(), "mine:Half")
