"""Leadership is handed on before a broker closes.

As long as the controller answers a broker that wants to stop, others that live and are in sync
lead what it led. A leadership that it kept at every answer, though another could have led, was never moved
(``KafkaController.doControlledShutdown``).
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, HostStarted, Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import TopicPartition, broker_host
from kemu.protocol.notes.replication import ControlledShutdownAnswered


class Handover(Checker):
    """Brokers that close hand on what they lead."""

    name = "handover"

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[int, dict[TopicPartition, None]] = {}
        """Broker that closes -> what it was left with at every answer, though another could lead."""
        self.on = {
            ControlledShutdownAnswered: self._answered,
            HostDown: self._down,
            HostStarted: self._started,
        }

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
        for broker in [broker for broker in self._kept if broker_host(broker) == fact.host]:
            for at in self._kept[broker] if fact.how == "closed" else ():
                state = self.panel.states.get(at)
                if state is not None and state.leader == broker:
                    name = f"{at[0]}-{at[1]}"
                    text = f"{fact.host} closed as the leader of {name}, though others were in the ISR {state.isr}"
                    self.violation(seen, "leadership-kept", (name, fact.host), text)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._kept = {broker: kept for broker, kept in self._kept.items() if broker_host(broker) != fact.host}
