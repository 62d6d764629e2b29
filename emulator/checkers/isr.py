"""Who counts as in sync: nobody who has everything leaves, nobody who closes joins, and acks=all means enough.

Theory. ``min.insync.replicas`` promises that what a producer with acks=all was told is on so many replicas; that holds
only if the ISR tells the truth:

* A record that is acknowledged to a producer with acks=all was appended while its leader had at least
  ``min.insync.replicas`` members in the ISR, as the leader knew it.
* A member that has everything, as a high watermark at the log's end says, stays in
  the ISR, however long ago it asked (KAFKA-7152). ``duties`` looks at members that lag.
* A broker in controlled shutdown, to whom the controller has answered, does not join an ISR before its next start
  (Kafka's ``ReplicaManager`` begins no fetcher while shutdown is under way).
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, HostStarted, Seen, TopicReplicated
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, TopicPartition, broker_host
from kemu.protocol.notes.groups import ProducerStarted, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    ControlledShutdownAnswered,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrProposed,
    NodeWritten,
    ReplicaStopped,
)

ALL = -1


class _Office:
    """A leader of a partition: its log's end, and its ISR as it knows it."""

    __slots__ = ("end", "members", "whole")

    def __init__(self, members: tuple[int, ...], end: int) -> None:
        self.members = members
        self.end = end
        self.whole = False
        """Its high watermark reached its log's end, and nothing was appended since: it knows that all have all."""


class Isr(Checker):
    """Leaders keep who has everything, who closes does not come back, and acks=all means min.insync.replicas."""

    name = "isr"

    def __init__(self) -> None:
        super().__init__()
        self._offices: dict[TopicPartition, dict[ActorName, _Office]] = {}
        self._min_isr: dict[str, int] = {}
        self._asked_less: dict[ActorName, None] = {}
        """Producers that do not ask for all in-sync replicas."""
        self._thin: dict[TopicPartition, list[tuple[int, int, int]]] = {}
        """Appended with too few in the ISR: (first offset, last + 1, how many there were)."""
        self._closing: dict[int, None] = {}
        """Brokers that were answered by the controller and have not started since."""
        self.on = {
            TopicReplicated: self._topic,
            ProducerStarted: self._produces,
            BecameLeader: self._led,
            BecameFollower: self._leads_no_more,
            ReplicaStopped: self._leads_no_more,
            HostDown: self._down,
            HostStarted: self._started,
            IsrProposed: self._proposed,
            HighWatermarkAdvanced: self._advanced,
            IsrChanged: self._changed,
            RecordsAppended: self._appended,
            RecordsAcknowledged: self._acknowledged,
            ControlledShutdownAnswered: self._closes,
            NodeWritten: self._written,
        }

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        self._min_isr[fact.topic] = fact.min_isr

    # --- offices -----------------------------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        office = _Office(fact.isr, fact.end_offset)
        self._offices.setdefault(at, {})[seen.actor] = office
        self._thin[at] = [each for each in self._thin.get(at, ()) if each[1] <= fact.end_offset]

    def _leads_no_more(self, seen: Seen, fact: BecameFollower | ReplicaStopped) -> None:
        self._offices.get((fact.topic, fact.partition), {}).pop(seen.actor, None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for offices in self._offices.values():
            offices.pop(fact.host, None)

    def _office(self, leader: ActorName, at: TopicPartition) -> _Office | None:
        offices = self._offices.get(at)
        return None if offices is None else offices.get(leader)

    def _proposed(self, seen: Seen, fact: IsrProposed) -> None:
        office = self._office(seen.actor, (fact.topic, fact.partition))
        if office is None:
            return
        leaving = [broker_host(member) for member in office.members if member not in fact.isr]
        if leaving and office.whole:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} takes {', '.join(leaving)} out of the ISR of {name}, and knows that it has everything"
            self.violation(seen, "shrunk-in-sync", (name, seen.actor, *leaving), text)

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        office = self._office(seen.actor, (fact.topic, fact.partition))
        if office is not None:
            office.whole = fact.high_watermark == office.end

    def _changed(self, seen: Seen, fact: IsrChanged) -> None:
        office = self._office(seen.actor, (fact.topic, fact.partition))
        if office is not None:
            office.members = fact.isr

    # --- records -----------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        at = (fact.topic, fact.partition)
        office = self._office(seen.actor, at)
        if office is None:
            return
        office.end = end = fact.base_offset + fact.count
        office.whole = False
        least = self._min_isr.get(fact.topic, 1)
        if len(office.members) < least:
            self._thin.setdefault(at, []).append((fact.base_offset, end, len(office.members)))

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        if fact.acks == ALL:
            self._asked_less.pop(seen.actor, None)
        else:
            self._asked_less[seen.actor] = None

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        if seen.actor in self._asked_less:
            return
        at, end = (fact.topic, fact.partition), fact.base_offset + fact.count
        for first, last, members in self._thin.get(at, ()):
            if first < end and fact.base_offset < last:
                name, least = f"{at[0]}-{at[1]}", self._min_isr[at[0]]
                text = (
                    f"{seen.actor} was told that all have {name} from {max(first, fact.base_offset)} on, appended with "
                    f"{members} in the ISR; min.insync.replicas is {least}"
                )
                self.violation(seen, "acknowledged-by-too-few", (name, seen.actor), text)
                return

    # --- who closes --------------------------------------------------------------------------------------------

    def _closes(self, seen: Seen, fact: ControlledShutdownAnswered) -> None:
        if fact.error is ErrorCode.NONE:
            self._closing[fact.broker_id] = None

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._closing = {broker: None for broker in self._closing if broker_host(broker) != fact.host}

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at, before = self.panel.written, self.panel.state_before
        if not self._closing or at is None or before is None or self.panel.was_elected or fact.what == "deleted":
            return
        for broker in self.panel.states[at].isr:
            if broker in self._closing and broker not in before.isr:
                name, host = f"{at[0]}-{at[1]}", broker_host(broker)
                text = f"{fact.client} takes {host} into the ISR of {name}, which is in controlled shutdown"
                self.violation(seen, "joined-while-closing", (name, host), text)
