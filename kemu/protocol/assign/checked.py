"""Custom assignors: checks around a user's class, which report a mistake where the mistake occurs.

Kafka's clients do not check Kafka's own assignors. A client checks whether a custom cooperative assignor moves
partitions without a revocation (ConsumerCoordinator.validateCooperativeAssignment). All other checks are kemu's own.
Without these checks, a wrong assignment would cause errors in the members, far from the mistake.
"""

from collections.abc import Mapping
from typing import Any

from kemu.protocol.assign.base import (
    Assignment,
    GroupAssignment,
    MemberAssignor,
    Memory,
    RebalanceProtocol,
    Subscriber,
    Topics,
)
from kemu.protocol.frozen import frozen
from kemu.protocol.names import MemberId, TopicPartition


class NotAnAssignor(Exception):
    """The error for an object that is no assignor; the message names the missing part."""


class InvalidAssignment(Exception):
    """The error for an assignment that breaks a rule.

    ``member`` and ``partition`` are the place of the mistake; ``partition`` is None when the member itself is wrong.
    """

    def __init__(self, assignor: str, member: MemberId, partition: TopicPartition | None, problem: str) -> None:
        """``problem`` completes the message, which names the assignor, the member and the partition."""
        what = f"{member}" if partition is None else f"{partition[0]}-{partition[1]} to {member}"
        super().__init__(f"assignor {assignor} gave {what}: {problem}")
        self.member = member
        self.partition = partition


@frozen
class CheckedAssignor:
    """A custom assignor whose assignments are checked before use.

    ``assign`` raises ``InvalidAssignment``. A member that the custom class omits gets no partitions.
    """

    custom: Any
    name: str
    version: int
    protocols: tuple[RebalanceProtocol, ...]

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The custom class's user data; None if the class has no method ``user_data``."""
        told = getattr(self.custom, "user_data", None)
        return _bytes(self.name, told(memory) if told is not None else None)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The custom class's assignment, checked, with every member of the group."""
        return self.complete(topics, members, self.custom.assign(topics, members))

    def complete(self, topics: Topics, members: Mapping[MemberId, Subscriber], returned: object) -> Assignment:
        """Check the custom class's result and add omitted members; raises the errors of ``assign``."""
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
    """A custom assignor with a state per member; each member's instance has the same checks."""

    def for_member(self) -> MemberAssignor:
        """A new instance for the start of a member."""
        return CheckedMemberAssignor(self, self.custom.for_member())


class CheckedMemberAssignor:
    """One member's instance of a custom assignor; its assignments are checked before use."""

    def __init__(self, assignor: CheckedAssignor, custom: Any) -> None:
        self.name = assignor.name
        self.custom = custom
        self._assignor = assignor

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """The user data of the member's custom instance."""
        return _bytes(self.name, self.custom.user_data(topics))

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment:
        """The custom instance's assignment, checked, with every member of the group.

        The result has user data only if the instance returned a ``GroupAssignment``.
        """
        returned = self.custom.assign(topics, members)
        if not isinstance(returned, GroupAssignment):
            return GroupAssignment(self._assignor.complete(topics, members, returned))
        for member, data in returned.user_data.items():
            if member not in members:
                raise InvalidAssignment(self.name, member, None, "no such member in the group")
            _bytes(self.name, data)
        return GroupAssignment(self._assignor.complete(topics, members, returned.partitions), returned.user_data)

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """Pass the assignment unchanged to the custom instance."""
        self.custom.on_assignment(partitions, user_data, generation)


def checked(custom: object, fallback_name: str) -> CheckedAssignor:
    """Wrap a custom assignor in checks.

    Args:
        custom: an object with ``assign(topics, members)``. The attributes ``name``, ``version``, ``protocols`` and
            ``user_data`` are optional. The defaults are the fallback name, 0, eager only, and no user data. An object
            with ``for_member()`` has a state per member (``StatefulAssignor``).
        fallback_name: the name of an object without the attribute ``name``.

    Raises:
        NotAnAssignor: the object has no ``assign``, another attribute has a wrong type, or the result of ``for_member``
            lacks a method.
    """
    if not callable(getattr(custom, "assign", None)):
        raise NotAnAssignor(f"{fallback_name}: no method assign(topics, members)")
    name = getattr(custom, "name", fallback_name)
    version = getattr(custom, "version", 0)
    protocols = tuple(getattr(custom, "protocols", (RebalanceProtocol.EAGER,)))
    if not isinstance(name, str) or not name:
        raise NotAnAssignor(f"{fallback_name}: its name must be a non-empty string")
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
            raise NotAnAssignor(f"{fallback_name}: the result of its for_member() has no method {method}")
    return CheckedStatefulAssignor(custom, name, version, protocols)


def check(
    name: str,
    topics: Topics,
    members: Mapping[MemberId, Subscriber],
    assignment: Assignment,
    cooperative: bool,
) -> None:
    """Check whether an assignment is valid for its group.

    Args:
        name: the assignor's name, for the message.
        topics: the cluster's topics.
        members: the group's members.
        assignment: the assignment to check; its keys are members of the group.
        cooperative: also check that no partition moves while another member still owns the partition.

    Raises:
        InvalidAssignment: a partition does not exist, is assigned twice, or is of a topic to which its member does
            not subscribe. Or (cooperative) another member still owns the partition.
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
