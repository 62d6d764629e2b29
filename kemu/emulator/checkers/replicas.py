"""Every leader has the committed records, and every reader finds the same committed records.

Committed records are one chain of runs: all records that were below a leader's high watermark. Each copy is compared
with this chain.

- isr-without-committed: a member of the store's ISR has every committed
  record.
- committed-lost, unclean-forbidden: a new leader has every committed record, and was in the ISR unless unclean
  elections are allowed.
- acknowledged-uncommitted: records acknowledged with acks=all are
  committed.
- logs-differ, cut-too-much, start-behind: a follower appends after its
  leader's records, truncates none of them, and deletes the records that its
  leader deleted.
- watermark-back: a high watermark does not decrease within its epoch.
- read-uncommitted, another-record: readers find only committed records, and always the same record at an offset.
- failed-log-dir: a replica in a failed log directory has no role (KIP-112).
- append-gap: a log continues at its end.

Allowed losses have a reason in ``findings.LOSS_REASONS``.

Source: Kafka 3.4 ``Partition``, ``ReplicaManager``; KIP-101, KIP-966.
"""

from collections.abc import Sequence
from typing import Self

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.replica_truth import PartitionTruth
from kemu.emulator.facts import HostDown, PartitionsFilled, Seen, TopicFilled, TopicReplicated, each_of
from kemu.emulator.findings import DIVERGED, LEADER_ONLY, UNCLEAN, Loss
from kemu.emulator.watching.epoch_log import FIRST_TERM, EpochLog, Run, minus
from kemu.emulator.watching.logs import reader_of
from kemu.emulator.watching.settings import Settings
from kemu.protocol.dynamic_configs import UNCLEAN_ELECTION_ENABLE
from kemu.protocol.names import TopicPartition, broker_host
from kemu.protocol.nodes import BROKER_DEFAULTS, TOPIC_CONFIGS, PartitionState, read_config
from kemu.protocol.notes.groups import (
    OffsetCommitted,
    Processed,
    ProducerStarted,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.ranges import RangeProcessed
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    HighWatermarkAdvanced,
    LogDirFailed,
    LogStartMoved,
    NodeWritten,
    RecordsReplicated,
    ReplicaStopped,
    Truncated,
    UncleanElectionAsked,
)

STARTS_LATE_US = 10_000_000
"""Longest time for a follower to delete the records that its leader deleted, in us; each fetch answer has the log
start."""


