"""Leaders and controllers: one per epoch, and only from those who may.

Theory. Everything that moves a leader goes through the metadata store, whose order of writes is the truth (numbers of
spec/controller.md 2.8):

* I1: a leader epoch has one leader; in the store it rises by one with each write of a controller and stays with each
  write of a leader.
* I2: controller epochs rise; only the newest controller writes partition states.
* I3, I12: the leader (if there is one) is in the ISR, the ISR is not empty, and all of it is assigned.
* I10: a broker never takes part in an older leader epoch than it did before.
"""

from emulator.checkers.base import Checker
from emulator.facts import Seen
from protocol.names import TopicPartition
from protocol.nodes import (
    CONTROLLER_EPOCH,
    TOPICS,
    PartitionState,
    partition_of_state,
    read_epoch,
    read_state,
    read_topic,
)
from protocol.notes import BecameFollower, BecameLeader, NodeWritten, ReplicaStopped


class Leadership(Checker):
    """One leader per epoch, one controller per epoch, from those who may."""

    name = "leadership"

    def __init__(self) -> None:
        super().__init__()
        self._leader_of: dict[tuple[str, int, int], str] = {}
        """(topic, partition, leader epoch) -> who acted as its leader."""
        self._epochs: dict[tuple[str, str, int], int] = {}
        """(broker, topic, partition) -> the last leader epoch it took part in."""
        self._states: dict[TopicPartition, PartitionState] = {}
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        self._controller_epoch = 0
        self._controller = ""
        self.on = {
            BecameLeader: self._led,
            BecameFollower: self._took_part,
            ReplicaStopped: self._stopped,
            NodeWritten: self._written,
        }

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        key = (fact.topic, fact.partition, fact.leader_epoch)
        first = self._leader_of.setdefault(key, seen.actor)
        if first != seen.actor:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} leads {name} in epoch {fact.leader_epoch}, in which {first} led it (I1)"
            self.violation(seen, (name, seen.actor, first), text)
        self._took_part(seen, fact)

    def _took_part(self, seen: Seen, fact: BecameLeader | BecameFollower) -> None:
        key = (seen.actor, fact.topic, fact.partition)
        last = self._epochs.get(key, -1)
        if fact.leader_epoch < last:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} takes part in epoch {fact.leader_epoch} of {name} after epoch {last} (I10)"
            self.violation(seen, (name, seen.actor), text)
        self._epochs[key] = fact.leader_epoch

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        if fact.deleted:
            self._epochs.pop((seen.actor, fact.topic, fact.partition), None)

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = partition_of_state(fact.path)
        if at is not None:
            self._state_written(seen, fact, at)
        elif fact.path == CONTROLLER_EPOCH and fact.what != "deleted":
            self._epoch_written(seen, fact)
        elif fact.path.startswith(TOPICS + "/") and fact.path.count("/") == 3:
            self._topic_written(fact)

    def _topic_written(self, fact: NodeWritten) -> None:
        topic = fact.path.rpartition("/")[2]
        if fact.what == "deleted":
            for at in [at for at in self._assigned if at[0] == topic]:
                del self._assigned[at]
            for key in [key for key in self._leader_of if key[0] == topic]:
                del self._leader_of[key]
        else:
            for number, assignment in read_topic(fact.data).items():
                self._assigned[topic, number] = assignment.replicas

    def _epoch_written(self, seen: Seen, fact: NodeWritten) -> None:
        epoch = read_epoch(fact.data)
        if epoch <= self._controller_epoch and fact.what == "set":
            text = f"{fact.client} made the controller epoch {epoch} after {self._controller_epoch} (I2)"
            self.violation(seen, (fact.client,), text)
        self._controller_epoch = epoch
        if fact.client:
            self._controller = fact.client

    def _state_written(self, seen: Seen, fact: NodeWritten, at: TopicPartition) -> None:
        name = f"{at[0]}-{at[1]}"
        if fact.what == "deleted":
            self._states.pop(at, None)
            return
        state, before = read_state(fact.data), self._states.get(at)
        self._states[at] = state
        controls = fact.client.endswith("/controller")
        wrong = []
        if controls and fact.client != self._controller:
            wrong.append(f"{self._controller} is the controller (I2)")
        if before is not None and state.leader_epoch != before.leader_epoch + controls:
            wrong.append(f"the leader epoch went from {before.leader_epoch} to {state.leader_epoch} (I1)")
        if before is not None and not controls and state.leader != before.leader:
            wrong.append(f"it changed the leader from {before.leader} to {state.leader} (I3)")
        if state.leader >= 0 and state.leader not in state.isr:
            wrong.append(f"leader {state.leader} is not in the ISR {state.isr} (I3)")
        if not state.isr:
            wrong.append("the ISR is empty (I3)")
        assigned = self._assigned.get(at)
        if assigned is not None and not set(state.isr) <= set(assigned):
            wrong.append(f"the ISR {state.isr} is not within the replicas {assigned} (I3)")
        for text in wrong:
            self.violation(seen, (name, fact.client), f"{fact.client} wrote the state of {name}: {text}")
