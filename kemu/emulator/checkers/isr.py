"""Who counts as in sync, who closes, and what counts as committed: what must never be.

=======================  =========================================================================================
kind                     rule
=======================  =========================================================================================
acknowledged-by-too-few  what a producer with acks=all was told of was appended while its leader had at least
                         ``min.insync.replicas`` members in the ISR, as the leader knew it
shrunk-in-sync           a member that has everything, as a high watermark at the log's end says, stays in the ISR,
                         however long ago it asked (KAFKA-7152)
joined-while-closing     a broker that closes, and from which the controller took a leadership for that, does not join
                         the ISR of its successor before its next start
leadership-kept          a broker that closes leads nothing that another broker could lead at each answer to it
watermark-at-start       a broker that restarts takes no more for committed than any leader ever did
=======================  =========================================================================================

Source: Kafka 3.4 ``Partition.maybeShrinkIsr``, ``ReplicaManager.makeFollowers`` (no fetcher is added during shutdown),
``KafkaController.doControlledShutdown``, ``LogManager`` (checkpoints).
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, HostStarted, Seen, TopicFilled
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, TopicPartition, broker_host
from kemu.protocol.nodes import PartitionState
from kemu.protocol.notes.groups import ProducerStarted, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    ControlledShutdownAnswered,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrProposed,
    NodeWritten,
    ReplicaRestored,
)

ALL = -1


class _Office:
    """A leader of a partition: its log's end, and its ISR as it knows it."""

    __slots__ = ("end", "is_whole", "members")

    def __init__(self, members: tuple[int, ...], end: int) -> None:
        self.members = members
        self.end = end
        self.is_whole = False
        """Its high watermark reached its log's end, and nothing was appended since: it knows that all have all."""


