"""One leader per leader epoch, one controller per controller epoch.

- two-leaders: a leader epoch has one leader.
- state-written: a controller's write raises the leader epoch by one, unless
  it writes the ISR that the leader requested (KIP-497). The leader is in
  the ISR; the ISR is not empty and within the replicas. The last member
  stays in an ISR without a leader (KAFKA-14424).
- controller-epoch: controller epochs rise.
- deposed-controller-writes: only the newest controller writes.
- isr-not-counted: the leader's high watermark waits for the store's ISR.
- old-epoch-obeyed: a broker obeys no older leader, controller or broker
  epoch than it obeyed before in its life.

Source: Kafka 3.4 ``KafkaController``,
``ReplicaStateMachine.doRemoveReplicasFromIsr``, ``ReplicaManager``.
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

Paths of configs are not listed, because any broker that gets the request writes configs in any controller epoch
(``ZkAdminManager.alterConfigs``, ``KafkaZkClient.setOrCreateEntityConfigs`` 3.4).
"""


class Counted(NamedTuple):
    """The replicas for which a leader waits in its epoch: now, and without an undecided ISR change."""

    epoch: int
    now: tuple[int, ...]
    settled: tuple[int, ...]


class _Part(NamedTuple):
    """A broker's last role in a partition: leader epoch, and life of the broker."""

    epoch: int
    life: int
    left_over: bool = False
    """Whether the topic was deleted and the log was not."""


class LeadershipChecker(Checker):
    """Judges leaders, controllers and writes to the store."""

    name = "leadership"
    kinds = (
        "controller-epoch",
        "deposed-controller-writes",
        "isr-not-counted",
        "old-epoch-obeyed",
        "state-written",
        "two-leaders",
    )

    def __init__(self) -> None:
        super().__init__()
        self._leader_of: dict[tuple[TopicPartition, int], str] = {}
        """(partition, leader epoch) -> broker that acted as leader."""
        self._parts: dict[tuple[str, TopicPartition], _Part] = {}
        """(broker, partition) -> last role of the broker."""
        self._counted: dict[tuple[str, TopicPartition], Counted] = {}
        """(leader, partition) -> replicas for which the high watermark waits."""
        self._obeyed: dict[str, tuple[int, int]] = {}
        """Broker -> (controller epoch, broker epoch) of the last control request that the broker obeyed."""
        self._asked_for: dict[tuple[TopicPartition, int], tuple[int, ...]] = {}
        """(partition, leader epoch) -> ISR that the leader last requested. A deposed leader may also request an ISR.
        """
        self._assigned_by: dict[TopicPartition, ActorName] = {}
        """Partition -> client that wrote the replicas."""
        self._removed: dict[TopicPartition, set[int]] = {}
        """Partition -> replicas that were removed since the beginning of the leader epoch."""
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
            return  # no other broker learns of this epoch
        first = self._leader_of.setdefault((at, fact.leader_epoch), seen.actor)
        if first != seen.actor:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} leads {name} in epoch {fact.leader_epoch}, in which {first} led it"
            self.violation(seen, "two-leaders", (name, seen.actor, first), text)
        self._takes_part(seen, at, fact.leader_epoch)
        self._counts(seen, at, Counted(fact.leader_epoch, fact.isr, fact.isr))

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        at = (fact.topic, fact.partition)
        self._takes_part(seen, at, fact.leader_epoch)
        self._counted.pop((seen.actor, at), None)

    def _takes_part(self, seen: Seen, at: TopicPartition, epoch: int) -> None:
        """Judge the leader epoch of a new role. A left-over log of a deleted topic has no epoch for a later life of the
        broker.
        """
        last = self._parts.get((seen.actor, at))
        if last is not None and epoch < last.epoch and not (last.left_over and seen.life > last.life):
            self._obeys_old(seen, f"joins epoch {epoch} of {at[0]}-{at[1]} after epoch {last.epoch}")
        self._parts[seen.actor, at] = _Part(epoch, seen.life)

    def _obeys_old(self, seen: Seen, what: str) -> None:
        self.violation(seen, "old-epoch-obeyed", (seen.actor,), f"{seen.actor} {what}")

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

    # --- replicas that a leader waits for --------------------------------------------------------------------------

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
            return  # the store has another leader or epoch, of which the broker will learn
        missing = [member for member in state.isr if member not in counted.now]
        if missing:
            name = f"{at[0]}-{at[1]}"
            text = f"{leader} leads {name} and waits for {counted.now}; the store's ISR also has {missing}"
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
            self._removed[changed] = self._removed.get(changed, set()) | dropped
            self._assigned_by[changed] = fact.client
        if at is None and fact.client != self._controller and fact.path.startswith(OF_CONTROLLERS):
            if not is_controller(fact.client):
                return
            text = f"{fact.client} has {fact.what} {fact.path}; {self._controller} is the controller"
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
            text = f"{fact.client} made the controller epoch {epoch} after {self._controller_epoch}"
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
            wrong.append(f"{self._controller} is the controller")
        if altered and self._asked_for.get((at, state.leader_epoch)) != state.isr:
            wrong.append(f"it left the leader epoch at {state.leader_epoch}, and no leader requested {state.isr}")
        elif before is not None and not altered and state.leader_epoch != before.leader_epoch + controls:
            wrong.append(f"the leader epoch went from {before.leader_epoch} to {state.leader_epoch}")
        if before is not None and asked and state.leader != before.leader:
            wrong.append(f"it changed the leader from {before.leader} to {state.leader}")
        if state.leader >= 0 and state.leader not in state.isr:
            wrong.append(f"leader {state.leader} is not in the ISR {state.isr}")
        if not state.isr:
            wrong.append("the ISR is empty")
        assigned = self.panel.assigned.get(at)
        if assigned is not None and not self._may_be_in_sync(at, state, before, assigned.replicas, asked):
            wrong.append(f"the ISR {state.isr} is not within the replicas {assigned.replicas}")
        if not asked:
            self._removed.pop(at, None)
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
        """Whether an ISR is within the replicas, or may still have removed replicas.

        A cancelled or overridden reassignment removes replicas first from the assignment, and afterwards from the ISR,
        one by one (``updateCurrentReassignment``, ``stopRemovedReplicasOfReassignedPartition``). If the controller
        stops in between, the next controller's writes leave these replicas in the ISR. A leader knows only the
        assignment of its epoch, and may request an ISR with removed replicas (``asked``). The last member of an ISR
        stays in the ISR.
        """
        others = set(state.isr) - set(replicas)
        before_outside = set(before.isr) - set(replicas) if before is not None else set()
        if not others or asked:
            return others <= before_outside | self._removed.get(at, set())
        is_last = state.leader < 0 and before is not None and state.isr == before.isr and len(state.isr) == 1
        left_by_another = self._assigned_by.get(at) != self._controller
        return others <= before_outside and (is_last or others < before_outside or left_by_another)
