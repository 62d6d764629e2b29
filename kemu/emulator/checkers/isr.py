"""The ISR, controlled shutdown, and the meaning of "committed".

- acknowledged-by-too-few: records acknowledged with acks=all were appended
  while the leader's ISR had ``min.insync.replicas`` members.
- shrunk-in-sync: a replica that has every record (the high watermark is at
  the log's end) stays in the ISR, even after a late fetch (KAFKA-7152).
- joined-while-closing: a closing broker that transferred a leadership does
  not join its successor's ISR before its next start.
- leadership-kept: a closing broker keeps no leadership that another broker could take at each answer to the closing
  broker.
- watermark-at-start: a restarted broker has no higher watermark than any
  leader ever had.

Source: Kafka 3.4 ``Partition.maybeShrinkIsr``,
``ReplicaManager.makeFollowers`` (no fetcher is added during shutdown),
``KafkaController.doControlledShutdown``, ``LogManager`` (checkpoints).
"""

from typing import Self

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, HostStarted, PartitionsFilled, Seen, TopicFilled
from kemu.emulator.watching.settings import Settings
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


class _Leadership:
    """The end of a leader's log, and the ISR that the leader knows."""

    __slots__ = ("end", "is_replicated", "members")

    def __init__(self, members: tuple[int, ...], end: int) -> None:
        self.members = members
        self.end = end
        self.is_replicated = False
        """Whether every replica has every record: the high watermark reached the log's end, and nothing was appended
        since."""


class Isr(Checker):
    """Judges ISRs, leaders and closing brokers."""

    name = "isr"
    kinds = (
        "acknowledged-by-too-few",
        "joined-while-closing",
        "leadership-kept",
        "shrunk-in-sync",
        "watermark-at-start",
    )

    def __init__(self) -> None:
        super().__init__()
        self._leaderships: dict[tuple[ActorName, TopicPartition], _Leadership] = {}
        self._weak_acks: dict[ActorName, None] = {}
        """Producers with acks other than all."""
        self._under_replicated: dict[TopicPartition, list[tuple[int, int, int, int]]] = {}
        """Partition -> appends with too few in the ISR: (first offset, last + 1, ISR members, required members)."""
        self._closing: dict[int, tuple[int, dict[TopicPartition, None]]] = {}
        """Closing broker -> (start in us, partitions that the broker led at every answer although another broker could
        lead)."""
        self._transferred: dict[tuple[int, TopicPartition], int] = {}
        """(former leader, partition) -> leader epoch that began with another leader, and without the former leader in
        the ISR."""
        self._committed: dict[TopicPartition, int] = {}
        """Partition -> highest high watermark of any leader, including deleted topics of the same name."""
        self.on = {
            TopicFilled: self._filled,
            PartitionsFilled: self._filled,
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

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls() if settings.replicated else cls().at_rest()

    # --- leaders -----------------------------------------------------------------------------------------------

    def _leadership(self, seen: Seen) -> _Leadership | None:
        """The leadership of the broker of this fact; None if the broker does not lead the partition."""
        key = (seen.actor, (seen.fact.topic, seen.fact.partition))
        return self._leaderships.get(key) if self.panel.roles.get(key, (-1, False))[1] else None

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        self._leaderships[seen.actor, at] = _Leadership(fact.isr, fact.end_offset)
        self._committed[at] = max(self._committed.get(at, 0), fact.high_watermark)
        self._under_replicated[at] = [each for each in self._under_replicated.get(at, ()) if each[1] <= fact.end_offset]

    def _follows(self, seen: Seen, fact: BecameFollower) -> None:
        """Note that a follower that lost records no longer has every record."""
        leadership = self._leaderships.get((broker_host(fact.leader), (fact.topic, fact.partition)))
        if leadership is not None and fact.end_offset < leadership.end:
            leadership.is_replicated = False

    def _proposed(self, seen: Seen, fact: IsrProposed) -> None:
        leadership = self._leadership(seen)
        if leadership is None:
            return
        self._joins(seen, fact, [member for member in fact.isr if member not in leadership.members])
        leaving = [broker_host(member) for member in leadership.members if member not in fact.isr]
        if leaving and leadership.is_replicated:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} removes {', '.join(leaving)} from the ISR of {name}, although it has every record"
            self.violation(seen, "shrunk-in-sync", (name, seen.actor, *leaving), text)

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        at = (fact.topic, fact.partition)
        self._committed[at] = max(self._committed.get(at, 0), fact.high_watermark)
        leadership = self._leadership(seen)
        if leadership is not None:
            leadership.is_replicated = fact.high_watermark == leadership.end

    def _changed(self, seen: Seen, fact: IsrChanged) -> None:
        leadership = self._leadership(seen)
        if leadership is not None:
            leadership.members = fact.isr

    # --- records -----------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        leadership = self._leadership(seen)
        if leadership is None:
            return
        at = (fact.topic, fact.partition)
        leadership.end, leadership.is_replicated = fact.base_offset + fact.count, False
        if self.panel.min_insync.is_below(at, len(leadership.members)):
            least = self.panel.min_insync.least_of(at)
            self._under_replicated.setdefault(at, []).append(
                (fact.base_offset, leadership.end, len(leadership.members), least)
            )

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        self._weak_acks.pop(seen.actor, None)
        if fact.acks != ALL:
            self._weak_acks[seen.actor] = None

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        at, end = (fact.topic, fact.partition), fact.base_offset + fact.count
        under_replicated = [] if seen.actor in self._weak_acks else self._under_replicated.get(at, [])
        for first, last, members, least in under_replicated:
            if first < end and fact.base_offset < last:
                name = f"{at[0]}-{at[1]}"
                text = (
                    f"{seen.actor} got an acknowledgement for {name} from {max(first, fact.base_offset)} on, appended"
                )
                text += f" with {members} in the ISR; min.insync.replicas is {least}"
                self.violation(seen, "acknowledged-by-too-few", (name, seen.actor), text)
                return

    def _filled(self, seen: Seen, fact: TopicFilled | PartitionsFilled) -> None:
        self._committed.update(((fact.topic, number), count) for number, count in enumerate(fact.by_partition))

    def _restored(self, seen: Seen, fact: ReplicaRestored) -> None:
        committed = self._committed.get((fact.topic, fact.partition), 0)
        if fact.high_watermark > committed:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} starts with {fact.high_watermark} as the high watermark of {name}"
            self.violation(
                seen, "watermark-at-start", (name, seen.actor), f"{text}; no leader ever had more than {committed}"
            )

    # --- closing brokers -------------------------------------------------------------------------------------------

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
        self._transferred = {key: each for key, each in self._transferred.items() if broker_host(key[0]) != fact.host}

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at, before = self.panel.written, self.panel.state_before
        if at is not None and before is not None and self.panel.was_elected:
            state = self.panel.states[at]
            self._transferred.pop((before.leader, at), None)
            if before.leader not in (state.leader, *state.isr):
                self._transferred[before.leader, at] = state.leader_epoch

    def _joins(self, seen: Seen, fact: IsrProposed, joining: list[int]) -> None:
        name = f"{fact.topic}-{fact.partition}"
        for broker in joining:
            transferred = self._transferred.get((broker, (fact.topic, fact.partition)))
            if broker in self._closing and transferred == fact.leader_epoch:
                host = broker_host(broker)
                text = f"{seen.actor} adds {host} to the ISR of {name}, which is in controlled shutdown"
                self.violation(seen, "joined-while-closing", (name, host), text)