class Isr(Checker):
    """See the module."""

    name = "isr"

    def __init__(self) -> None:
        super().__init__()
        self._offices: dict[tuple[ActorName, TopicPartition], _Office] = {}
        self._asked_less: dict[ActorName, None] = {}
        """Producers that do not ask for all in-sync replicas."""
        self._thin: dict[TopicPartition, list[tuple[int, int, int, int]]] = {}
        """Appended with too few in the ISR: (first offset, last + 1, how many there were, how many were asked for)."""
        self._closing: dict[int, tuple[int, dict[TopicPartition, None]]] = {}
        """Broker that the controller lets stop -> since when, and what it led at every answer, though another could."""
        self._handed_on: dict[tuple[int, TopicPartition], int] = {}
        """(former leader, partition) -> the leader epoch that began without it as leader and in the ISR."""
        self._committed: dict[TopicPartition, int] = {}
        """The highest watermark that any leader ever had, deleted topics of the same name included."""
        self.on = {
            TopicFilled: self._filled,
            ProducerStarted: self._produces,
            BecameLeader: self._led,
            BecameFollower: self._follows,
            IsrProposed: self._proposed,
            HighWatermarkAdvanced: self._advanced,
            IsrChanged: self._changed,
            RecordsAppended: self._appended,
            RecordsAcknowledged: self._acknowledged,
            ReplicaRestored: self._restored,
            ControlledShutdownAnswered: self._answered,
            HostDown: self._down,
            HostStarted: self._started,
            NodeWritten: self._written,
        }

    # --- leaders -----------------------------------------------------------------------------------------------

    def _office(self, seen: Seen) -> _Office | None:
        """Of the broker that speaks; None: it does not lead the partition."""
        key = (seen.actor, (seen.fact.topic, seen.fact.partition))
        return self._offices.get(key) if self.panel.roles.get(key, (-1, False))[1] else None

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        self._offices[seen.actor, at] = _Office(fact.isr, fact.end_offset)
        self._committed[at] = max(self._committed.get(at, 0), fact.high_watermark)
        self._thin[at] = [each for each in self._thin.get(at, ()) if each[1] <= fact.end_offset]

    def _follows(self, seen: Seen, fact: BecameFollower) -> None:
        """A follower that lost its log does not have everything any more."""
        office = self._offices.get((broker_host(fact.leader), (fact.topic, fact.partition)))
        if office is not None and fact.end_offset < office.end:
            office.is_whole = False

    def _proposed(self, seen: Seen, fact: IsrProposed) -> None:
        office = self._office(seen)
        if office is None:
            return
        self._joins(seen, fact, [member for member in fact.isr if member not in office.members])
        leaving = [broker_host(member) for member in office.members if member not in fact.isr]
        if leaving and office.is_whole:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} takes {', '.join(leaving)} out of the ISR of {name}, and knows that it has everything"
            self.violation(seen, "shrunk-in-sync", (name, seen.actor, *leaving), text)

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        at = (fact.topic, fact.partition)
        self._committed[at] = max(self._committed.get(at, 0), fact.high_watermark)
        office = self._office(seen)
        if office is not None:
            office.is_whole = fact.high_watermark == office.end

    def _changed(self, seen: Seen, fact: IsrChanged) -> None:
        office = self._office(seen)
        if office is not None:
            office.members = fact.isr

    # --- records -----------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        office = self._office(seen)
        if office is None:
            return
        at = (fact.topic, fact.partition)
        office.end, office.is_whole = fact.base_offset + fact.count, False
        if self.panel.min_insync.is_below(at, len(office.members)):
            least = self.panel.min_insync.least_of(at)
            self._thin.setdefault(at, []).append((fact.base_offset, office.end, len(office.members), least))

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        self._asked_less.pop(seen.actor, None)
        if fact.acks != ALL:
            self._asked_less[seen.actor] = None

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        at, end = (fact.topic, fact.partition), fact.base_offset + fact.count
        thin = [] if seen.actor in self._asked_less else self._thin.get(at, [])
        for first, last, members, least in thin:
            if first < end and fact.base_offset < last:
                name = f"{at[0]}-{at[1]}"
                text = f"{seen.actor} was told that all have {name} from {max(first, fact.base_offset)} on, appended"
                text += f" with {members} in the ISR; min.insync.replicas is {least}"
                self.violation(seen, "acknowledged-by-too-few", (name, seen.actor), text)
                return

    def _filled(self, seen: Seen, fact: TopicFilled) -> None:
        self._committed.update(((fact.topic, number), fact.records) for number in range(fact.partitions))

    def _restored(self, seen: Seen, fact: ReplicaRestored) -> None:
        committed = self._committed.get((fact.topic, fact.partition), 0)
        if fact.high_watermark > committed:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} starts with {fact.high_watermark} as the high watermark of {name}"
            self.violation(
                seen, "watermark-at-start", (name, seen.actor), f"{text}; no leader ever had more than {committed}"
            )

    # --- who closes --------------------------------------------------------------------------------------------

    def _answered(self, seen: Seen, fact: ControlledShutdownAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            return
        states = self.panel.states.items()
        kept = {at: None for at, state in states if state.leader == fact.broker_id and self._other_could(state)}
        since_us, before = self._closing.get(fact.broker_id, (seen.at_us, kept))
        self._closing[fact.broker_id] = (since_us, {at: None for at in kept if at in before})

    def _other_could(self, state: PartitionState) -> bool:
        others = [broker for broker in state.isr if broker != state.leader and broker not in self._closing]
        others = [broker for broker in others if broker in self.panel.registered]
        return any(not self.panel.is_out(broker_host(broker)) for broker in others)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for broker, (_, kept) in self._closing.items():
            for at in kept if broker_host(broker) == fact.host and fact.how == "closed" else ():
                state = self.panel.states.get(at)
                if state is not None and state.leader == broker:
                    name = f"{at[0]}-{at[1]}"
                    text = f"{fact.host} closed as the leader of {name}, though others were in the ISR {state.isr}"
                    self.violation(seen, "leadership-kept", (name, fact.host), text)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._closing = {broker: each for broker, each in self._closing.items() if broker_host(broker) != fact.host}
        self._handed_on = {key: each for key, each in self._handed_on.items() if broker_host(key[0]) != fact.host}

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at, before = self.panel.written, self.panel.state_before
        if at is not None and before is not None and self.panel.was_elected:
            state = self.panel.states[at]
            self._handed_on.pop((before.leader, at), None)
            if before.leader not in (state.leader, *state.isr):
                self._handed_on[before.leader, at] = state.leader_epoch

    def _joins(self, seen: Seen, fact: IsrProposed, joining: list[int]) -> None:
        name = f"{fact.topic}-{fact.partition}"
        for broker in joining:
            handed_on = self._handed_on.get((broker, (fact.topic, fact.partition)))
            if broker in self._closing and handed_on == fact.leader_epoch:
                host = broker_host(broker)
                text = f"{seen.actor} takes {host} into the ISR of {name}, which is in controlled shutdown"
                self.violation(seen, "joined-while-closing", (name, host), text)
