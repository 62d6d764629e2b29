"""The history of a run as clients saw it: anomalies by the names of Jepsen's Kafka tests, with their explanations.

The names are those of ``jepsen.tests.kafka`` (lost write, unseen, poll skip, internal poll skip, nonmonotonic poll,
internal nonmonotonic poll, duplicate). ``History`` reads the facts of a live run or of a trace, after the panel. A run
without a ``History`` pays nothing.

A *poll* is one unit of finished work: the records of one partition (``Processed``, ``RangeProcessed``). Records whose
processing a crash interrupted are not polled records. Units that a member finished in one step belong to one poll
(*internal*); where processing takes time, each unit is a poll. Readers without a group report no positions, so the
history omits these readers.

A record is identified by its offset and its leader epoch. Each group must read every record, so a lost write is lost
for one group. ``EXPLANATIONS`` lists the facts that explain an anomaly. Kafka's allowed losses explain anomalies, too
(``emulator.findings``). A record that a group processes twice is at-least-once delivery and no anomaly; the figure
``reprocessed`` counts such records.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

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
from kemu.protocol.frozen import frozen
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
"""A group has stopped reading if it makes no progress for this time until the end of a healed run, in us."""


class Anomaly(StrEnum):
    """The anomalies, with the names of Jepsen's Kafka tests."""

    LOST_WRITE = "lost write"
    """An acknowledged record that a group read past and never read."""
    UNSEEN = "unseen"
    """An acknowledged record that no group had read, or read past, at the end of the run."""
    POLL_SKIP = "poll skip"
    """A member continued after records that it had not polled."""
    INTERNAL_POLL_SKIP = "internal poll skip"
    """A poll skip within one poll."""
    NONMONOTONIC_POLL = "nonmonotonic poll"
    """A member polled records again that it had polled before."""
    INTERNAL_NONMONOTONIC_POLL = "internal nonmonotonic poll"
    """A nonmonotonic poll within one poll."""
    DUPLICATE = "duplicate"
    """A batch of an idempotent producer that is at two offsets of a log. Batches of other producers have no
    identity."""


REBALANCE = "rebalance"
BY_HAND = "assigned by hand"
TRUNCATION = "truncation"
SECOND_READER = "second consumer"
UNCLEAN_ELECTION = "unclean election"
STILL_TO_READ = "still to be read"
NO_READER = "no reader"

EXPLANATIONS: Mapping[str, str] = MappingProxyType(
    {
        REBALANCE: "the partition was assigned, revoked or lost in between",
        BY_HAND: "the member has manually assigned partitions and restarted",
        SOUGHT: "the application chose the position",
        RESET: "the member had no valid position (auto.offset.reset)",
        TRUNCATION: "the log lost its end, and a leader reported the loss to the member (KIP-320)",
        SECOND_READER: "the second consumer processes the records in between (KIP-333)",
        TRIMMED: "retention or DeleteRecords deleted the records before the group read them",
        RECREATED: "the topic was deleted, and the group reads a new topic of the same name",
        OPERATOR: "an offset was committed from outside the group",
        BEGAN: "the group had committed an offset after these records before the group read any record",
        UNCLEAN_ELECTION: "a replica outside the ISR was elected in between, and no leader knows the lost batches",
        STILL_TO_READ: "the next reader begins before these records: the run ended too early",
        NO_READER: "no group reads the partition",
        **{f"expected loss: {why}": text for why, text in LOSS_REASONS.items()},
    }
)
"""Explanation of an anomaly -> its description."""


