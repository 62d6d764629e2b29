"""Leadership is handed on before a broker closes, and given back to preferred replicas afterwards.

Theory.

* Controlled shutdown: as long as the controller answers a broker that wants to stop, others that live and are in sync
  lead what it led. A leadership that it kept at every answer, though another could have led, was never moved
  (``KafkaController.doControlledShutdown``).
* ``auto.leader.rebalance.enable``: some ``leader.imbalance.check.interval.seconds`` after everything is quiet, at most
  ``leader.imbalance.per.broker.percentage`` of the partitions that a broker is the preferred leader of are led by
  others, as far as it lives and is in sync.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Healed, HostDown, HostPaused, HostResumed, HostStarted, Seen
from kemu.protocol.config import ControllerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import TopicPartition, broker_host
from kemu.protocol.notes.replication import BecameController, ControlledShutdownAnswered, NodeWritten

SLACK_US = 15_000_000
"""A new controller looks for the first time after a fixed delay, and elections take their time."""


class Handover(Checker):
    """Brokers that close hand on what they lead; preferred replicas lead again when all is quiet.

    Args:
        config: the controllers'.
    """

    name = "handover"

    def __init__(self, config: ControllerConfig | None = None) -> None:
        super().__init__()
        self._config = config or ControllerConfig()
        self._kept: dict[int, dict[TopicPartition, None]] = {}
        """Broker that closes -> what it was left with at every answer, though another could lead."""
        self._quiet_since_us: int | None = None
        """When something last changed after the faults; None before their end."""
        self.on = {
            ControlledShutdownAnswered: self._answered,
            HostDown: self._down,
            HostStarted: self._started,
            HostPaused: self._moved,
            HostResumed: self._moved,
            BecameController: self._moved,
            NodeWritten: self._written,
            Healed: self._healed,
        }

    # --- controlled shutdown -----------------------------------------------------------------------------------

    def _answered(self, seen: Seen, fact: ControlledShutdownAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            return
        kept = {
            at: None
            for at, state in self.panel.states.items()
            if state.leader == fact.broker_id and any(self._could_lead(member) for member in state.isr)
        }
        before = self._kept.get(fact.broker_id)
        self._kept[fact.broker_id] = kept if before is None else {at: None for at in kept if at in before}

    def _could_lead(self, broker: int) -> bool:
        return (
            broker in self.panel.registered and broker not in self._kept and not self.panel.is_out(broker_host(broker))
        )

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._moved(seen, fact)
        for broker in [broker for broker in self._kept if broker_host(broker) == fact.host]:
            for at in self._kept[broker] if fact.how == "closed" else ():
                state = self.panel.states.get(at)
                if state is not None and state.leader == broker:
                    name = f"{at[0]}-{at[1]}"
                    text = f"{fact.host} closed as the leader of {name}, though others were in the ISR {state.isr}"
                    self.violation(seen, "leadership-kept", (name, fact.host), text)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._kept = {broker: kept for broker, kept in self._kept.items() if broker_host(broker) != fact.host}
        self._moved(seen, fact)

    # --- preferred leaders -------------------------------------------------------------------------------------

    def _healed(self, seen: Seen, fact: Healed) -> None:
        self._quiet_since_us = seen.at_us

    def _moved(self, seen: Seen, fact: object) -> None:
        if self._quiet_since_us is not None:
            self._quiet_since_us = seen.at_us

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        if self.panel.written is not None or self.panel.written_topic:
            self._moved(seen, fact)

    def finish(self, at_us: int) -> None:
        """Judged is a run that was quiet for long enough at its end."""
        config, panel = self._config, self.panel
        wait_us = config.leader_imbalance_check_interval_seconds * 1_000_000 + SLACK_US
        if self._quiet_since_us is None or at_us - self._quiet_since_us < wait_us:
            return
        if not config.auto_leader_rebalance_enable or not panel.registered:
            return
        preferred: dict[int, list[TopicPartition]] = {}
        for at, assignment in panel.assigned.items():
            preferred.setdefault(assignment.replicas[0], []).append(at)
        for broker, assigned in preferred.items():
            states = [(at, panel.states[at]) for at in assigned if at in panel.states]
            elsewhere = [(at, state) for at, state in states if state.leader != broker]
            can = [at for at, state in elsewhere if broker in state.isr and self._could_lead(broker)]
            if can and len(elsewhere) * 100 > config.leader_imbalance_per_broker_percentage * len(assigned):
                host, quiet_s = broker_host(broker), (at_us - self._quiet_since_us) // 1_000_000
                text = (
                    f"{host} leads {len(assigned) - len(elsewhere)} of the {len(assigned)} partitions that it is the "
                    f"preferred leader of; it could lead {len(can)} more, and all was quiet for {quiet_s} s"
                )
                seen = Seen(0, at_us, "", 0, None)
                self.violation(seen, "preferred-leaders", (host,), text, liveness=True)
