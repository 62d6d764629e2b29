"""The history of a run, as judged by who knows only what was acknowledged and what polls returned: anomalies by the
names of Jepsen's Kafka tests, each with what explains it, or with nothing.

Source of the names: ``jepsen.tests.kafka`` (lost write, unseen, poll skip, internal poll skip, nonmonotonic poll,
internal nonmonotonic poll, duplicate). It listens to a run as any observer does, live or over a trace, beside a panel
that has taken each fact before; no run pays for it that is not asked.

What a poll returned nobody tells, but what an application finished is told: so a *poll* is one part of it, the records
of one partition (``Processed``, ``RangeProcessed``). What a poll returned and a crash cut off is read again by others
and is no poll here. Parts of one partition that a member finished in one step are parts of one poll (*internal*); where
work takes time they are polls of their own. Who reads for no group tells no positions and is left out.

A record is an offset and the leader epoch that wrote it: what comes at an offset again is another record. Each group is
to read every record, so a write is lost to a group. What explains an anomaly (``EXPLANATIONS``) is what the run's facts
say in the open; records that Kafka's rules lets go are explained with its reason (``emulator.findings``). A record
that one group works through twice is no anomaly: that is at least once, and the figure ``reprocessed`` counts it.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from attrs import frozen

from kemu.emulator.facts import Handler, Healed, Seen
from kemu.emulator.findings import LOSS_REASONS, Loss
from kemu.emulator.watching.epoch_log import FIRST_TERM, Run, Term
from kemu.emulator.watching.logs import SECOND, reader_of
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.progress import (
    ANY,
    BEGAN,
    OPERATOR,
    RECREATED,
    RESET,
    SOUGHT,
    TRIMMED,
    GroupProgress,
)
from kemu.emulator.watching.ranges import Ranges
from kemu.protocol.names import ActorName, GroupId, TopicPartition, host_of, part_on
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    SEEK,
    TRUNCATED,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.ranges import ChildConsumerStarted, RangePositionSet, RangeProcessed
from kemu.protocol.notes.replication import LogStartMoved, NodeWritten
from kemu.protocol.notes.streams import ThreadReplaced

IDLE_US = 60_000_000
"""A group that processed nothing for so long, up to the end of a run that was healed before, reads no more."""


class Anomaly(StrEnum):
    """Jepsen's names."""

    LOST_WRITE = "lost write"
    """An acknowledged record that a group read past and never read."""
    UNSEEN = "unseen"
    """An acknowledged record that nobody had read when the run was over, and that nobody had read past."""
    POLL_SKIP = "poll skip"
    """A member went on behind records that exist."""
    INTERNAL_POLL_SKIP = "internal poll skip"
    """So inside one poll."""
    NONMONOTONIC_POLL = "nonmonotonic poll"
    """A member went back."""
    INTERNAL_NONMONOTONIC_POLL = "internal nonmonotonic poll"
    """So inside one poll."""
    DUPLICATE = "duplicate"
    """A batch of an idempotent producer at two offsets of a log. (Other producers' batches have no identity.)"""


REBALANCE = "rebalance"
BY_HAND = "assigned by hand"
TRUNCATION = "truncation"
SECOND_READER = "second consumer"
UNCLEAN_ELECTION = "unclean election"
STILL_TO_READ = "still to be read"
NOBODY_READS = "nobody reads it"

EXPLANATIONS: Mapping[str, str] = MappingProxyType(
    {
        REBALANCE: "the partition was assigned, revoked or lost in between",
        BY_HAND: "the member is given its partitions by hand, and began anew",
        SOUGHT: "the application chose the position",
        RESET: "there was no position to go on from (auto.offset.reset)",
        TRUNCATION: "the log had lost its end, and the member was told (KIP-320); a first copy went with it",
        SECOND_READER: "the second consumer works off what lies between (KIP-333)",
        TRIMMED: "retention or delete-records took them before they were read",
        RECREATED: "the topic was deleted, and another one of its name is read",
        OPERATOR: "an offset was committed from outside the group",
        BEGAN: "the group had committed an offset behind them before it read anything",
        UNCLEAN_ELECTION: "a replica outside the ISR was elected in between: no leader knows what it has",
        STILL_TO_READ: "whoever reads next begins before them: the run was over too soon to tell",
        NOBODY_READS: "no group reads the partition",
        **{f"expected loss: {why}": text for why, text in LOSS_REASONS.items()},
    }
)
"""What explains an anomaly -> in words."""


