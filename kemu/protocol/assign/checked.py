"""Custom assignors: checks around a user's class, so that its mistakes are reported where they occur.

Kafka's clients trust Kafka's own assignors. The clients check a custom cooperative assignor for partitions that move
without a revocation (ConsumerCoordinator.validateCooperativeAssignment). The other checks are kemu's own: without them,
a wrong assignment would cause errors in the members, far from its cause.
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
    """An object that cannot be used as an assignor; the message names the missing part."""


class InvalidAssignment(Exception):
    """An assignor returned an assignment that breaks a rule.

    ``member`` and ``partition`` give the place; ``partition`` is None when the member itself is wrong.
    """

    def __init__(self, assignor: str, member: MemberId, partition: TopicPartition | None, problem: str) -> None:
        """``problem`` completes the sentence that names assignor, member and partition."""
        what = f"{member}" if partition is None else f"{partition[0]}-{partition[1]} to {member}"
        super().__init__(f"assignor {assignor} gave {what}: {problem}")
        self.member = member
        self.partition = partition


@frozen
class CheckedAssignor:
    """A custom assignor whose assignments are checked before use.

    ``assign`` raises ``InvalidAssignment``. Members that the custom class omits get nothing.
    """

    custom: Any
    name: str
    version: int
    protocols: tuple[RebalanceProtocol, ...]

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The custom class's user data; None without such a method."""
        told = getattr(self.custom, "user_data", None)
        return _bytes(self.name, told(memory) if told is not None else None)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The custom class's assignment, complete and checked."""
        return self.complete(topics, members, self.custom.assign(topics, members))

    def complete(self, topics: Topics, members: Mapping[MemberId, Subscriber], returned: object) -> Assignment:
        """Check the custom class's result and add omitted members; raises as ``assign``."""
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
    """A custom assignor whose members have state; each member's instance has the same checks."""

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
        """The custom instance's user data."""
        return _bytes(self.name, self.custom.user_data(topics))

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment:
        """The custom assignor's assignment, complete and checked, with the user data of members; a plain assignment has
        none.
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
        """Pass the assignment on unchanged to the custom instance."""
        self.custom.on_assignment(partitions, user_data, generation)


def checked(custom: object, fallback_name: str) -> CheckedAssignor:
    """Wrap a custom assignor in checks.

    Args:
        custom: an object with ``assign(topics, members)``. ``name``, ``version``, ``protocols`` and ``user_data`` are
            taken from it when it has them, else the fallback name, 0, eager only, and no user data. With
            ``for_member()`` its members have state (``StatefulAssignor``).
        fallback_name: the name of an object without one.

    Raises:
        NotAnAssignor: it has no ``assign``, another attribute has a wrong type, or the result of ``for_member`` lacks a
            method.
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
    """Check an assignment against the group it is for.

    Args:
        name: the assignor, for the message.
        topics: the cluster.
        members: the group.
        assignment: the assignment to check; its keys are members of the group.
        cooperative: also check that no partition moves while another member still owns it.

    Raises:
        InvalidAssignment: a partition does not exist, is assigned twice, is of a topic without its member's
            subscription,
            or (cooperative) still has another owner.
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
