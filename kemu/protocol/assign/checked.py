"""Custom assignors: a user's class behind checks, so that its mistakes are named where they are made.

Kafka's own assignors are trusted by its clients; a custom cooperative one is checked for handing a partition over
directly (ConsumerCoordinator.validateCooperativeAssignment). The other checks are ours: a broken assignment that is
sent out does its damage in the members, far from its cause.
"""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from kemu.protocol.assign.base import (
    Assignment,
    GroupAssignment,
    MemberAssignor,
    Memory,
    RebalanceProtocol,
    Subscriber,
    Topics,
)
from kemu.protocol.names import MemberId, TopicPartition


class NotAnAssignor(Exception):
    """An object that cannot be used as an assignor; the message says what it lacks."""


class InvalidAssignment(Exception):
    """What an assignor returned breaks a rule.

    ``member`` and ``partition`` say where; ``partition`` is None when the member itself is the mistake.
    """

    def __init__(self, assignor: str, member: MemberId, partition: TopicPartition | None, problem: str) -> None:
        """``problem`` completes the sentence that names assignor, member and partition."""
        what = f"{member}" if partition is None else f"{partition[0]}-{partition[1]} to {member}"
        super().__init__(f"assignor {assignor} gave {what}: {problem}")
        self.member = member
        self.partition = partition


@frozen
class CheckedAssignor:
    """A custom assignor; what it returns is checked before anybody sees it.

    ``assign`` raises ``InvalidAssignment``. Members the custom class leaves out get nothing.
    """

    custom: Any
    name: str
    version: int
    protocols: tuple[RebalanceProtocol, ...]

    def user_data(self, memory: Memory | None) -> bytes | None:
        """What the custom class says; None when it does not say."""
        told = getattr(self.custom, "user_data", None)
        return _bytes(self.name, told(memory) if told is not None else None)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The custom class's assignment, complete and checked."""
        return self.complete(topics, members, self.custom.assign(topics, members))

    def complete(self, topics: Topics, members: Mapping[MemberId, Subscriber], returned: object) -> Assignment:
        """What the custom class returned, for every member, if it holds; raises as ``assign``."""
        if not isinstance(returned, Mapping):
            raise NotAnAssignor(f"{self.name}: assign must return member -> partitions, not {type(returned).__name__}")
        assignment: Assignment = {member: [] for member in sorted(members)}
        for member, partitions in returned.items():
            if member not in members:
                raise InvalidAssignment(self.name, member, None, "no such member in the group")
            assignment[member] = [_pair(self.name, member, one) for one in partitions]
        check(self.name, topics, members, assignment, RebalanceProtocol.COOPERATIVE in self.protocols)
        return assignment


@frozen
class CheckedStatefulAssignor(CheckedAssignor):
    """A custom assignor whose members remember; each member's own is behind the same checks."""

    def for_member(self) -> MemberAssignor:
        """A member's own, at the start of its life."""
        return CheckedMemberAssignor(self, self.custom.for_member())


class CheckedMemberAssignor:
    """A member's own instance of a custom assignor; what it returns is checked before anybody sees it."""

    def __init__(self, assignor: CheckedAssignor, custom: Any) -> None:
        self.name = assignor.name
        self.custom = custom
        self._assignor = assignor

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """What it says."""
        return _bytes(self.name, self.custom.user_data(topics))

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment:
        """Its assignment, complete and checked, and the bytes of members; partitions alone mean no bytes."""
        returned = self.custom.assign(topics, members)
        if not isinstance(returned, GroupAssignment):
            return GroupAssignment(self._assignor.complete(topics, members, returned))
        for member, data in returned.user_data.items():
            if member not in members:
                raise InvalidAssignment(self.name, member, None, "no such member in the group")
            _bytes(self.name, data)
        return GroupAssignment(self._assignor.complete(topics, members, returned.partitions), returned.user_data)

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """It is told as it is."""
        self.custom.on_assignment(partitions, user_data, generation)


def checked(custom: object, fallback_name: str) -> CheckedAssignor:
    """Put a custom assignor behind checks.

    Args:
        custom: an object with ``assign(topics, members)``. ``name``, ``version``, ``protocols`` and ``user_data`` are
            taken from it when it has them, else the fallback name, 0, eager only, and no user data. With a
            ``for_member()`` its members remember (``StatefulAssignor``).
        fallback_name: what to call it.

    Raises:
        NotAnAssignor: it has no ``assign``, one of the others is not of its type, or what ``for_member`` makes lacks a
            method.
    """
    if not callable(getattr(custom, "assign", None)):
        raise NotAnAssignor(f"{fallback_name}: no method assign(topics, members)")
    name = getattr(custom, "name", fallback_name)
    version = getattr(custom, "version", 0)
    protocols = tuple(getattr(custom, "protocols", (RebalanceProtocol.EAGER,)))
    if not isinstance(name, str) or not name:
        raise NotAnAssignor(f"{fallback_name}: its name must be a text that is not empty")
    if not isinstance(version, int):
        raise NotAnAssignor(f"{fallback_name}: its version must be a number")
    if not protocols or not all(isinstance(one, RebalanceProtocol) for one in protocols):
        raise NotAnAssignor(f"{fallback_name}: its protocols must be RebalanceProtocol values, at least one")
    make = getattr(custom, "for_member", None)
    if make is None:
        return CheckedAssignor(custom, name, version, protocols)
    one = make()
    for method in ("user_data", "assign", "on_assignment"):
        if not callable(getattr(one, method, None)):
            raise NotAnAssignor(f"{fallback_name}: what its for_member() makes has no method {method}")
    return CheckedStatefulAssignor(custom, name, version, protocols)


def check(
    name: str,
    topics: Topics,
    members: Mapping[MemberId, Subscriber],
    assignment: Assignment,
    cooperative: bool,
) -> None:
    """Check an assignment against the group it is for.

    Args:
        name: the assignor, for the message.
        topics: the cluster.
        members: the group.
        assignment: what to check; its keys are members of the group.
        cooperative: also check that nothing goes to a new member while another still owns it.

    Raises:
        InvalidAssignment: a partition that does not exist, is given twice, is of a topic its member does not subscribe
            to, or (cooperative) is still owned by somebody else.
    """
    holder: dict[TopicPartition, MemberId] = {}
    owners: dict[TopicPartition, MemberId] = {}
    for member in sorted(members):
        owners.update(dict.fromkeys(members[member].owned, member))
    for member, partitions in assignment.items():
        subscribed, owned = frozenset(members[member].topics), frozenset(members[member].owned)
        for partition in partitions:
            if partition[0] not in subscribed:
                raise InvalidAssignment(name, member, partition, "it does not subscribe to that topic")
            if not 0 <= partition[1] < topics.partitions.get(partition[0], 0):
                raise InvalidAssignment(name, member, partition, "there is no such partition")
            if partition in holder:
                raise InvalidAssignment(name, member, partition, f"{holder[partition]} gets it too")
            if cooperative and partition not in owned and partition in owners:
                problem = f"{owners[partition]} still owns it and has to give it up in a rebalance before"
                raise InvalidAssignment(name, member, partition, problem)
            holder[partition] = member


def _bytes(name: str, data: object) -> bytes | None:
    if data is not None and not isinstance(data, bytes):
        raise NotAnAssignor(f"{name}: user_data must return bytes or None, not {type(data).__name__}")
    return data


def _pair(name: str, member: MemberId, value: Any) -> TopicPartition:
    match value:
        case (str(topic), int(number)) if not isinstance(number, bool):
            return topic, number
        case _:
            raise NotAnAssignor(f"{name}: {value!r} for {member} is not a (topic, partition number)")