@frozen
class Occurrence:
    """An anomaly of the records ``first .. last`` of a partition. For a nonmonotonic poll, the records are those that
    were polled again.

    ``explained``: a key of ``EXPLANATIONS``; "" for an unexplained anomaly. ``who``: the member, group or broker with
    the anomaly.
    ``at_us``: time of the poll, the acknowledgement, or the second append.
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
        """Number of records of the anomaly."""
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
    """Whether an unclean election followed the batch."""


class _Reader:
    """One life of one reader on one partition."""

    __slots__ = ("life", "polled_seq", "polled_to", "position", "why")

    def __init__(self, life: int) -> None:
        self.life = life
        self.polled_to: int | None = None
        """The offset after the last polled record; None before the first poll."""
        self.polled_seq = -1
        """Number of the step in which the reader last polled; -1 before the first poll."""
        self.position: int | None = None
        """The position that the reader set after the last poll; None without such a position."""
        self.why = ""
        """The explanation for which the reader may continue at another offset than ``polled_to``, or ""."""


class _Reading:
    """The reading of one group on one partition."""

    __slots__ = ("account", "deleted", "polled_us")

    def __init__(self, account: GroupProgress) -> None:
        self.account = account
        self.deleted = Ranges()
        """Unread records that were deleted."""
        self.polled_us = 0

    def explanations(self, term: Term) -> list[tuple[int, int, str]]:
        """Explanations for unread records of a term: (first, last + 1, explanation)."""
        skipped = self.account.skipped.items()
        found = [(*piece, why) for why, records in skipped for piece in records.of(term)]
        return [*[(*piece, TRIMMED) for piece in self.deleted], *found]

    def read_to(self, term: Term) -> int:
        """The offset after the last record of this term, or of a later term, that the group read."""
        read = self.account.done.by_term.items()
        written = [ranges for writer, ranges in read if writer >= term or writer == ANY]
        return max((last for ranges in written for _, last in ranges), default=0)


class History:
    """Finds the anomalies of a run. Call ``see`` with every fact in order, after the panel has taken the fact. Call
    ``finish`` at the end of the run.
    """

    def __init__(self, panel: Panel) -> None:
        self.found: list[Occurrence] = []
        self._panel = panel
        self._readers: dict[tuple[ActorName, TopicPartition], _Reader] = {}
        self._readings: dict[TopicPartition, dict[GroupId, _Reading]] = {}
        self._written_in: dict[TopicPartition, dict[int, Term]] = {}
        """First offset of a batch -> the term that last appended it."""
        self._acks: dict[TopicPartition, list[_Ack]] = {}
        self._batches: dict[TopicPartition, dict[tuple[int, int, int], _Batch]] = {}
        self._healed_us: int | None = None
        self._on: dict[type, Handler] = {
            Processed: self._processed,
            RangeProcessed: self._processed,
            PositionSet: self._positioned,
            RangePositionSet: self._positioned_in_range,
            PartitionsAssigned: lambda seen, fact: self._owner_changed(seen, fact.added),
            PartitionsRevoked: lambda seen, fact: self._owner_changed(seen, fact.revoked),
            PartitionsLost: lambda seen, fact: self._owner_changed(seen, fact.lost),
            ChildConsumerStarted: lambda seen, fact: self._new_reader(part_on(seen.actor, SECOND)),
            ThreadReplaced: lambda seen, fact: self._new_reader(part_on(fact.instance, fact.thread)),
            RecordsAppended: self._appended,
            RecordsAcknowledged: self._acknowledged,
            LogStartMoved: self._deleted,
            NodeWritten: self._node_written,
            Healed: self._healed,
        }

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a type (``facts.handlers_of``)."""
        handler = self._on.get(kind)
        return () if handler is None else (handler,)

    def see(self, seen: Seen) -> None:
        """Look for anomalies in this fact."""
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
        """Report a poll that began at offset ``found`` instead of ``due``."""
        name = f"{at[0]}-{at[1]}"
        if found < due:
            kind = Anomaly.INTERNAL_NONMONOTONIC_POLL if inside else Anomaly.NONMONOTONIC_POLL
            text = f"{who} went back in {name} from {due} to {found}"
            self.found.append(Occurrence(kind, seen.at_us, name, found, due - 1, who, why, text))
        elif found > due:
            kind = Anomaly.INTERNAL_POLL_SKIP if inside else Anomaly.POLL_SKIP
            log = self._panel.logs.of(at).records
            kept_to = min(max(due, log.start), found)
            for first, last, reason in self._parts(who, at, due, kept_to, min(found, log.end), why):
                if first < last:
                    text = f"{who} continued in {name} at {found} instead of {due}"
                    self.found.append(Occurrence(kind, seen.at_us, name, first, last - 1, who, reason, text))

    def _parts(
        self, who: str, at: TopicPartition, first: int, kept_to: int, last: int, why: str
    ) -> Iterable[tuple[int, int, str]]:
        """The skipped records by explanation: deleted records, and records outside the second consumer's ranges."""
        yield first, kept_to, why or TRIMMED
        if why or not who.endswith(f"/{SECOND}"):
            yield kept_to, last, why
            return
        group = self._panel.ranges.members.get(who.removesuffix(f"/{SECOND}"), "")
        open_ranges = [(each.start, each.end, "") for each in self._panel.ranges.of(group, at).open_ranges]
        yield from _explained((kept_to, last), [*open_ranges, (kept_to, last, SECOND_READER)])

    def _owner_changed(self, seen: Seen, partitions: tuple[TopicPartition, ...]) -> None:
        """Note that a rebalance assigned or revoked these partitions of a member and its second consumer."""
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
            if second is not None and fact.why == TRUNCATED:  # the second consumer's ranges end at the end of the log
                second.position, second.why = None, TRUNCATION
        self._reading(fact.group, at)

    def _positioned_in_range(self, seen: Seen, fact: RangePositionSet) -> None:
        reader = self._reader(seen.actor, seen.life, (fact.topic, fact.partition))
        reader.position, reader.why = fact.offset, SECOND_READER

    def _new_reader(self, actor: ActorName) -> None:
        """Forget the polls of the former reader with this name."""
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
            kept_to = log.records.term_at(before.first) == before.term
            why = TRUNCATION if not kept_to else UNCLEAN_ELECTION if before.unclean else ""
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
        """Note deleted records that a group had not read yet."""
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

    def _healed(self, seen: Seen, fact: Healed) -> None:
        self._healed_us = seen.at_us

    # --- the end -----------------------------------------------------------------------------------------------

    def finish(self, at_us: int, losses: Iterable[Loss] = ()) -> tuple[Occurrence, ...]:
        """End the run and return all anomalies by time. ``losses``: records that Kafka may lose."""
        losses_of: dict[str, list[Loss]] = {}
        for loss in losses:
            losses_of.setdefault(loss.partition, []).append(loss)
        for at, acks in self._acks.items():
            name = f"{at[0]}-{at[1]}"
            allowed_losses = [
                (loss.first, loss.last + 1, f"expected loss: {loss.why}") for loss in losses_of.get(name, ())
            ]
            self._of_partition(at, acks, allowed_losses, at_us)
        self.found.sort(key=lambda each: (each.at_us, each.partition, each.first, each.anomaly, each.who))
        return tuple(self.found)

    def _of_partition(
        self, at: TopicPartition, acks: list[_Ack], allowed_losses: list[tuple[int, int, str]], ended_us: int
    ) -> None:
        readings, log = self._readings.get(at, {}), self._panel.logs.of(at)
        for ack in _joined(acks):
            unseen: list[Run] = [(ack.first, ack.last, ack.term)]
            for group, reading in readings.items():
                unseen = reading.account.done.lacking(unseen)
                read_to, begins = reading.read_to(ack.term), self._begins(group, reading, at)
                kept_to = log.still_has(ack.first, ack.last, ack.term)
                explanations = reading.explanations(ack.term)
                explanations += [*allowed_losses, (begins, max(begins, kept_to), STILL_TO_READ)]
                for first, last, _ in reading.account.done.lacking([(ack.first, ack.last, ack.term)]):
                    if first < (last := min(last, read_to)):
                        self._report(Anomaly.LOST_WRITE, at, group, ack, (first, last), explanations)
            read_to = max([reading.read_to(ack.term) for reading in readings.values()], default=0)
            if left := [(max(first, read_to), last) for first, last, _ in unseen if last > read_to]:
                self._report_unseen(at, ack, left, allowed_losses, ended_us)

    def _report_unseen(
        self,
        at: TopicPartition,
        ack: _Ack,
        unseen: list[tuple[int, int]],
        allowed_losses: list[tuple[int, int, str]],
        ended_us: int,
    ) -> None:
        readings, log = self._readings.get(at, {}), self._panel.logs.of(at)
        kept_to = log.still_has(ack.first, ack.last, ack.term)
        explanations = [excuse for each in readings.values() for excuse in each.explanations(ack.term)]
        explanations += [*allowed_losses, (0, log.records.start, TRIMMED)]
        if not readings:
            explanations.append((ack.first, kept_to, NO_READER))
        elif not self._idle(at, ended_us):
            explanations.append((ack.first, kept_to, STILL_TO_READ))
        for piece in unseen:
            self._report(Anomaly.UNSEEN, at, "", ack, piece, explanations)

    def _idle(self, at: TopicPartition, ended_us: int) -> bool:
        """Whether reading had ended: the run was healed, and no group has read the partition for ``IDLE_US``."""
        groups = self._readings[at]
        polled = [each.polled_us for all_of in self._readings.values() for g, each in all_of.items() if g in groups]
        return self._healed_us is not None and max(self._healed_us, *polled, 0) < ended_us - IDLE_US

    def _begins(self, group: GroupId, reading: _Reading, at: TopicPartition) -> int:
        """The group's next offset: the lowest position of the partition's owners, or the committed offset if the
        partition has no owner.
        """
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

    def _report(
        self,
        anomaly: Anomaly,
        at: TopicPartition,
        group: GroupId,
        ack: _Ack,
        piece: tuple[int, int],
        explanations: list[tuple[int, int, str]],
    ) -> None:
        """Report these records, divided by their explanations."""
        name = f"{at[0]}-{at[1]}"
        for first, last, why in sorted(_explained(piece, explanations)):
            acked_us = next((one.at_us for one in self._acks[at] if one.first <= first < one.last), ack.at_us)
            which = f"records {first} to {last - 1} of {name} (leader epoch {ack.term[0]})"
            text = f"{which} were acknowledged, and no group had read them at the end of the run"
            if anomaly is Anomaly.LOST_WRITE:
                text = f"{which} were acknowledged; group {group} read past them and never read them"
            self.found.append(Occurrence(anomaly, acked_us, name, first, last - 1, group, why, text))


