"""The coordinator machine in virtual time, without a network or a world, and with a log whose writes take no time."""

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.coordinator.log import OffsetsPartition
from kemu.actors.coordinator.modern_group import ModernGroup
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import (
    US_PER_MS,
    Append,
    Appended,
    Event,
    Note,
    Received,
    Record,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    TimerKey,
    Told,
)
from kemu.emulator.facts import Seen
from kemu.protocol.commands import KnowTopics, LeadOffsets, ResignOffsets, Start
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages import control
from kemu.protocol.names import MemberId, broker_host, coordinator_on
from kemu.protocol.wire.codec import seal, unseal
from lab.conformance.raw.steps import (
    REPLIES,
    SIZES,
    TOPIC_CHANGES,
    Answer,
    Conversation,
    symbol,
    told_by,
    with_ids,
)

_NOT_OF_GROUPS = (GroupTimer.EXPIRE,)
"""Timers that do not depend on requests."""
_BEGIN_US = 3_600_000_000
"""The machine's time at the start of a sequence. A coordinator takes a target of time 0 for a target without a time."""


class _Minting(Coordinator):
    """A coordinator that generates prescribed member ids."""

    mint: Callable[[str], MemberId]

    def new_member_id(self, base: str, partition: OffsetsPartition, *, bare: bool = False) -> MemberId:
        """The member id for the current request."""
        return self.mint(base)


class CoordinatorAlone:
    """A coordinator that leads all partitions of its log, and receives one request after the other.

    Args:
        config: configuration of the coordinator's broker.
        id_of: function of (step, prefix of the id) that returns the member id to generate at the step.
        topics: name, id and number of partitions of each topic of the cluster; if empty, the coordinator is told none.
    """

    def __init__(
        self, config: BrokerConfig, id_of: Callable[[int, str], MemberId], topics: Iterable[tuple[str, str, int]] = ()
    ) -> None:
        self.answers: dict[int, tuple[int, Any]] = {}
        """Step -> (time in us, the reply)."""
        self.now_us = 0
        self.fired_us: list[int] = []
        """Times at which timers of groups fired."""
        self.edges: list[int] = []
        """``edges_us`` at each request."""
        self.notes: list[Seen] = []
        """The machine's notes."""
        self._id_of = id_of
        self._step = -1
        self._written = self._events = 0
        self._timers: dict[TimerKey, int] = {}
        self._versions: dict[int, int] = {}
        self._epoch = 1
        self._records: dict[int, list[Record]] = {}
        self._coordinator = _Minting(coordinator_on(broker_host(0)), 0, config)
        self._coordinator.mint = lambda base: self._id_of(self._step, base)
        self._feed(Told(Start()))
        for number in range(config.offsets_topic_num_partitions):
            self._feed(Told(LeadOffsets(partition=number, leader_epoch=1, records=(), load_us=0)))
        self.topics = {name: (topic_id, count) for name, topic_id, count in topics}
        """Name -> id and number of partitions of each topic of the cluster."""
        if self.topics:
            self._tell_topics()

    def _tell_topics(self) -> None:
        rows = tuple([(name, topic_id, count) for name, (topic_id, count) in self.topics.items()])
        self._feed(Told(KnowTopics(topics=rows)))

    def ask(self, number: int, client: str, version: int, request: Any) -> None:
        """Send a request now; the machine gets only the fields of the request's version.

        A change of a topic has its effect at once.
        """
        self._step = number
        self._versions[number] = version
        self.edges += self.edges_us()
        if type(request) in TOPIC_CHANGES:
            self.answers[number] = (self.now_us, self._change_topic(request))
            self._tell_topics()
            return
        self._feed(Received(client, number, number, version, unseal(seal(request, version))[0]))

    def _change_topic(self, request: Any) -> Any:
        if isinstance(request, control.DeleteTopics):
            (name,) = request.topic_names
            del self.topics[name]
        elif isinstance(request, control.CreateTopics):
            (new,) = request.topics
            name = new.name
            self.topics[name] = self._id_of(self._step, name), new.num_partitions
        else:
            (more,) = request.topics
            name = more.name
            self.topics[name] = self.topics[name][0], more.count
        outcome = control.TopicOutcome(name=name, error_code=ErrorCode.NONE)
        return REPLIES[type(request).__name__](topics=(outcome,))

    def resign(self) -> None:
        """Unload the groups, as if another broker led the log."""
        self._epoch += 1
        for number in self._records:
            self._feed(Told(ResignOffsets(partition=number, leader_epoch=self._epoch)))

    def load(self) -> None:
        """Load the groups from the records that the machine appended."""
        self._epoch += 1
        for number, records in self._records.items():
            self._feed(Told(LeadOffsets(partition=number, leader_epoch=self._epoch, records=tuple(records), load_us=0)))

    def run_until(self, us: int) -> None:
        """Advance the time; timers fire in the order in which they are due."""
        while self._timers:
            key = min(self._timers, key=self._timers.__getitem__)
            due_us = self._timers[key]
            if due_us > us:
                break
            del self._timers[key]
            self.now_us = max(self.now_us, due_us)
            if key[0] not in _NOT_OF_GROUPS:
                self.fired_us.append(self.now_us)
            self._feed(TimerFired(key))
        self.now_us = max(self.now_us, us)

    def due_us(self) -> list[int]:
        """Times at which the running timers of groups are due, in order."""
        return sorted(due_us for key, due_us in self._timers.items() if key[0] not in _NOT_OF_GROUPS)

    def edges_us(self) -> list[int]:
        """Times from which on the next target of a group may be computed (since 4.3)."""
        rules, config = self._coordinator.rules.consumer_groups, self._coordinator.config
        interval_us = config.group_consumer_assignment_interval_ms * US_PER_MS if rules.spaces_targets else 0
        groups = [each for each in self._coordinator.groups.values() if isinstance(each, ModernGroup)]
        ends = [each.working.target_at_ms * US_PER_MS + interval_us for each in groups if interval_us]
        return [each - _BEGIN_US for each in ends]

    def _feed(self, event: Event) -> None:
        waiting: list[Event] = [event]
        while waiting:
            self._events += 1
            for effect in self._coordinator.step(_BEGIN_US + self.now_us, waiting.pop(0)):
                match effect:
                    case Send(request_id=number, version=version, message=reply):
                        self.answers[number] = (self.now_us, unseal(seal(reply, version))[0])
                    case StartTimer(key=key, after_us=after_us):
                        self._timers.pop(
                            key, None
                        )  # Timers that are due at once fire in the order of their last start.
                        self._timers[key] = self.now_us + after_us
                    case StopTimer(key=key):
                        self._timers.pop(key, None)
                    case Append(log=log, token=token, records=records):
                        self._records.setdefault(int(log.rpartition("-")[2]), []).extend(records)
                        waiting.append(Appended(token, ErrorCode.NONE, self._written))
                        self._written += len(records)
                    case Note(fact):
                        self.notes.append(Seen(self._events, self.now_us, self._coordinator.name, 1, fact))


