"""Who may speak for a group, and whom its members ask (a part of the panel).

A broker coordinates a group as long as it leads the group's log. One that does not hear of its successor goes on: where
it is alone in its ISR, and the successor came by an unclean election, it even accepts commits and completes rebalances
with those members that still ask it. Nothing of that is the group's truth any more: it is cut from the broker's log
once that follows the new leader. So from the successor's first moment on the deposed coordinator's facts count for
itself and for its members alone.

Source: Kafka's ``GroupCoordinator`` and ``Partition``: both go by the leader epoch that the broker itself was told.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.emulator.facts import HostDown, HostStarted, Seen
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, TopicPartition, host_of
from kemu.protocol.nodes import PartitionState
from kemu.protocol.notes.groups import CoordinatorKnown
from kemu.protocol.notes.replication import BecameLeader


class Coordinators:
    """``states``: the panel's. Where nobody replicates no broker is ever deposed here."""

    def __init__(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        self._states = states
        self._newest: dict[TopicPartition, int] = {}
        """The highest leader epoch of each groups' log in which somebody took office."""
        self._led: dict[tuple[str, TopicPartition], int] = {}
        """(host, groups' log) -> the last leader epoch in which this life of the broker took office."""
        self._asked: dict[ActorName, ActorName] = {}
        """Member -> the coordinator that it found last."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            BecameLeader: self._leads,
            CoordinatorKnown: self._known,
            HostStarted: self._ended,
            HostDown: self._ended,
        }

    def is_deposed(self, coordinator: ActorName, log: TopicPartition | None) -> bool:
        """Whether another one took office for this log since the coordinator's broker did."""
        if log is None:
            return False
        led = self._led.get((host_of(coordinator), log))
        return led is not None and led < self._newest.get(log, led)

    def asked_by(self, member: ActorName) -> ActorName:
        """The coordinator that a member found last; "" if none yet."""
        return self._asked.get(member, "")

    def deleted(self, at: TopicPartition) -> None:
        """The store has the partition no more: epochs begin anew."""
        self._newest.pop(at, None)
        for key in [key for key in self._led if key[1] == at]:
            del self._led[key]

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        state = self._states.get(at)
        if fact.topic != OFFSETS_TOPIC or state is None or fact.leader_epoch > state.leader_epoch:
            return  # (a higher one is of a partition that was deleted)
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
