"""The coordinator of each group's log, and the coordinator that each member asks (part of the panel).

A broker coordinates a group while it leads the group's log. A broker that does not learn of its successor continues. A
broker that is alone in its ISR, and whose successor won an unclean election, even accepts commits and completes
rebalances. The deposed leader's records are truncated when the broker follows the new leader. So from the successor's
first moment on, the facts of the deposed coordinator describe only itself and the members that still ask it.

Source: Kafka's ``GroupCoordinator`` and ``Partition``: both use the leader epoch that the broker itself received.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.emulator.facts import HostDown, HostStarted, Seen
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, TopicPartition, host_of
from kemu.protocol.nodes import PartitionState
from kemu.protocol.notes.groups import CoordinatorKnown
from kemu.protocol.notes.replication import BecameLeader


class Coordinators:
    """The coordinators of all groups. Without replication no broker is ever deposed.

    Args:
        states: the panel's partition states.
    """

    def __init__(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        self._states = states
        self._newest: dict[TopicPartition, int] = {}
        """Partition of the groups' log -> highest leader epoch in which a broker became leader."""
        self._led: dict[tuple[str, TopicPartition], int] = {}
        """(host, groups' log) -> the last leader epoch in which this life of the broker became leader."""
        self._asked: dict[ActorName, ActorName] = {}
        """Member -> the coordinator that the member found last."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            BecameLeader: self._leads,
            CoordinatorKnown: self._known,
            HostStarted: self._ended,
            HostDown: self._ended,
        }

    def is_deposed(self, coordinator: ActorName, log: TopicPartition | None) -> bool:
        """Whether another broker became leader of this log after the coordinator's broker."""
        if log is None:
            return False
        led = self._led.get((host_of(coordinator), log))
        return led is not None and led < self._newest.get(log, led)

    def asked_by(self, member: ActorName) -> ActorName:
        """The coordinator that a member found last; "" before the first."""
        return self._asked.get(member, "")

    def deleted(self, at: TopicPartition) -> None:
        """Forget the epochs of a partition that the store deleted."""
        self._newest.pop(at, None)
        for key in [key for key in self._led if key[1] == at]:
            del self._led[key]

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        state = self._states.get(at)
        if fact.topic != OFFSETS_TOPIC or state is None or fact.leader_epoch > state.leader_epoch:
            return  # a higher epoch belongs to a deleted partition
        self._led[seen.actor, at] = fact.leader_epoch
        self._newest[at] = max(fact.leader_epoch, self._newest.get(at, 0))

    def _known(self, seen: Seen, fact: CoordinatorKnown) -> None:
        if fact.host:
            self._asked[seen.actor] = fact.host

    def _ended(self, seen: Seen, fact: HostStarted | HostDown) -> None:
        for actor in [actor for actor in self._asked if host_of(actor) == fact.host]:
            del self._asked[actor]
        for key in [key for key in self._led if key[0] == fact.host]:
            del self._led[key]
