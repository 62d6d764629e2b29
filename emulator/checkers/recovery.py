"""Replication gets well: when the faults are over, everything is led and everybody is in sync again.

Theory. Some time after all brokers run and hear each other (numbers of spec/controller.md 2.8): every partition has a
leader that acts in the epoch the store has (Q1), every assigned replica is in the ISR (Q4), every broker that is
assigned a partition takes part in its newest epoch (Q3), no broker keeps a log of a partition it is not assigned (Q3).
What the last ISR member took with it when it lost its disk, or never came back with, is not waited for here: after the
plan every broker runs.
"""

from emulator.checkers.base import Checker
from emulator.facts import Healed, HostDown, HostStarted, Seen
from protocol.names import TopicPartition
from protocol.nodes import TOPICS, PartitionState, partition_of_state, read_state, read_topic
from protocol.notes import BecameFollower, BecameLeader, NodeWritten, ReplicaRestored, ReplicaStopped


class Recovery(Checker):
    """After the faults every partition is led, and all its replicas are in sync."""

    name = "recovery"

    def __init__(self) -> None:
        super().__init__()
        self._states: dict[TopicPartition, PartitionState] = {}
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        self._part: dict[tuple[str, TopicPartition], tuple[int, bool]] = {}
        """(broker, partition) -> (leader epoch it takes part in, whether it leads)."""
        self._logs: dict[tuple[str, TopicPartition], None] = {}
        """Who has a log of what."""
        self._downs: dict[str, None] = {}
        """Brokers that do not run: an operator closed them, and they were slow to go."""
        self._healed: Seen | None = None
        self._last: Seen | None = None
        self.on = {
            NodeWritten: self._written,
            BecameLeader: self._led,
            BecameFollower: self._followed,
            ReplicaStopped: self._stopped,
            ReplicaRestored: self._restored,
            HostDown: self._down,
            HostStarted: self._up,
            Healed: self._heal,
        }

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = partition_of_state(fact.path)
        if at is not None:
            if fact.what == "deleted":
                self._states.pop(at, None)
            else:
                self._states[at] = read_state(fact.data)
        elif fact.path.startswith(TOPICS + "/") and fact.path.count("/") == 3:
            topic = fact.path.rpartition("/")[2]
            if fact.what == "deleted":
                self._assigned = {at: replicas for at, replicas in self._assigned.items() if at[0] != topic}
            else:
                for number, assignment in read_topic(fact.data).items():
                    self._assigned[topic, number] = assignment.replicas

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        self._takes(seen, fact.topic, fact.partition, fact.leader_epoch, True)

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        self._takes(seen, fact.topic, fact.partition, fact.leader_epoch, False)

    def _takes(self, seen: Seen, topic: str, partition: int, epoch: int, leads: bool) -> None:
        key = (seen.actor, (topic, partition))
        self._part[key] = (epoch, leads)
        self._logs[key] = None
        self._last = seen

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        key = (seen.actor, (fact.topic, fact.partition))
        self._part.pop(key, None)
        if fact.deleted:
            self._logs.pop(key, None)

    def _restored(self, seen: Seen, fact: ReplicaRestored) -> None:
        self._logs[seen.actor, (fact.topic, fact.partition)] = None

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._downs[fact.host] = None
        for key in [key for key in self._part if key[0] == fact.host]:
            del self._part[key]

    def _up(self, seen: Seen, fact: HostStarted) -> None:
        self._downs.pop(fact.host, None)
        if not fact.kept_disk:
            for key in [key for key in self._logs if key[0] == fact.host]:
                del self._logs[key]

    def _heal(self, seen: Seen, fact: Healed) -> None:
        self._healed = seen

    # --- well again --------------------------------------------------------------------------------------------

    @property
    def satisfied(self) -> bool:
        """Whether everything is led and in sync now."""
        return not any(True for _ in self._missing())

    def _missing(self) -> "list[tuple[str, str]]":
        """(partition, what is wrong with it)."""
        found = []
        for at, assigned in self._assigned.items():
            name = f"{at[0]}-{at[1]}"
            state = self._states.get(at)
            replicas = [replica for replica in assigned if f"b{replica}" not in self._downs]
            if state is not None and not any(replica in state.isr for replica in replicas):
                continue  # its last in-sync replica does not run
            if state is None:
                found.append((name, "has no state in the store (Q1)"))
                continue
            if self._part.get((f"b{state.leader}", at)) != (state.leader_epoch, True):
                found.append(
                    (name, f"is led by b{state.leader} in epoch {state.leader_epoch}, which does not act so (Q1)")
                )
            out = [replica for replica in replicas if replica not in state.isr]
            if out:
                found.append((name, f"has replicas {out} out of its ISR {state.isr} (Q4)"))
            for replica in replicas:
                epoch, _ = self._part.get((f"b{replica}", at), (-1, False))
                if epoch != state.leader_epoch:
                    found.append((name, f"is in epoch {state.leader_epoch}, b{replica} takes part in {epoch} (Q3)"))
        for host, at in self._logs:
            if int(host[1:]) not in self._assigned.get(at, ()):
                found.append((f"{at[0]}-{at[1]}", f"has a log on {host}, which is no replica of it (Q3)"))
        return found

    def finish(self, at_us: int) -> None:
        """What is still missing at the end of a run that was given its time to get well."""
        if self._healed is None or at_us <= self._healed.at_us:
            return
        for name, text in self._missing():
            seen = Seen(self._healed.seq, at_us, "", 0, self._healed.fact)
            self.violation(
                seen,
                (name,),
                f"{name} {text}, {(at_us - self._healed.at_us) // 1_000_000} s after the faults ended",
                liveness=True,
            )