@frozen
class Occurrence:
    """An anomaly: records ``first .. last`` of a partition (of one that went back, those it returned again).

    ``explained``: a key of ``EXPLANATIONS``, "" if nothing does. ``who``: the member, the group or the broker it is
    about. ``at_us``: when the poll was, the record was acknowledged, or the second copy was appended.
    """

    anomaly: Anomaly
    at_us: int
    partition: str
    first: int
    last: int
    who: str
    explained: str
    text: str

    @property
    def records(self) -> int:
        """How many."""
        return self.last - self.first + 1


class _Ack(NamedTuple):
    first: int
    last: int
    term: Term
    at_us: int


class _Batch(NamedTuple):
    first: int
    last: int
    term: Term
    unclean: bool
    """Before an unclean election."""


class _Reader:
    """One life of one reader on one partition."""

    __slots__ = ("life", "polled_seq", "polled_to", "position", "why")

    def __init__(self, life: int) -> None:
        self.life = life
        self.polled_to: int | None = None
        """Behind what the last poll returned."""
        self.polled_seq = -1
        """The step that told so."""
        self.position: int | None = None
        """Where it was put since then."""
        self.why = ""
        """What explains that it goes on elsewhere than behind the last poll."""


class _Reading:
    """One group on one partition."""

    __slots__ = ("account", "deleted", "polled_us")

    def __init__(self, account: GroupProgress) -> None:
        self.account = account
        self.deleted = Ranges()
        """What was deleted before the group came to it."""
        self.polled_us = 0

    def excuses(self, term: Term) -> list[tuple[int, int, str]]:
        """What explains that records of a term were not read: (first, last + 1, why)."""
        skipped = self.account.skipped.items()
        found = [(*piece, why) for why, records in skipped for piece in records.of(term)]
        return [*[(*piece, TRIMMED) for piece in self.deleted], *found]

    def past(self, term: Term) -> int:
        """Behind the last record it read of this epoch or a later one."""
        read = self.account.done.by_term.items()
        written = [ranges for writer, ranges in read if writer >= term or writer == ANY]
        return max((last for ranges in written for _, last in ranges), default=0)