def replay(talk: Conversation, config: BrokerConfig, notes: list[Seen] | None = None) -> tuple[Conversation, list[int]]:
    """Send the recorded requests at the recorded times to the machine, which generates the same ids as Kafka.

    Args:
        talk: the requests and their times.
        config: configuration of the broker.
        notes: list that gets the machine's notes.

    Returns: The responses, with the sequence's names for ids, and the times at which timers fired (ms).
    """
    made: dict[MemberId, str] = {}
    by_symbol = {symbol(step): member_id for step, member_id in talk.ids.items()}

    def id_of(step: int, base: str) -> MemberId:
        member_id = talk.ids.get(step, f"{base}-never-notes-{step}")
        made[member_id] = symbol(step)
        by_symbol[symbol(step)] = member_id
        return member_id

    by_symbol |= talk.topics
    made |= {topic_id: name for name, topic_id in talk.topics.items()}
    sizes = [(name, topic_id, SIZES[name]) for name, topic_id in talk.topics.items()]
    alone = CoordinatorAlone(config, id_of, sizes)
    for number, step in enumerate(talk.steps):
        if number in talk.moves:
            alone.run_until(talk.moves[number] * US_PER_MS)
            alone.resign()
            alone.now_us = max(alone.now_us, step.at_ms * US_PER_MS)
            alone.load()
        alone.run_until(step.at_ms * US_PER_MS)
        alone.ask(number, step.client, step.version, with_ids(step.request, lambda name: by_symbol.get(name, name)))
    alone.run_until(talk.end_ms * US_PER_MS)
    answers = {
        number: Answer(at_us // US_PER_MS, told_by(with_ids(reply, lambda name: made.get(name, name))))
        for number, (at_us, reply) in sorted(alone.answers.items())
    }
    if notes is not None:
        notes += alone.notes
    ours = attrs.evolve(talk, answers=answers)
    return ours, sorted(us // US_PER_MS for us in (*alone.fired_us, *alone.edges))
