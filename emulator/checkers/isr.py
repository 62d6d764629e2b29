"""Who counts as in sync: leaders drop those who fell behind, nobody who closes comes back, and acks=all means enough.

Theory. ``min.insync.replicas`` promises that what a producer with acks=all was told is on so many replicas; that holds
only if the ISR tells the truth:

* A record that is acknowledged to a producer with acks=all was appended while its leader had at least
  ``min.insync.replicas`` members in the ISR, as the leader knew it.
* A leader asks the store to take a member out of the ISR that has lacked a record for longer than
  ``replica.lag.time.max.ms``. It looks every half of that, and one change at a time is under way: here it has twice the
  time and two seconds, and time in which it stood still or waited for the store does not count.
* Nobody else leaves it: a member that has everything, as a high watermark at the log's end says, stays in it, however
  long ago it asked (KAFKA-7152).
* A broker in controlled shutdown, to whom the controller has answered, does not join an ISR before its next start
  (Kafka's ``ReplicaManager`` begins no fetcher while shutdown is under way).
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, HostResumed, HostStarted, Seen, TopicReplicated
from kemu.protocol.config import ReplicaConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, TopicPartition, broker_host, broker_of, host_of
from kemu.protocol.notes.groups import ProducerStarted, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    ControlledShutdownAnswered,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrChangeFailed,
    IsrProposed,
    NodeWritten,
    RecordsReplicated,
    ReplicaStopped,
)

ALL = -1
DEFAULT_LAG_US = ReplicaConfig().replica_lag_time_max_ms * 1_000
SLACK_US = 2_000_000


class _Office:
    """A leader of a partition: its log's end, its ISR as it knows it, and who of it lacks what since when."""

    __slots__ = ("behind", "broker", "end", "members", "proposed", "told", "whole")

    def __init__(self, broker: int, members: tuple[int, ...], end: int) -> None:
        self.broker = broker
        """The leader's own id."""
        self.members = members
        self.end = end
        self.proposed = False
        """A change is under way."""
        self.behind: dict[int, tuple[int, int]] = {}
        """Member -> (an end of the log that it does not have, since when)."""
        self.told: dict[int, None] = {}
        """Members that were reported."""
        self.whole = False
        """Its high watermark reached its log's end, and nothing was appended since: it knows that all have all."""

    def begin_again(self, now_us: int) -> None:
        """Nobody is behind for long yet."""
        self.behind = {member: (end, now_us) for member, (end, _) in self.behind.items()}


class Isr(Checker):
    """Leaders drop who fell behind, who closes does not come back, and acks=all means min.insync.replicas.

    Args:
        lag_us: ``replica.lag.time.max.ms`` of the brokers.
    """

    name = "isr"

    def __init__(self, *, lag_us: int = DEFAULT_LAG_US) -> None:
        super().__init__()
        self._late_us = 2 * lag_us + SLACK_US
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
            HostResumed: self._resumed,
            IsrProposed: self._proposed,
            HighWatermarkAdvanced: self._advanced,
            IsrChanged: self._changed,
            IsrChangeFailed: self._change_failed,
            RecordsAppended: self._appended,
            RecordsReplicated: self._replicated,
            RecordsAcknowledged: self._acknowledged,
            ControlledShutdownAnswered: self._closes,
            NodeWritten: self._written,
        }

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        self._min_isr[fact.topic] = fact.min_isr

    # --- offices -----------------------------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        office = _Office(broker_of(host_of(seen.actor)), fact.isr, fact.end_offset)
        self._offices.setdefault(at, {})[seen.actor] = office
        self._thin[at] = [each for each in self._thin.get(at, ()) if each[1] <= fact.end_offset]

    def _leads_no_more(self, seen: Seen, fact: BecameFollower | ReplicaStopped) -> None:
        self._offices.get((fact.topic, fact.partition), {}).pop(seen.actor, None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for offices in self._offices.values():
            offices.pop(fact.host, None)

    def _resumed(self, seen: Seen, fact: HostResumed) -> None:
        for offices in self._offices.values():
            if fact.host in offices:
                offices[fact.host].begin_again(seen.at_us)

    def _office(self, leader: ActorName, at: TopicPartition) -> _Office | None:
        offices = self._offices.get(at)
        return None if offices is None else offices.get(leader)

    def _proposed(self, seen: Seen, fact: IsrProposed) -> None:
        office = self._office(seen.actor, (fact.topic, fact.partition))
        if office is None:
            return
        office.proposed = True
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
            office.members, office.proposed = fact.isr, False
            office.behind = {member: each for member, each in office.behind.items() if member in fact.isr}
            office.begin_again(seen.at_us)

    def _change_failed(self, seen: Seen, fact: IsrChangeFailed) -> None:
        office = self._office(seen.actor, (fact.topic, fact.partition))
        if office is not None:
            office.proposed = False
            office.begin_again(seen.at_us)

    # --- records -----------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        at = (fact.topic, fact.partition)
        office = self._office(seen.actor, at)
        if office is None:
            return
        office.end = end = fact.base_offset + fact.count
        office.whole = False
        members, own, behind, now_us = office.members, office.broker, office.behind, seen.at_us
        least = self._min_isr.get(fact.topic, 1)
        if len(members) < least:
            self._thin.setdefault(at, []).append((fact.base_offset, end, len(members)))
        for member in members:
            if member == own:
                continue
            if member not in behind:
                behind[member] = (end, now_us)
            elif now_us - behind[member][1] > self._late_us:
                self._late(seen, seen.actor, office, at, member)

    def _late(self, seen: Seen, leader: ActorName, office: _Office, at: TopicPartition, member: int) -> None:
        """A member has been behind for too long: say so, once. A leader that stands still looks at nothing."""
        if not office.proposed and member not in office.told and not self.panel.is_paused(host_of(leader)):
            office.told[member] = None
            for_us = seen.at_us - office.behind[member][1]
            name, host = f"{at[0]}-{at[1]}", broker_host(member)
            text = f"{leader} keeps {host} in the ISR of {name}, which lacks records for {for_us // 1_000_000} s"
            self.violation(seen, "never-shrunk", (name, leader, host), text)

    def _replicated(self, seen: Seen, fact: RecordsReplicated) -> None:
        at = (fact.topic, fact.partition)
        offices = self._offices.get(at)
        if not offices:
            return
        broker, end, now_us = broker_of(host_of(seen.actor)), fact.base_offset + fact.count, seen.at_us
        for leader, office in offices.items():
            waits = office.behind.get(broker)
            if waits is None:
                continue
            if now_us - waits[1] > self._late_us:
                self._late(seen, leader, office, at, broker)
            if end >= office.end:
                del office.behind[broker]
            elif end >= waits[0]:
                office.behind[broker] = (office.end, now_us)

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
