"""The figures of replicas once more, one fact after the other in Python: what Spark's tables are held against."""

from collections.abc import Iterable
from typing import Any

from emulator.facts import HostDown, HostPaused, HostResumed, Seen, TopicReplicated
from protocol.names import TopicPartition, host_of
from protocol.nodes import PartitionState, partition_of_state, read_state
from protocol.notes import BecameFollower, BecameLeader, NodeWritten, ReplicaStopped


class ReplicaFigures:
    """By partition: microseconds under-replicated, under the promised ISR and without a leader; changes of leaders."""

    def __init__(self) -> None:
        self.under_replicated_us: dict[TopicPartition, int] = {}
        self.under_min_isr_us: dict[TopicPartition, int] = {}
        self.leaderless_us: dict[TopicPartition, int] = {}
        self.changes: dict[TopicPartition, int] = {}
        self._replicas: dict[TopicPartition, int] = {}
        self._min_isr: dict[str, int] = {}
        self._states: dict[TopicPartition, PartitionState] = {}
        self._acting: dict[TopicPartition, str] = {}
        """Who leads: the actor that last said so and was neither deposed nor down since."""
        self._was_led: set[TopicPartition] = set()
        self._paused: set[str] = set()
        self._now_us = 0

    def of(self, facts: Iterable[Seen]) -> "ReplicaFigures":
        """All of a run."""
        for seen in facts:
            self._pass(seen.at_us)
            self._take(seen, seen.fact)
        return self

    def _pass(self, at_us: int) -> None:
        spent_us, self._now_us = at_us - self._now_us, at_us
        if not spent_us:
            return
        for at, state in self._states.items():
            if len(state.isr) < self._replicas[at]:
                self.under_replicated_us[at] = self.under_replicated_us.get(at, 0) + spent_us
            if len(state.isr) < self._min_isr[at[0]]:
                self.under_min_isr_us[at] = self.under_min_isr_us.get(at, 0) + spent_us
        for at in self._was_led:
            actor = self._acting.get(at)
            if actor is None or host_of(actor) in self._paused:
                self.leaderless_us[at] = self.leaderless_us.get(at, 0) + spent_us

    def _take(self, seen: Seen, fact: Any) -> None:
        match fact:
            case TopicReplicated():
                self._min_isr[fact.topic] = fact.min_isr
                self._replicas |= {(fact.topic, number): len(each) for number, each in enumerate(fact.replicas)}
            case NodeWritten():
                at = partition_of_state(fact.path)
                if at is not None and fact.what == "deleted":
                    del self._states[at]
                    self._acting.pop(at, None)
                    self._was_led.discard(at)
                elif at is not None:
                    self._written(at, read_state(fact.data))
            case BecameLeader():
                at = (fact.topic, fact.partition)
                state = self._states[at]
                if f"b{state.leader}" == seen.actor and fact.leader_epoch <= state.leader_epoch:
                    self._acting[at] = seen.actor
                    self._was_led.add(at)
            case BecameFollower() | ReplicaStopped():
                at = (fact.topic, fact.partition)
                if self._acting.get(at) == seen.actor:
                    del self._acting[at]
            case HostDown():
                self._paused.discard(fact.host)
                self._acting = {at: who for at, who in self._acting.items() if host_of(who) != fact.host}
            case HostPaused():
                self._paused.add(fact.host)
            case HostResumed():
                self._paused.discard(fact.host)

    def _written(self, at: TopicPartition, state: PartitionState) -> None:
        before = self._states.get(at)
        self._states[at] = state
        if before is not None and before.leader != state.leader:
            self.changes[at] = self.changes.get(at, 0) + 1
            self._acting.pop(at, None)