class History:
    """See the module. Show it every fact of a run, after its panel, then ``finish``."""

    def __init__(self, panel: Panel) -> None:
        self.found: list[Occurrence] = []
        self._panel = panel
        self._readers: dict[tuple[ActorName, TopicPartition], _Reader] = {}
        self._readings: dict[TopicPartition, dict[GroupId, _Reading]] = {}
        self._written_in: dict[TopicPartition, dict[int, Term]] = {}
        """First offset of a batch -> the term that appended it last."""
        self._acks: dict[TopicPartition, list[_Ack]] = {}
        self._batches: dict[TopicPartition, dict[tuple[int, int, int], _Batch]] = {}
        self._healed_us: int | None = None
        self._on: dict[type, Handler] = {
            Processed: self._processed,
            RangeProcessed: self._processed,
            PositionSet: self._positioned,
            RangePositionSet: self._positioned_in_range,
            PartitionsAssigned: lambda seen, fact: self._moved(seen, fact.added),
            PartitionsRevoked: lambda seen, fact: self._moved(seen, fact.revoked),
            PartitionsLost: lambda seen, fact: self._moved(seen, fact.lost),
            ChildConsumerStarted: lambda seen, fact: self._forget(part_on(seen.actor, SECOND)),
            ThreadReplaced: lambda seen, fact: self._forget(part_on(fact.instance, fact.thread)),
            RecordsAppended: self._appended,
            RecordsAcknowledged: self._acknowledged,
            LogStartMoved: self._deleted,
            NodeWritten: self._node_written,
            Healed: self._was_healed,
        }

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """What takes facts of a type (``facts.handlers_of``)."""
        handler = self._on.get(kind)
        return () if handler is None else (handler,)

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        for handler in self.handlers_of(type(seen.fact)):
            handler(seen, seen.fact)

    # --- polls -------------------------------------------------------------------------------------------------

    def _reader(self, name: ActorName, life: int, at: TopicPartition) -> _Reader:
        reader = self._readers.get((name, at))
        if reader is None or reader.life != life:
            reader = self._readers[name, at] = _Reader(life)
        return reader

    def _reading(self, group: GroupId, at: TopicPartition) -> _Reading:
        groups = self._readings.setdefault(at, {})
        if group not in groups:
            groups[group] = _Reading(self._panel.progress.of(group, at))
        return groups[group]

    def _processed(self, seen: Seen, fact: Processed | RangeProcessed) -> None:
        if not fact.group:
            return
        at, name = (fact.topic, fact.partition), reader_of(seen)
        reader = self._reader(name, seen.life, at)
        inside = reader.polled_seq == seen.seq and not reader.why and reader.position is None
        if fact.last <= fact.first:
            self._skipped(seen, name, at, fact.first, fact.last - 1, "", inside=True)
        if reader.position is not None:
            if reader.polled_to is not None:
                self._skipped(seen, name, at, reader.polled_to, reader.position, reader.why, inside=False)
            self._skipped(seen, name, at, reader.position, fact.first, "", inside=False)
        elif reader.polled_to is not None:
            self._skipped(seen, name, at, reader.polled_to, fact.first, reader.why, inside=inside)
        reader.polled_to, reader.polled_seq, reader.position, reader.why = fact.last, seen.seq, None, ""
        self._reading(fact.group, at).polled_us = seen.at_us

    def _skipped(
        self, seen: Seen, who: str, at: TopicPartition, due: int, found: int, why: str, *, inside: bool
    ) -> None:
        """A poll began at ``found`` where ``due`` was to come: perhaps an anomaly."""
        name = f"{at[0]}-{at[1]}"
        if found < due:
            kind = Anomaly.INTERNAL_NONMONOTONIC_POLL if inside else Anomaly.NONMONOTONIC_POLL
            text = f"{who} went back in {name} from {due} to {found}"
            self.found.append(Occurrence(kind, seen.at_us, name, found, due - 1, who, why, text))
        elif found > due:
            kind = Anomaly.INTERNAL_POLL_SKIP if inside else Anomaly.POLL_SKIP
            log = self._panel.logs.of(at).records
            there = min(max(due, log.start), found)
            for first, last, reason in self._parts(who, at, due, there, min(found, log.end), why):
                if first < last:
                    text = f"{who} went on in {name} at {found} and was to go on at {due}"
                    self.found.append(Occurrence(kind, seen.at_us, name, first, last - 1, who, reason, text))

    def _parts(
        self, who: str, at: TopicPartition, first: int, there: int, last: int, why: str
    ) -> Iterable[tuple[int, int, str]]:
        """What was skipped, by what explains it: what is deleted; what is in no range of the second consumer's."""
        yield first, there, why or TRIMMED
        if why or not who.endswith(f"/{SECOND}"):
            yield there, last, why
            return
        group = self._panel.ranges.members.get(who.removesuffix(f"/{SECOND}"), "")
        open_ranges = [(each.start, each.end, "") for each in self._panel.ranges.of(group, at).open_ranges]
        yield from _explained((there, last), [*open_ranges, (there, last, SECOND_READER)])

    def _moved(self, seen: Seen, partitions: tuple[TopicPartition, ...]) -> None:
        """A rebalance gave or took these; the second consumer reads what its member owns."""
        for at in partitions:
            for name in (seen.actor, part_on(seen.actor, SECOND)):
                reader = self._readers.get((name, at))
                if reader is not None and reader.life == seen.life:
                    reader.position, reader.why = None, REBALANCE

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        at = (fact.topic, fact.partition)
        reader = self._reader(seen.actor, seen.life, at)
        reader.position = fact.offset
        if fact.why == COMMITTED:
            reader.why = reader.why or (BY_HAND if not fact.member_id else "")
        else:
            reader.why = {SEEK: SOUGHT, TRUNCATED: TRUNCATION, JUMPED: SECOND_READER}.get(fact.why, RESET)
            second = self._readers.get((part_on(seen.actor, SECOND), at))
            if second is not None and fact.why == TRUNCATED:  # its ranges end where the log does
                second.position, second.why = None, TRUNCATION
        self._reading(fact.group, at)

    def _positioned_in_range(self, seen: Seen, fact: RangePositionSet) -> None:
        reader = self._reader(seen.actor, seen.life, (fact.topic, fact.partition))
        reader.position, reader.why = fact.offset, SECOND_READER

    def _forget(self, actor: ActorName) -> None:
        """Another of the same name will have read nothing yet."""
        for key in [key for key in self._readers if key[0] == actor]:
            del self._readers[key]

    # --- logs --------------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        at, logs = (fact.topic, fact.partition), self._panel.logs
        log = logs.of(at)
        epoch = log.epoch if logs.appended_to_log else self._panel.roles.get((seen.actor, at), (0, True))[0]
        term = max(epoch, 0), seen.life
        self._written_in.setdefault(at, {})[fact.base_offset] = term
        if fact.producer_id < 0 or not logs.appended_to_log:
            return
        batches = self._batches.setdefault(at, {})
        key = (fact.producer_id, fact.producer_epoch, fact.sequence)
        before = batches.get(key)
        last = fact.base_offset + fact.count - 1
        if before is not None and before.first != fact.base_offset:
            there = log.records.term_at(before.first) == before.term
            why = TRUNCATION if not there else UNCLEAN_ELECTION if before.unclean else ""
            name = f"{at[0]}-{at[1]}"
            text = (
                f"{seen.actor} appended the batch of producer {fact.producer_id}, epoch {fact.producer_epoch}, "
                f"sequence {fact.sequence} to {name} at {fact.base_offset}; it was appended at {before.first} before"
            )
            found = Occurrence(Anomaly.DUPLICATE, seen.at_us, name, fact.base_offset, last, seen.actor, why, text)
            self.found.append(found)
        batches[key] = _Batch(fact.base_offset, last, term, False)

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        at = (fact.topic, fact.partition)
        term = self._written_in.get(at, {}).get(fact.base_offset)
        if term is None:
            term = max(self._panel.logs.of(at).records.term_at(fact.base_offset), FIRST_TERM)
        ack = _Ack(fact.base_offset, fact.base_offset + fact.count, term, seen.at_us)
        self._acks.setdefault(at, []).append(ack)

    def _deleted(self, seen: Seen, fact: LogStartMoved) -> None:
        """What nobody of a group had come to yet is deleted in the open."""
        at = (fact.topic, fact.partition)
        if self._panel.logs.of(at).is_led_by(seen.actor):
            for reading in self._readings.get(at, {}).values():
                reading.deleted.add(reading.account.done.end, fact.start_offset)

    def _node_written(self, seen: Seen, fact: NodeWritten) -> None:
        at, panel = self._panel.written, self._panel
        if at is None:
            return
        if at not in panel.states:
            for of_partition in (self._readings, self._written_in, self._acks, self._batches):
                of_partition.pop(at, None)
            for (_, where), reader in self._readers.items():
                if where == at:
                    reader.why = RECREATED
                    reader.position = None
            return
        before = panel.state_before
        if before is not None and panel.was_elected and not set(panel.states[at].isr) <= set(before.isr):
            batches = self._batches.get(at, {})
            for key, batch in batches.items():
                batches[key] = batch._replace(unclean=True)

    def _was_healed(self, seen: Seen, fact: Healed) -> None:
        self._healed_us = seen.at_us

    # --- the end -----------------------------------------------------------------------------------------------

    def finish(self, at_us: int, losses: Iterable[Loss] = ()) -> tuple[Occurrence, ...]:
        """The run is over: all anomalies, in the order of time. ``losses``: what Kafka's rules let go."""
        gone: dict[str, list[Loss]] = {}
        for loss in losses:
            gone.setdefault(loss.partition, []).append(loss)
        for at, acks in self._acks.items():
            name = f"{at[0]}-{at[1]}"
            lost_to = [(loss.first, loss.last + 1, f"expected loss: {loss.why}") for loss in gone.get(name, ())]
            self._of_partition(at, acks, lost_to, at_us)
        self.found.sort(key=lambda each: (each.at_us, each.partition, each.first, each.anomaly, each.who))
        return tuple(self.found)

    def _of_partition(
        self, at: TopicPartition, acks: list[_Ack], lost_to: list[tuple[int, int, str]], ended_us: int
    ) -> None:
        readings, log = self._readings.get(at, {}), self._panel.logs.of(at)
        for ack in _joined(acks):
            unseen: list[Run] = [(ack.first, ack.last, ack.term)]
            for group, reading in readings.items():
                unseen = reading.account.done.lacking(unseen)
                past, begins = reading.past(ack.term), self._begins(group, reading, at)
                there = log.still_has(ack.first, ack.last, ack.term)
                excuses = reading.excuses(ack.term)
                excuses += [*lost_to, (begins, max(begins, there), STILL_TO_READ)]
                for first, last, _ in reading.account.done.lacking([(ack.first, ack.last, ack.term)]):
                    if first < (last := min(last, past)):
                        self._tell(Anomaly.LOST_WRITE, at, group, ack, (first, last), excuses)
            past = max([reading.past(ack.term) for reading in readings.values()], default=0)
            if left := [(max(first, past), last) for first, last, _ in unseen if last > past]:
                self._tell_unseen(at, ack, left, lost_to, ended_us)

    def _tell_unseen(
        self,
        at: TopicPartition,
        ack: _Ack,
        unseen: list[tuple[int, int]],
        lost_to: list[tuple[int, int, str]],
        ended_us: int,
    ) -> None:
        readings, log = self._readings.get(at, {}), self._panel.logs.of(at)
        there = log.still_has(ack.first, ack.last, ack.term)
        excuses = [excuse for each in readings.values() for excuse in each.excuses(ack.term)]
        excuses += [*lost_to, (0, log.records.start, TRIMMED)]
        if not readings:
            excuses.append((ack.first, there, NOBODY_READS))
        elif not self._idle(at, ended_us):
            excuses.append((ack.first, there, STILL_TO_READ))
        for piece in unseen:
            self._tell(Anomaly.UNSEEN, at, "", ack, piece, excuses)

    def _idle(self, at: TopicPartition, ended_us: int) -> bool:
        """Whether nobody would have read on: the run was healed, and no group of its reads anything any more."""
        groups = self._readings[at]
        polled = [each.polled_us for all_of in self._readings.values() for g, each in all_of.items() if g in groups]
        return self._healed_us is not None and max(self._healed_us, *polled, 0) < ended_us - IDLE_US

    def _begins(self, group: GroupId, reading: _Reading, at: TopicPartition) -> int:
        """Where the group goes on: at the first position of a member that owns it, or else what is committed."""
        panel = self._panel
        if panel.ranges.uses(group):
            return panel.ranges.of(group, at).committed or 0
        held = [
            held.offset
            for actor, held in reading.account.held.items()
            if held.offset >= 0
            and (holding := panel.holdings.get(actor)) is not None
            and at in holding.owned
            and not holding.has_left
            and (host := panel.hosts.get(host_of(actor))) is not None
            and host.runs
        ]
        return min(held) if held else reading.account.committed_in_log

    def _tell(
        self,
        anomaly: Anomaly,
        at: TopicPartition,
        group: GroupId,
        ack: _Ack,
        piece: tuple[int, int],
        excuses: list[tuple[int, int, str]],
    ) -> None:
        """These records, cut by what explains them."""
        name = f"{at[0]}-{at[1]}"
        for first, last, why in sorted(_explained(piece, excuses)):
            acked_us = next((one.at_us for one in self._acks[at] if one.first <= first < one.last), ack.at_us)
            which = f"records {first} to {last - 1} of {name} (leader epoch {ack.term[0]})"
            text = f"{which} were acknowledged and nobody had read them when the run was over"
            if anomaly is Anomaly.LOST_WRITE:
                text = f"{which} were acknowledged; group {group} read past them and never read them"
            self.found.append(Occurrence(anomaly, acked_us, name, first, last - 1, group, why, text))


def _joined(acks: list[_Ack]) -> list[_Ack]:
    """The same records in as few pieces as they make, by epoch; the time is that of the first of each."""
    joined: list[_Ack] = []
    for ack in sorted(acks, key=lambda each: (each.term, each.first, each.at_us)):
        if joined and joined[-1].term == ack.term and ack.first <= joined[-1].last:
            joined[-1] = joined[-1]._replace(last=max(joined[-1].last, ack.last))
        else:
            joined.append(ack)
    return joined


def _explained(piece: tuple[int, int], excuses: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """These offsets, cut by the first excuse that covers each; "" where none does."""
    left = Ranges()
    left.add(*piece)
    for first, last, why in excuses:
        yield from ((*part, why) for part in left.remove(first, last))
    yield from ((*part, "") for part in left)


def counted(found: Iterable[Occurrence]) -> Mapping[Anomaly, Mapping[str, tuple[int, int]]]:
    """Anomaly -> what explains it ("" = nothing) -> (how often, how many records)."""
    counts: dict[Anomaly, dict[str, tuple[int, int]]] = {}
    for each in found:
        row = counts.setdefault(each.anomaly, {})
        times, records = row.get(each.explained, (0, 0))
        row[each.explained] = (times + 1, records + each.records)
    return counts