def _joined(acks: list[_Ack]) -> list[_Ack]:
    """Merge adjacent acknowledgements of one leader epoch. The result has the time of the first acknowledgement."""
    joined: list[_Ack] = []
    for ack in sorted(acks, key=lambda each: (each.term, each.first, each.at_us)):
        if joined and joined[-1].term == ack.term and ack.first <= joined[-1].last:
            joined[-1] = joined[-1]._replace(last=max(joined[-1].last, ack.last))
        else:
            joined.append(ack)
    return joined


def _explained(piece: tuple[int, int], explanations: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Divide these offsets by the first explanation that covers an offset; "" for unexplained offsets."""
    left = Ranges()
    left.add(*piece)
    for first, last, why in explanations:
        yield from ((*part, why) for part in left.remove(first, last))
    yield from ((*part, "") for part in left)


def counted(found: Iterable[Occurrence]) -> Mapping[Anomaly, Mapping[str, tuple[int, int]]]:
    """Anomaly -> explanation ("" for none) -> (occurrences, records)."""
    counts: dict[Anomaly, dict[str, tuple[int, int]]] = {}
    for each in found:
        row = counts.setdefault(each.anomaly, {})
        times, records = row.get(each.explained, (0, 0))
        row[each.explained] = (times + 1, records + each.records)
    return counts