class Replicas(Checker):
    """Judges replicated logs, elections and readers."""

    name = "replicas"
    kinds = (
        "acknowledged-uncommitted",
        "another-record",
        "append-gap",
        "committed-lost",
        "cut-too-much",
        "failed-log-dir",
        "isr-without-committed",
        "logs-differ",
        "read-uncommitted",
        "start-behind",
        "unclean-forbidden",
        "watermark-back",
    )

    def __init__(self) -> None:
        super().__init__()
        self._partitions: dict[TopicPartition, PartitionTruth] = {}
        self._former: dict[TopicPartition, EpochLog] = {}
        """Committed records of deleted topics. A broker that does not know of the deletion may add to these records."""
        self._watermarks: dict[tuple[str, TopicPartition], int] = {}
        """(leader, partition) -> last high watermark in the leader's epoch."""
        self._unclean: dict[str, bool] = {}
        """Topic with its own setting -> whether unclean elections are allowed."""
        self._unclean_by_default = False
        """Whether the brokers' setting was changed to allow unclean elections."""
        self._requested: dict[TopicPartition, None] = {}
        """Partitions for which an admin requested an unclean election, until the next written state."""
        self._weak_acks: dict[str, None] = {}
        """Producers with acks other than all."""
        self._offline: dict[str, dict[TopicPartition, None]] = {}
        """Host -> replicas in the host's failed log directories, in this life."""
        self.on = {
            BecameLeader: self._led,
            BecameFollower: self._followed,
            RecordsAppended: self._appended,
            RecordsReplicated: self._replicated,
            Truncated: self._truncated,
            LogStartMoved: self._start_moved,
            HighWatermarkAdvanced: self._advanced,
            RecordsAcknowledged: self._acknowledged,
            OffsetCommitted: each_of(self._offsets_committed),
            LogDirFailed: self._dir_failed,
            ReplicaStopped: self._stopped,
            NodeWritten: self._written,
            HostDown: self._down,
            TopicReplicated: self._topic,
            TopicFilled: self._filled,
            PartitionsFilled: self._filled,
            UncleanElectionAsked: self._unclean_requested,
            ProducerStarted: self._produces,
            Processed: self._processed,
            RangeProcessed: self._processed,
        }

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls() if settings.replicated else cls().at_rest()

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        if fact.unclean:
            self._unclean[fact.topic] = True

    def _filled(self, seen: Seen, fact: TopicFilled | PartitionsFilled) -> None:
        for number, count in enumerate(fact.by_partition):
            if count:
                self._truth((fact.topic, number)).committed.append(0, count, FIRST_TERM)

    def _unclean_requested(self, seen: Seen, fact: UncleanElectionAsked) -> None:
        self._requested.update(dict.fromkeys((fact.topic, number) for number in fact.partitions))

    def _truth(self, at: TopicPartition) -> PartitionTruth:
        truth = self._partitions.get(at)
        if truth is None:
            truth = self._partitions[at] = PartitionTruth(self._former.get(at))
        return truth

    def _log(self, host: str, at: TopicPartition) -> EpochLog:
        return self.panel.copies.on_host(host, at).log

    # --- logs --------------------------------------------------------------------------------------------------

    def _takes_part(
        self, seen: Seen, fact: BecameLeader | BecameFollower | RecordsAppended | RecordsReplicated
    ) -> bool:
        """Judge failed directories and gaps. Return False if the action concerns the log of a deleted topic."""
        at, name = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}"
        if at in self._offline.get(seen.actor, ()):
            text = f"{seen.actor} has a role in {name}, whose log is in a failed directory"
            self.violation(seen, "failed-log-dir", (name, seen.actor), text)
        gap = self.panel.copies.on_host(seen.actor, at).gap
        if gap is not None and not isinstance(fact, BecameFollower):
            where = fact.end_offset if isinstance(fact, BecameLeader) else fact.base_offset
            text = f"{seen.actor} continues {name} at {where}; by its disk and its writes the log ends at {gap}"
            self.violation(seen, "append-gap", (name, seen.actor), text)
        return not self.panel.former.has(seen.actor, at)

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        if (fact.topic, fact.partition) in self._partitions:  # otherwise no other broker replicates the log
            self._takes_part(seen, fact)

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        if self._takes_part(seen, fact):
            self._truth((fact.topic, fact.partition)).member(seen.actor).epoch = fact.leader_epoch

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        if fact.deleted:
            self._truth((fact.topic, fact.partition)).members.pop(seen.actor, None)

    def _dir_failed(self, seen: Seen, fact: LogDirFailed) -> None:
        self._offline.setdefault(seen.actor, {}).update(dict.fromkeys(fact.partitions))

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._offline.pop(fact.host, None)

    def _replicated(self, seen: Seen, fact: RecordsReplicated) -> None:
        """Judge the record before a replicated batch."""
        at, before = (fact.topic, fact.partition), fact.base_offset - 1
        if not self._takes_part(seen, fact):
            return
        copy, log = self.panel.copies.on_host(seen.actor, at), self._leaders_log(seen.actor, at)
        if log is None or not max(copy.log.start, log.start) <= before < log.end:
            return  # one of the two brokers no longer has the record
        ours, theirs = copy.log.term_at(before), log.term_at(before)
        if ours != theirs and not self.panel.copies.may_differ(at, before, ours, theirs):
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} continues {name} after offset {before}, which it has from epoch {ours[0]}, "
                f"its leader {copy.following} from epoch {theirs[0]}"
            )
            self.violation(seen, "logs-differ", (name, seen.actor, copy.following), text)

    def _leaders_log(self, host: str, at: TopicPartition) -> EpochLog | None:
        """The log that a follower replicates, if its leader has a role in the same leader epoch."""
        members, leader = self._truth(at).members, self.panel.copies.on_host(host, at).following
        same = leader in members and host in members and members[leader].epoch == members[host].epoch
        return self._log(leader, at) if same else None

    def _truncated(self, seen: Seen, fact: Truncated) -> None:
        """Judge a truncation. Without any epoch a follower truncates to its high watermark
        (``AbstractFetcherThread.truncateToHighWatermark`` 3.4).
        """
        at, name = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}"
        log = self._leaders_log(seen.actor, at)
        if log is None or fact.why == "high-watermark" or self.panel.former.has(seen.actor, at):
            return
        truncated = self.panel.copies.on_host(seen.actor, at).truncated
        needless = minus(truncated, minus(truncated, log.runs_from(0)))
        if needless:
            text = f"{seen.actor} truncates its log of {name} to {fact.end_offset}; its leader has"
            self.violation(seen, "cut-too-much", (name, seen.actor), f"{text} record {needless[0][0]}, too")

    def finish(self, at_us: int) -> None:
        """Judge whether in-sync replicas deleted the records that their leader deleted."""
        for at, leader in self.panel.leaders.items():
            copy = self.panel.copies.on_host(leader, at)
            for host in map(broker_host, self.panel.states[at].isr):
                start, able_us = self._log(host, at).start, self.panel.disturbances.undisturbed_since_us((leader, host))
                if start >= copy.log.start or able_us is None or self.panel.now is None:
                    continue
                if at_us - max(able_us, copy.start_us) > STARTS_LATE_US and self.panel.runs(host):
                    name, seen = f"{at[0]}-{at[1]}", self.panel.now._replace(at_us=at_us)
                    text = f"{host} has {name} from {start} on, its leader {leader} from {copy.log.start} on"
                    self.violation(seen, "start-behind", (name, host), text, liveness=True)

    # --- missing records -------------------------------------------------------------------------------------------

    def _reasons(
        self, at: TopicPartition, truth: PartitionTruth, host: str, missing: list[Run]
    ) -> tuple[list[tuple[Run, str]], list[Run]]:
        """Explain missing committed records: runs with a reason in LOSS_REASONS, and runs without a reason."""
        copies, reasons, rest = self.panel.copies, [], missing
        copy, settled = copies.on_host(host, at), truth.members[host].settled if host in truth.members else []
        lost = [(run, why) for run, why in copy.lost if run not in settled]
        if truth.unclean_epoch >= 0:
            lost = [*[(run, UNCLEAN) for run in truth.unclean_lacks], *lost]
        if missing:
            lost += [
                ((max(first, begin), min(last, end), term), DIVERGED)
                for begin, end, term in missing
                for first, last, other in copy.log.runs_from(begin)
                if first < end and copies.may_differ(at, max(first, begin), term, other)
            ]
        for run, why in lost:
            left = minus(rest, [run])
            reasons += [(piece, why) for piece in minus(rest, left)]
            rest = left
        return reasons, rest

    def _check_in_sync(self, seen: Seen, at: TopicPartition, truth: PartitionTruth, host: str) -> bool:
        """Judge a member of the ISR. Return whether the member has every committed record."""
        missing = truth.not_deleted(truth.committed.without(self._log(host, at)))
        unexcused = self._reasons(at, truth, host, missing)[1]
        if unexcused:
            name = f"{at[0]}-{at[1]}"
            text = f"{host} is in the ISR of {name} without records {unexcused[0][0]} to {unexcused[-1][1] - 1}"
            self.violation(seen, "isr-without-committed", (name, host), f"{text}, which are committed")
        return not missing

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        """Note that a leader deleted records, by retention or by an admin's request (KIP-107)."""
        at = (fact.topic, fact.partition)
        if self.panel.leaders.get(at) == seen.actor:
            truth = self._truth(at)
            truth.deleted_below = max(truth.deleted_below, fact.start_offset)

    # --- leaders -----------------------------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        """Judge a new leader."""
        at, name = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}"
        self._watermarks[seen.actor, at] = fact.high_watermark
        if not self._takes_part(seen, fact):
            return
        truth, log = self._truth(at), self._log(seen.actor, at)
        truth.member(seen.actor).epoch = fact.leader_epoch
        if fact.leader_epoch < max(truth.committed_epoch, truth.unclean_epoch):
            return  # the leader is deposed already
        missing = truth.committed.without(log)
        if missing:
            reasons, unexcused = self._reasons(at, truth, seen.actor, truth.not_deleted(missing))
            self._report_losses(seen, name, reasons)
            truth.lose(missing)
            if reasons:
                truth.led_with_losses(missing[0][0], fact.leader_epoch)
            if unexcused:
                text = (
                    f"{seen.actor} leads {name} in epoch {fact.leader_epoch} without records {unexcused[0][0]} to "
                    f"{unexcused[-1][1] - 1}, which were committed"
                )
                self.violation(seen, "committed-lost", (name, seen.actor), text)
            truth.continue_with(log, missing)
        for first, last, _ in truth.lost_by_leader_only(log):
            self.losses.append(Loss(seen.at_us, name, first, last - 1, LEADER_ONLY))
        truth.unclean_epoch = -1

    def _report_losses(self, seen: Seen, name: str, reasons: list[tuple[Run, str]]) -> None:
        joined: list[tuple[int, int, str]] = []
        for (first, last, _), why in sorted(reasons):
            if joined and joined[-1][1:] == (first, why):
                first = joined.pop()[0]
            joined.append((first, last, why))
        self.losses += [Loss(seen.at_us, name, first, last - 1, why) for first, last, why in joined]

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        """Judge a high watermark, its records and the ISR."""
        at, name, watermark = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}", fact.high_watermark
        is_former, log = self.panel.former.has(seen.actor, at), self._log(seen.actor, at)
        state = None if is_former else self.panel.states.get(at)
        truth = PartitionTruth() if is_former else self._truth(at)
        is_deposed = state is not None and fact.leader_epoch < state.leader_epoch
        if is_deposed and truth.deposed_from(fact.leader_epoch) <= log.end:
            # An election with losses deposed this leader, so records of this leader alone are lost already.
            shown = [(first, min(last, watermark), term) for first, last, term in log.runs_from(0)]
            truth.lose([run for run in shown if run[0] < run[1] and truth.unknown(run)])
            return
        before = self._watermarks.get((seen.actor, at), -1)
        if watermark < before:
            text = f"{seen.actor}'s high watermark of {name} went back from {before} to {watermark}"
            self.violation(seen, "watermark-back", (name, seen.actor), text)
        self._watermarks[seen.actor, at] = watermark
        committed = self._former.setdefault(at, EpochLog()) if is_former else truth.committed
        same = committed.same_until(log)
        if same < min(committed.end, watermark) and not is_former:
            ours, theirs = log.term_at(same)[0], committed.term_at(same)[0]
            text = f"{seen.actor} shows record {same} of {name} from epoch {ours}; readers had it from epoch {theirs}"
            self.violation(seen, "another-record", (name, seen.actor), text)
            committed.truncate(same)
        if watermark > committed.end:
            committed.grow_from(log, watermark)
        truth.committed_epoch = max(truth.committed_epoch, fact.leader_epoch)
        if state is None or fact.leader_epoch < max([member.epoch for member in truth.members.values()], default=-1):
            return  # a deposed leader does not know the store's ISR
        if committed.end < watermark:
            text = f"{seen.actor}'s high watermark of {name} is {watermark}, but its log ends at {log.end}"
            self.violation(seen, "isr-without-committed", (name, seen.actor), text)
        for host in map(broker_host, state.isr):
            if self._log(host, at).end < watermark:
                self._check_in_sync(seen, at, truth, host)

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at, settings = self.panel.written, fact.what != "deleted"
        if at is None:
            if fact.path.startswith(TOPIC_CONFIGS + "/") and settings:
                self._configured(fact.path.rpartition("/")[2], read_config(fact.data).get(UNCLEAN_ELECTION_ENABLE, ""))
            elif fact.path == BROKER_DEFAULTS and settings:
                self._unclean_by_default = read_config(fact.data).get(UNCLEAN_ELECTION_ENABLE) == "true"
        elif fact.what == "deleted":
            if at in self._partitions:
                self._former[at] = self._partitions.pop(at).committed  # readers of the deleted topic may still work
        else:
            self._state_written(seen, fact.client, at, self.panel.states[at], self.panel.state_before)
            self._requested.pop(at, None)

    def _configured(self, topic: str, unclean: str) -> None:
        if unclean:
            self._unclean[topic] = unclean == "true"
        elif not self._unclean.get(topic):
            self._unclean.pop(topic, None)

    def _state_written(
        self, seen: Seen, client: str, at: TopicPartition, state: PartitionState, before: PartitionState | None
    ) -> None:
        truth = self._truth(at)
        if before is not None and self.panel.was_elected and not set(state.isr) <= set(before.isr):
            self._elected_uncleanly(seen, client, at, state, before.isr)
        elif truth.unclean_epoch < 0:
            stays = before.isr if before is not None and before.leader == state.leader else ()
            for node in state.isr:
                host = broker_host(node)
                has_all = host in truth.members and self._check_in_sync(seen, at, truth, host)
                if has_all and node not in stays:  # a former member stays in the ISR because of its earlier fetches
                    truth.member(host).settled = [run for run, _ in self.panel.copies.on_host(host, at).lost]

    def _elected_uncleanly(
        self, seen: Seen, client: str, at: TopicPartition, state: PartitionState, before: tuple[int, ...]
    ) -> None:
        """Judge an unclean election. A controller adds a member to an ISR only by an unclean election."""
        truth, leader = self._truth(at), broker_host(state.leader)
        if not self._unclean.get(at[0], self._unclean_by_default) and at not in self._requested:
            name = f"{at[0]}-{at[1]}"
            text = f"{client} made {leader} the leader of {name}, which was not in its ISR {before}; the topic forbids"
            self.violation(seen, "unclean-forbidden", (name, client), f"{text} unclean elections")
        log = self._log(leader, at)
        truth.unclean_epoch = state.leader_epoch
        truth.unclean_lacks = truth.committed.without(log)
        truth.led_with_losses(truth.committed.same_until(log), state.leader_epoch)

    # --- producers, coordinators and readers -------------------------------------------------------------------

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        if fact.acks == -1:
            self._weak_acks.pop(seen.actor, None)
        else:
            self._weak_acks[seen.actor] = None

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        at, end = (fact.topic, fact.partition), fact.base_offset + fact.count
        if seen.actor not in self._weak_acks:
            self._check_acknowledged(seen, at, fact.base_offset, end)
        elif (truth := self._partitions.get(at)) and not truth.may_be_acknowledged(fact.base_offset, end):
            truth.acknowledge_by_leader(fact.base_offset, end, [self._log(host, at) for host in truth.members])

    def _offsets_committed(self, seen: Seen, facts: Sequence[OffsetCommitted]) -> None:
        at = self.panel.log_of(seen.fact.group)
        if at is None:
            return
        for fact in facts:
            if fact.position >= 0:
                self._check_acknowledged(seen, at, fact.position, fact.position + 1)

    def _check_acknowledged(self, seen: Seen, at: TopicPartition, first: int, end: int) -> None:
        """Judge whether records that were acknowledged as replicated are committed."""
        truth = self._partitions.get(at)
        if truth is not None and truth.members and not truth.may_be_acknowledged(first, end):
            name, committed = f"{at[0]}-{at[1]}", truth.committed.end - 1
            text = f"{seen.actor} got records to {end - 1} of {name} acknowledged; committed are those to {committed}"
            self.violation(seen, "acknowledged-uncommitted", (name, seen.actor), text)

    def _processed(self, seen: Seen, fact: Processed | RangeProcessed) -> None:
        """Judge the records that a reader read."""
        at = (fact.topic, fact.partition)
        truth = self._partitions.get(at)
        if truth is None or not truth.members:
            return
        for run in self.panel.logs.reads.pieces(reader_of(seen), at, fact.first, fact.last):
            unknown = truth.unknown(run)
            if not unknown:
                continue
            name, committed, term = f"{at[0]}-{at[1]}", truth.committed, run[2]
            first, last = unknown[0][0], unknown[-1][1] - 1
            text = f"{seen.actor} read records {first} to {last} of {name} from epoch {term[0]}"
            there = committed.term_at(first)[0]
            known = f"the committed record there is of epoch {there}" if there not in (-1, term[0]) else ""
            known = known or f"of that epoch records to {committed.span_of(term)[1] - 1} are committed"
            self.violation(seen, "read-uncommitted", (name, seen.actor), f"{text}; {known}")
