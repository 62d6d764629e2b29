"""Leaders and controllers: one per epoch, and only from those who may. The order of the store's writes is the truth.

=======  ==========================================================================================================
I1       a leader epoch has one leader; it rises by one with each write of a controller, and stays with an ISR that the
         leader writes, or that the controller writes as the leader asked last (KIP-497)
I2       controller epochs rise; only the newest controller writes what controllers write
I3, I12  the leader is in the ISR, the ISR is not empty, and all of it is assigned; but the last member of an ISR stays
         in it, and nobody leads then (KAFKA-14424; ``ReplicaStateMachine.doRemoveReplicasFromIsr`` 3.4)
I9       whom the leader of the store's epoch counts for its high watermark (its ISR, and those of a change that is
         undecided) includes the ISR of the store
I10      a broker obeys nothing of an older leader, controller or broker epoch than it obeyed before in its life
=======  ==========================================================================================================
"""

from typing import NamedTuple

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, Seen
from kemu.protocol.names import ActorName, TopicPartition, broker_host, is_controller
from kemu.protocol.nodes import (
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    ISR_CHANGES,
    PREFERRED_ELECTION,
    TOPICS,
    PartitionState,
    read_epoch,
)
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    ControlRequestTaken,
    IsrChanged,
    IsrChangeFailed,
    IsrProposed,
    NodeWritten,
    ReplicaStopped,
)

OF_CONTROLLERS = (f"{TOPICS}/", f"{DELETE_TOPICS}/", f"{ISR_CHANGES}/", PREFERRED_ELECTION)
"""Paths that only the newest controller writes, besides leaders and admins.

Configs are none of them: any broker that is asked writes them, whatever the controller epoch
(``ZkAdminManager.alterConfigs``, ``KafkaZkClient.setOrCreateEntityConfigs`` 3.4).
"""


class Counted(NamedTuple):
    """Whom a leader counts in its epoch: now, and once nothing is undecided."""

    epoch: int
    now: tuple[int, ...]
    settled: tuple[int, ...]


class _Part(NamedTuple):
    """When a broker took part in a partition last: in which leader epoch, and in which life of its."""

    epoch: int
    life: int
    left_over: bool = False
    """The topic was deleted, and its log was not."""


