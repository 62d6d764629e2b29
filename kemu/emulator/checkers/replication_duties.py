"""Brokers and controllers do their duties in time, even during faults.

A duty is a condition that its parties must end within a bound. The duty's clock runs while all parties run, no fault
hits the parties or their links, and the condition does not change.

- ``controller_duties``: session-kept, session-cut, not-registered,
  no-controller, no-leader, former-leader, dead-in-isr, order-not-obeyed,
  stale-metadata, moved-early, not-balanced, step-kept, left-over.
- ``replica_duties``: fetch-stalled, out-of-isr, never-shrunk,
  watermark-waits, unanswered.
- ``kept_logs``: replica-kept.

A run may end early when no duty is open. At the end of the run, the checker reports conditions that Kafka itself never
ends. log-of-another-topic, epoch-of-another-topic and unheard-state leave a partition without a leader
(``findings.STAYS_BLOCKED``). Other conditions only reduce redundancy (``findings.STAYS_DEGRADED``).

Source: Kafka 3.4 ``KafkaController``, ``ReplicaManager``, ``Partition``.
"""

from collections.abc import Iterator
from typing import Any, Self

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.controller_duties import ControllerDuties
from kemu.emulator.checkers.duty import Duty
from kemu.emulator.checkers.kept_logs import KeptLogs
from kemu.emulator.checkers.replica_duties import ReplicaDuties
from kemu.emulator.facts import Handler, Healed, Seen, is_of_the_wire
from kemu.emulator.findings import (
    EPOCH_OF_ANOTHER_TOPIC,
    LEFT_OVER_LOG,
    LOG_OF_ANOTHER_TOPIC,
    UNHEARD_ISR,
    UNHEARD_STATE,
)
from kemu.emulator.watching.control_plane import ControlPlane
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.settings import Settings
from kemu.protocol.config import ControllerConfig, ReplicaConfig
from kemu.protocol.names import TopicPartition, broker_host
from kemu.protocol.nodes import PartitionState
from kemu.protocol.notes.groups import (
    CommitAnswered,
    GroupRequestAnswered,
    GroupRequestRead,
    OffsetCommitted,
    Processed,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.replication import HighWatermarkAdvanced, RecordsReplicated

LOOK_US = 1_000_000
"""Interval between looks, in us."""
SOON_US = 2_000_000
"""Longest time for records that are in flight at the end of a run, in us."""
UNDER_WAY = ("fetch-stalled", "unanswered", "watermark-waits")
"""Conditions that may begin and end with each record."""
LATER = ("never-shrunk", "not-balanced", "step-kept")
"""Conditions that do not prolong a run."""
OF_RECORDS = frozenset(
    (
        *(RecordsAppended, RecordsReplicated, HighWatermarkAdvanced, RecordsAcknowledged, Processed),
        *(OffsetCommitted, CommitAnswered, GroupRequestRead, GroupRequestAnswered),
    )
)
"""Types of the most frequent facts, which change no duty of controllers."""
_NEVER_US = 1 << 62


class ReplicationDuties(Checker):
    """Judges the duties of brokers and controllers.

    Args:
        controllers: settings of the controllers.
        replicas: settings of the brokers.
        bandwidth: bytes per second of the slowest broker; 0 for no limit.
        request_us: ``request.timeout.ms`` of the producers.
    """

    name = "duties"
    kinds = (
        "dead-in-isr",
        "epoch-of-another-topic",
        "fetch-stalled",
        "former-leader",
        "left-over",
        "log-of-another-topic",
        "moved-early",
        "never-shrunk",
        "no-controller",
        "no-leader",
        "not-balanced",
        "not-registered",
        "order-not-obeyed",
        "out-of-isr",
        "replica-kept",
        "session-cut",
        "session-kept",
        "stale-metadata",
        "step-kept",
        "unanswered",
        "unheard-state",
        "watermark-waits",
    )

    def __init__(
        self,
        controllers: ControllerConfig | None = None,
        replicas: ReplicaConfig | None = None,
        bandwidth: int = 0,
        request_us: int = 30_000_000,
    ) -> None:
        super().__init__()
        config = replicas or ReplicaConfig()
        self._plane = ControlPlane()
        self._of_controllers = ControllerDuties(
            self._plane, controllers or ControllerConfig(), config.emulated_log_create_us
        )
        self._of_replicas = ReplicaDuties(self._plane, config, bandwidth, request_us)
        self._kept_logs = KeptLogs(self._plane, config.emulated_log_create_us)
        self._parts = (self._of_controllers, self._of_replicas, self._kept_logs)
        self._owed_to_controllers: tuple[Duty, ...] | None = None
        """The open duties of ``_of_controllers`` and ``_kept_logs``, until a fact may change them."""
        self._unmet: dict[tuple[str, tuple[str, ...]], tuple[object, int]] = {}
        """(kind, entities) -> (condition, start of the condition in us)."""
        self._healed_us = _NEVER_US
        self.looks_us = 0
        self.on = {Healed: self._heal}
        for part in (*reversed(self._parts), self._plane):
            self.shown_to(part.on)

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        scenario = settings.scenario
        made = cls(
            settings.controller,
            settings.replicas,
            min(map(scenario.brokers.bandwidth_of, scenario.broker_names())),
            settings.producer.request_timeout_ms * 1_000,
        )
        return made if settings.replicated else made.at_rest()

    def takers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of this type. Most types of facts may change the duties."""
        takers = super().takers_of(kind)
        changes = self.on and kind not in OF_RECORDS and not is_of_the_wire(kind)
        return (*takers, self._may_change_duties) if changes else takers

    def _may_change_duties(self, seen: Seen, fact: Any) -> None:
        self._owed_to_controllers = None

    def attach(self, panel: Panel) -> None:
        """Set the panel for this checker and all its parts."""
        super().attach(panel)
        for part in self._parts:
            part.panel, part.violation = panel, self.violation

    def _heal(self, seen: Seen, fact: Healed) -> None:
        self._healed_us = seen.at_us

    # --- clocks ------------------------------------------------------------------------------------------------

    def look(self, seen: Seen) -> None:
        """Judge the open duties once a second."""
        self.looks_us = seen.at_us + LOOK_US
        if self.panel.registered:
            self._look(seen)

    def _owed(self) -> Iterator[Duty]:
        if self._owed_to_controllers is None:
            self._owed_to_controllers = (*self._of_controllers.owed(), *self._kept_logs.owed())
        yield from self._owed_to_controllers
        yield from self._of_replicas.owed()

    def _look(self, seen: Seen) -> None:
        """Judge conditions that lasted longer than their bound."""
        before, self._unmet = self._unmet, {}
        for duty in self._owed():
            key = (duty.kind, duty.about)
            state, since_us = before.get(key, (None, seen.at_us))
            if state != duty.state:
                since_us = seen.at_us
            able_us = self.panel.disturbances.undisturbed_since_us(duty.parties)
            if able_us is not None:
                for_us = seen.at_us - max(since_us, able_us, duty.not_before_us)
                if for_us > duty.bound_us:
                    self.violation(seen, *key, f"{duty.text}, for {for_us // 1_000_000} s", liveness=True)
                    since_us = _NEVER_US
            self._unmet[key] = (duty.state, since_us)

    @property
    def satisfied(self) -> bool:
        """Whether all partitions have leaders and in-sync replicas, and all orders and answers arrived."""
        if self.panel.states and not self._plane.controller:
            return False
        now_us = self.looks_us - LOOK_US
        if any(kind in UNDER_WAY and abs(now_us - us) >= SOON_US for (kind, _), (_, us) in self._unmet.items()):
            return False
        if any(duty.kind not in (*UNDER_WAY, *LATER) for duty in self._owed()):
            return False
        return all(why for at, state in self.panel.states.items() for _, why in self._out_of_isr(at, state))

    # --- conditions that Kafka never ends --------------------------------------------------------------------------

    def finish(self, at_us: int) -> None:
        """Judge for the last time, and report the conditions that Kafka never ends."""
        if self.panel.now is None or not self.on or not self.panel.registered:
            return
        seen = self.panel.now._replace(at_us=at_us)
        self._look(seen)
        if at_us <= self._healed_us:
            return
        for at, state in self.panel.states.items():
            self._name_lasting(seen, at, state)
        for host, at in self._kept_logs.left_over():
            name = f"{at[0]}-{at[1]}"
            self.stays_degraded(at_us, name, LEFT_OVER_LOG, f"{name} has a log on {host}, which is no replica of it")

    def _name_lasting(self, seen: Seen, at: TopicPartition, state: PartitionState) -> None:
        name, leader = f"{at[0]}-{at[1]}", broker_host(state.leader)
        if self.panel.unknown_states.has(at):
            text = (
                f"the store names {leader} as leader of {name}; {self._plane.controller}, the controller, does not know"
            )
            self.violation(seen, UNHEARD_STATE, (name,), text, liveness=True)
            return
        why = self._of_another_topic(leader, at, state)
        if why and self.panel.roles.get((leader, at)) != (state.leader_epoch, True):
            text = f"the store names {leader} as leader of {name} in epoch {state.leader_epoch}; it does not lead"
            self.violation(seen, why, (name,), text, liveness=True)
        out: dict[str, list[int]] = {}
        for broker, reason in self._out_of_isr(at, state):
            out.setdefault(reason, []).append(broker)
        for reason, brokers in out.items():
            if reason:
                text = f"{name} has replicas {brokers} outside its ISR {state.isr}"
                self.stays_degraded(seen.at_us, name, reason, text)
        unknown = self.panel.unknown_isrs.of(at)
        end, watermark = self._of_replicas.end_and_watermark(leader, at)
        if unknown is not None and unknown.leader_waits and watermark < end:
            text = f"{name} has records to {end - 1}, above its high watermark {watermark}"
            self.stays_degraded(seen.at_us, name, UNHEARD_ISR, text)

    def _out_of_isr(self, at: TopicPartition, state: PartitionState) -> Iterator[tuple[int, str]]:
        """Yield running replicas outside the ISR, and a leader that stays faulty, each with Kafka's reason or ""."""
        panel = self.panel
        if panel.unknown_states.has(at):
            return
        assignment = panel.assigned.get(at)
        replicas = (
            [broker for broker in assignment.replicas if not panel.is_out(broker_host(broker))] if assignment else []
        )
        if not any(broker in state.isr for broker in replicas):
            return  # the last in-sync replica does not run
        if broker_host(state.leader) in panel.away:
            yield state.leader, ""
        unknown = panel.unknown_isrs.of(at)
        waits = UNHEARD_ISR if unknown is not None and unknown.leader_waits else ""
        unled = self._of_another_topic(broker_host(state.leader), at, state)
        for broker in replicas:
            if broker not in state.isr:
                yield broker, self._of_another_topic(broker_host(broker), at, state) or unled or waits

    def _of_another_topic(self, host: str, at: TopicPartition, state: PartitionState) -> str:
        """The reason why a broker has no role in a recreated topic; "" unless the deleted topic is the reason."""
        if (host, at) in self._plane.of_another_topic:
            return LOG_OF_ANOTHER_TOPIC
        epoch, _ = self.panel.roles.get((host, at), (-1, False))
        is_former = epoch > state.leader_epoch and self.panel.former.has(host, at)
        return EPOCH_OF_ANOTHER_TOPIC if is_former else ""
