"""Figures of controllers, leaders and ISRs: terms, elections, and time without a leader or with too few replicas in
sync.

A part of ``emulator.metrics.metrics``. The metadata store decides: a leader or an ISR changes with the ``NodeWritten``
of the partition's state, even if the writer crashes before the answer arrives.

* A partition is *led* from ``BecameLeader`` of the broker that the store names. The leadership ends when the store
  names another broker, or when the broker becomes follower, stops the replica, goes down or pauses.
* A partition is *leaderless* at all other times, from its first leader until its deletion.
* A partition is *under-replicated* while its ISR is smaller than its replica set, and *under min ISR* while its ISR is
  smaller than ``min.insync.replicas``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, Seen, TopicReplicated
from kemu.emulator.metrics.figures import ControllerTerm, PartitionSpan, ReplicationFigures
from kemu.emulator.watching.panel import Panel
from kemu.protocol.dynamic_configs import MIN_INSYNC_REPLICAS
from kemu.protocol.names import TopicPartition, host_of
from kemu.protocol.nodes import BROKER_DEFAULTS, TOPIC_CONFIGS, read_config
from kemu.protocol.notes.replication import (
    BecameController,
    BecameFollower,
    BecameLeader,
    ControllerReady,
    LeaderElectedForPartition,
    NodeWritten,
    ReplicaStopped,
)


class _Spans:
    """Intervals of a condition, by partition."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, int] = {}
        self.all: list[PartitionSpan] = []

    def put(self, at: TopicPartition, is_so: bool, now_us: int) -> None:
        """Set the condition from now on."""
        if is_so:
            self._since.setdefault(at, now_us)
        elif at in self._since:
            since_us = self._since.pop(at)
            if now_us > since_us:
                self.all.append(PartitionSpan(topic=at[0], partition=at[1], from_us=since_us, until_us=now_us))

    def finish(self, now_us: int) -> None:
        """End the run; intervals that have not ended count until now."""
        for at in list(self._since):
            self.put(at, False, now_us)

    def by_name(self) -> dict[str, int]:
        """Microseconds by "topic-partition", for each partition for which the condition ever held."""
        spent: dict[str, int] = {}
        for span in sorted(self.all, key=lambda span: (span.topic, span.partition)):
            name = f"{span.topic}-{span.partition}"
            spent[name] = spent.get(name, 0) + span.until_us - span.from_us
        return spent


class Leaders:
    """Counts the figures of controllers, leaders and ISRs."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.controllers: list[ControllerTerm] = []
        self.elections: dict[str, int] = {}
        self.leader_changes = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self._leaderless, self._under_min_isr, self._under_replicated = _Spans(), _Spans(), _Spans()
        self._min_isr: dict[str, int] = {}
        """Topic -> min.insync.replicas at the start of the run."""
        self._own_min_isr: dict[str, int] = {}
        self._default_min_isr: int | None = None
        """The brokers' changed default of min.insync.replicas; None without a change. ``_own_min_isr``: the topics' own
        values."""
        self._was_led: dict[TopicPartition, None] = {}
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            TopicReplicated: self._topic,
            NodeWritten: self._written,
            BecameLeader: self._leads,
            BecameFollower: self._look,
            ReplicaStopped: self._look,
            HostDown: self._look,
            HostPaused: self._look,
            HostResumed: self._look,
            BecameController: self._controls,
            ControllerReady: self._is_ready,
            LeaderElectedForPartition: self._elected,
        }

    def finish(self, at_us: int) -> None:
        """Count unfinished intervals until the end of the run."""
        for spans in (self._leaderless, self._under_min_isr, self._under_replicated):
            spans.finish(at_us)

    def figures(self) -> ReplicationFigures | None:
        """The figures; None where no broker replicates."""
        if not self._min_isr:
            return None
        return ReplicationFigures(
            controllers=tuple(self.controllers),
            elections=dict(sorted(self.elections.items())),
            leader_changes=self.leader_changes,
            isr_shrinks=self.isr_shrinks,
            isr_expands=self.isr_expands,
            leaderless_us=self._leaderless.by_name(),
            under_min_isr_us=self._under_min_isr.by_name(),
            under_replicated_us=self._under_replicated.by_name(),
            leaderless=tuple(self._leaderless.all),
            under_min_isr=tuple(self._under_min_isr.all),
            under_replicated=tuple(self._under_replicated.all),
        )

    # --- what the store says -----------------------------------------------------------------------------------

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        self._min_isr[fact.topic] = fact.min_isr

    def _min_isr_of(self, topic: str) -> int:
        default = self._min_isr[topic] if self._default_min_isr is None else self._default_min_isr
        return self._own_min_isr.get(topic, default)

    def _configured(self, fact: NodeWritten) -> None:
        """Note a changed min.insync.replicas. The new value applies to a partition from its next written state on."""
        is_topic_s = fact.path.startswith(f"{TOPIC_CONFIGS}/")
        if fact.what == "deleted" or not (is_topic_s or fact.path == BROKER_DEFAULTS):
            return
        told = read_config(fact.data).get(MIN_INSYNC_REPLICAS)
        topic = fact.path.rpartition("/")[2]
        if not is_topic_s:
            self._default_min_isr = int(told) if told is not None else None
        elif told is not None:
            self._own_min_isr[topic] = int(told)
        else:
            self._own_min_isr.pop(topic, None)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = self._panel.written
        if at is None:
            self._configured(fact)
            return
        if fact.what == "deleted":
            self._was_led.pop(at, None)
            for spans in (self._leaderless, self._under_min_isr, self._under_replicated):
                spans.put(at, False, seen.at_us)
            return
        state, before = self._panel.states[at], self._panel.state_before
        in_sync = len(state.isr)
        # The replica set excludes adding replicas (KIP-455).
        self._under_replicated.put(at, in_sync < len(self._panel.assigned[at].origin), seen.at_us)
        self._under_min_isr.put(at, in_sync < self._min_isr_of(at[0]), seen.at_us)
        if before is not None:
            self.isr_shrinks += in_sync < len(before.isr)
            self.isr_expands += in_sync > len(before.isr)
            self.leader_changes += before.leader != state.leader
        self._look(seen, fact)

    # --- who leads ---------------------------------------------------------------------------------------------

    def _look(self, seen: Seen, fact: object) -> None:
        panel = self._panel
        for at in panel.led:
            if at in self._was_led:
                actor = panel.leaders.get(at)
                self._leaderless.put(at, actor is None or panel.is_paused(host_of(actor)), seen.at_us)

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        self._was_led.update(dict.fromkeys(self._panel.led))
        self._look(seen, fact)

    # --- who controls ------------------------------------------------------------------------------------------

    def _controls(self, seen: Seen, fact: BecameController) -> None:
        self.controllers.append(ControllerTerm(fact.broker_id, fact.controller_epoch, seen.at_us, None))

    def _is_ready(self, seen: Seen, fact: ControllerReady) -> None:
        self.controllers = [
            attrs.evolve(term, ready_us=seen.at_us) if term.controller_epoch == fact.controller_epoch else term
            for term in self.controllers
        ]

    def _elected(self, seen: Seen, fact: LeaderElectedForPartition) -> None:
        strategy = f"{fact.strategy}, unclean" if fact.unclean else fact.strategy
        self.elections[strategy] = self.elections.get(strategy, 0) + 1