class LeadershipChecker(Checker):
    """One leader per epoch, one controller per epoch, from those who may."""

    name = "leadership"

    def __init__(self) -> None:
        super().__init__()
        self._leader_of: dict[tuple[TopicPartition, int], str] = {}
        """(partition, leader epoch) -> who acted as its leader."""
        self._parts: dict[tuple[str, TopicPartition], _Part] = {}
        """(broker, partition) -> when it took part in it last."""
        self._counted: dict[tuple[str, TopicPartition], Counted] = {}
        """(leader, partition) -> whom it counts for its high watermark."""
        self._obeyed: dict[str, tuple[int, int]] = {}
        """Broker -> controller epoch and broker epoch of the last control request it obeyed."""
        self._asked_for: dict[tuple[TopicPartition, int], tuple[int, ...]] = {}
        """(partition, leader epoch) -> the ISR that its leader asked for last; a deposed one may ask, too."""
        self._assigned_by: dict[TopicPartition, ActorName] = {}
        """Who wrote the replicas that a partition has, and ..."""
        self._dropped: dict[TopicPartition, set[int]] = {}
        """... who was taken out of them since the present leader epoch began."""
        self._controller_epoch = 0
        self._controller = ""
        self.on = {
            BecameLeader: self._led,
            BecameFollower: self._followed,
            ReplicaStopped: self._stopped,
            IsrProposed: self._proposed,
            IsrChanged: self._isr_changed,
            IsrChangeFailed: self._isr_change_failed,
            ControlRequestTaken: self._obeys,
            HostDown: self._down,
            NodeWritten: self._written,
        }

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        if self.panel.former.has(seen.actor, at):
            return  # nobody else hears of that epoch any more
        first = self._leader_of.setdefault((at, fact.leader_epoch), seen.actor)
        if first != seen.actor:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} leads {name} in epoch {fact.leader_epoch}, in which {first} led it (I1)"
            self.violation(seen, "two-leaders", (name, seen.actor, first), text)
        self._takes_part(seen, at, fact.leader_epoch)
        self._counts(seen, at, Counted(fact.leader_epoch, fact.isr, fact.isr))

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        at = (fact.topic, fact.partition)
        self._takes_part(seen, at, fact.leader_epoch)
        self._counted.pop((seen.actor, at), None)

    def _takes_part(self, seen: Seen, at: TopicPartition, epoch: int) -> None:
        """I10. A log that was left over of a deleted topic has no epoch for a later life of its broker."""
        last = self._parts.get((seen.actor, at))
        if last is not None and epoch < last.epoch and not (last.left_over and seen.life > last.life):
            self._obeys_old(seen, f"takes part in epoch {epoch} of {at[0]}-{at[1]} after epoch {last.epoch}")
        self._parts[seen.actor, at] = _Part(epoch, seen.life)

    def _obeys_old(self, seen: Seen, what: str) -> None:
        self.violation(seen, "old-epoch-obeyed", (seen.actor,), f"{seen.actor} {what} (I10)")

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        at = (fact.topic, fact.partition)
        last = self._parts.get((seen.actor, at))
        if last is not None and 0 <= fact.leader_epoch < last.epoch:
            what = f"stops its replica of {at[0]}-{at[1]} for epoch {fact.leader_epoch} after epoch {last.epoch}"
            self._obeys_old(seen, what)
        self._counted.pop((seen.actor, at), None)
        if fact.deleted:
            self._parts.pop((seen.actor, at), None)

    def _obeys(self, seen: Seen, fact: ControlRequestTaken) -> None:
        controller, broker = self._obeyed.get(seen.actor, (-1, -1))
        for what, epoch, last in (
            ("controller", fact.controller_epoch, controller),
            ("broker", fact.broker_epoch, broker),
        ):
            if 0 <= epoch < last:
                self._obeys_old(seen, f"obeys a {fact.api} of {what} epoch {epoch} after one of epoch {last}")
        self._obeyed[seen.actor] = (max(controller, fact.controller_epoch), max(broker, fact.broker_epoch))

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._obeyed.pop(fact.host, None)
        for key in [key for key in self._counted if key[0] == fact.host]:
            del self._counted[key]

    # --- whom a leader counts ----------------------------------------------------------------------------------

    def _counts(self, seen: Seen, at: TopicPartition, counted: "Counted") -> None:
        self._counted[seen.actor, at] = counted
        self._check_counted(seen, seen.actor, at)

    def _proposed(self, seen: Seen, fact: IsrProposed) -> None:
        at = (fact.topic, fact.partition)
        if not self.panel.former.has(seen.actor, at):
            self._asked_for[at, fact.leader_epoch] = fact.isr
        if (before := self._counted.get((seen.actor, at))) is not None:
            self._counts(seen, at, before._replace(now=fact.counted))

    def _isr_changed(self, seen: Seen, fact: IsrChanged) -> None:
        if not is_controller(seen.actor):
            at = (fact.topic, fact.partition)
            self._counts(seen, at, Counted(fact.leader_epoch, fact.isr, fact.isr))

    def _isr_change_failed(self, seen: Seen, fact: IsrChangeFailed) -> None:
        at = (fact.topic, fact.partition)
        if (before := self._counted.get((seen.actor, at))) is not None:
            self._counts(seen, at, before._replace(now=before.settled))

    def _check_counted(self, seen: Seen, leader: str, at: TopicPartition) -> None:
        counted, state = self._counted.get((leader, at)), self.panel.states.get(at)
        if counted is None or state is None:
            return
        if counted.epoch != state.leader_epoch or leader != broker_host(state.leader):
            return  # stale: the store has another leader or epoch, and it will be told
        missing = [member for member in state.isr if member not in counted.now]
        if missing:
            name = f"{at[0]}-{at[1]}"
            text = f"{leader} leads {name} and counts {counted.now}; in the store's ISR is {missing}, too (I9)"
            self.violation(seen, "isr-not-counted", (name, leader), text)

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = self.panel.written
        if at is not None:
            self._state_written(seen, fact, at)
        elif fact.path == CONTROLLER_EPOCH and fact.what != "deleted":
            self._epoch_written(seen, fact)
        elif self.panel.written_topic and fact.what == "deleted":
            self._topic_deleted(self.panel.written_topic)
        for changed, before in self.panel.replicas_changed.items():
            dropped = set(before) - set(self.panel.assigned[changed].replicas)
            self._dropped[changed] = self._dropped.get(changed, set()) | dropped
            self._assigned_by[changed] = fact.client
        if at is None and fact.client != self._controller and fact.path.startswith(OF_CONTROLLERS):
            if not is_controller(fact.client):
                return
            text = f"{fact.client} has {fact.what} {fact.path}; {self._controller} is the controller (I2)"
            self.violation(seen, "deposed-controller-writes", (fact.client, fact.path), text)

    def _topic_deleted(self, topic: str) -> None:
        for key in [key for key in self._parts if key[1][0] == topic]:
            self._parts[key] = self._parts[key]._replace(left_over=True)
        self._leader_of = {key: leader for key, leader in self._leader_of.items() if key[0][0] != topic}
        self._asked_for = {key: isr for key, isr in self._asked_for.items() if key[0][0] != topic}
        self._counted = {key: counted for key, counted in self._counted.items() if key[1][0] != topic}

    def _epoch_written(self, seen: Seen, fact: NodeWritten) -> None:
        epoch = read_epoch(fact.data)
        if epoch <= self._controller_epoch and fact.what == "set":
            text = f"{fact.client} made the controller epoch {epoch} after {self._controller_epoch} (I2)"
            self.violation(seen, "controller-epoch", (fact.client,), text)
        self._controller_epoch = epoch
        if fact.client:
            self._controller = fact.client

    def _state_written(self, seen: Seen, fact: NodeWritten, at: TopicPartition) -> None:
        name = f"{at[0]}-{at[1]}"
        if fact.what == "deleted":
            return
        state, before = self.panel.states[at], self.panel.state_before
        controls = is_controller(fact.client)
        altered = controls and before is not None and before.leader_epoch == state.leader_epoch
        asked = altered or not controls
        wrong = []
        if controls and fact.client != self._controller:
            wrong.append(f"{self._controller} is the controller (I2)")
        if altered and self._asked_for.get((at, state.leader_epoch)) != state.isr:
            wrong.append(f"it left the leader epoch at {state.leader_epoch}, and no leader asked for {state.isr} (I1)")
        elif before is not None and not altered and state.leader_epoch != before.leader_epoch + controls:
            wrong.append(f"the leader epoch went from {before.leader_epoch} to {state.leader_epoch} (I1)")
        if before is not None and asked and state.leader != before.leader:
            wrong.append(f"it changed the leader from {before.leader} to {state.leader} (I3)")
        if state.leader >= 0 and state.leader not in state.isr:
            wrong.append(f"leader {state.leader} is not in the ISR {state.isr} (I3)")
        if not state.isr:
            wrong.append("the ISR is empty (I3)")
        assigned = self.panel.assigned.get(at)
        if assigned is not None and not self._may_be_in_sync(at, state, before, assigned.replicas, asked):
            wrong.append(f"the ISR {state.isr} is not within the replicas {assigned.replicas} (I3)")
        if not asked:
            self._dropped.pop(at, None)
        for each in wrong:
            text = f"{fact.client} wrote the state of {name}: {each}"
            self.violation(seen, "state-written", (name, fact.client), text)
        self._check_counted(seen, broker_host(state.leader), at)

    def _may_be_in_sync(
        self,
        at: TopicPartition,
        state: PartitionState,
        before: PartitionState | None,
        replicas: tuple[int, ...],
        asked: bool,
    ) -> bool:
        """Whether an ISR is within the replicas, or Kafka has nobody yet who would take out what is not.

        Who is called back or overridden is taken out of the list first, then out of the ISR, one after the other
        (``updateCurrentReassignment``, ``stopRemovedReplicasOfReassignedPartition``). If its controller dies between
        both, the next one's writes leave them there, and a leader, which knows the list of its epoch, may ask for them
        (``asked``). The last of an ISR stays in it.
        """
        others = set(state.isr) - set(replicas)
        there = set(before.isr) - set(replicas) if before is not None else set()
        if not others or asked:
            return others <= there | self._dropped.get(at, set())
        is_last = state.leader < 0 and before is not None and state.isr == before.isr and len(state.isr) == 1
        left_by_another = self._assigned_by.get(at) != self._controller
        return others <= there and (is_last or others < there or left_by_another)
