"""Replicated logs: what was committed stays, every leader has it, and readers find one record at an offset.

A record is known by its offset and its term (``EpochLog``). Committed is one chain of runs of records: what a leader's
high watermark has passed. Each copy (``Copies``) is compared with it.

==========  =======================================================================================================
I4          who is in the store's ISR has all that is committed
I5          so has a new leader, and it is from the ISR unless an unclean election is allowed; what a producer with
            acks=all or a coordinator takes for committed is
I6          a follower appends only behind records that are its leader's, too, cuts off none of those, and deletes from
            its start what its leader deleted
I7          a leader's high watermark does not go back within its epoch
I8          readers find committed records only, and never another one at an offset
KIP-112     a replica in a failed log directory takes part in nothing
append-gap  a log goes on where its disk and what was written to it end
==========  =======================================================================================================

A copy may lack only what a fault took from its disk, what it lacked at an unclean election, and what it holds others in
place of unknowingly (``Copies.may_differ``). Each such loss is told with its reason (``emulator.findings``).
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.replica_truth import PartitionTruth
from kemu.emulator.facts import HostDown, Seen, TopicFilled, TopicReplicated
from kemu.emulator.findings import DIVERGED, LEADER_ONLY, UNCLEAN, Loss
from kemu.emulator.watching.epoch_log import FIRST_TERM, EpochLog, Run, minus
from kemu.emulator.watching.logs import reader_of
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
"""How long a follower may keep what its leader deleted: it hears of it with each answer to a fetch."""


class Replicas(Checker):
    """What was committed stays, every leader has it, and readers find one record at an offset."""

    name = "replicas"

    def __init__(self) -> None:
        super().__init__()
        self._partitions: dict[TopicPartition, PartitionTruth] = {}
        self._former: dict[TopicPartition, EpochLog] = {}
        """What was committed of partitions of deleted topics; a broker that was not told may add to it."""
        self._watermarks: dict[tuple[str, TopicPartition], int] = {}
        """Leader -> the high watermark that it said last in its epoch."""
        self._unclean: dict[str, bool] = {}
        """Topics that allow unclean elections, or forbid them, whatever the brokers' setting says."""
        self._unclean_by_default = False
        """Whether the brokers' setting was changed to allow them."""
        self._asked: dict[TopicPartition, None] = {}
        """Partitions of which an admin asked for any leader, until the store has their next state."""
        self._asked_less: dict[str, None] = {}
        """Producers that do not ask for all in-sync replicas."""
        self._offline: dict[str, dict[TopicPartition, None]] = {}
        """Host -> replicas on its failed log directories, in this life of its."""
        self.on = {
            BecameLeader: self._led,
            BecameFollower: self._followed,
            RecordsAppended: self._appended,
            RecordsReplicated: self._replicated,
            Truncated: self._cut,
            LogStartMoved: self._start_moved,
            HighWatermarkAdvanced: self._advanced,
            RecordsAcknowledged: self._acknowledged,
            OffsetCommitted: self._offset_committed,
            LogDirFailed: self._dir_failed,
            ReplicaStopped: self._stopped,
            NodeWritten: self._written,
            HostDown: self._down,
            TopicReplicated: self._topic,
            TopicFilled: self._filled,
            UncleanElectionAsked: self._asked_uncleanly,
            ProducerStarted: self._produces,
            Processed: self._processed,
            RangeProcessed: self._processed,
        }

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        if fact.unclean:
            self._unclean[fact.topic] = True

    def _filled(self, seen: Seen, fact: TopicFilled) -> None:
        for number in range(fact.partitions):
            self._truth((fact.topic, number)).committed.append(0, fact.records, FIRST_TERM)

    def _asked_uncleanly(self, seen: Seen, fact: UncleanElectionAsked) -> None:
        self._asked.update(dict.fromkeys((fact.topic, number) for number in fact.partitions))

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
        """KIP-112 and append-gap. False: what it does is about the log of a deleted topic, which nobody leads."""
        at, name = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}"
        if at in self._offline.get(seen.actor, ()):
            text = f"{seen.actor} takes part in {name}, whose log there lies in a directory that failed (KIP-112)"
            self.violation(seen, "failed-log-dir", (name, seen.actor), text)
        gap = self.panel.copies.on_host(seen.actor, at).gap
        if gap is not None and not isinstance(fact, BecameFollower):
            where = fact.end_offset if isinstance(fact, BecameLeader) else fact.base_offset
            text = f"{seen.actor} goes on with {name} at {where}; by its disk and what it wrote its log ends at {gap}"
            self.violation(seen, "append-gap", (name, seen.actor), text)
        return not self.panel.former.has(seen.actor, at)

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        if (fact.topic, fact.partition) in self._partitions:  # else nobody replicates it
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
        """I6."""
        at, before = (fact.topic, fact.partition), fact.base_offset - 1
        if not self._takes_part(seen, fact):
            return
        copy, log = self.panel.copies.on_host(seen.actor, at), self._leaders_log(seen.actor, at)
        if log is None or not max(copy.log.start, log.start) <= before < log.end:
            return  # one of them does not have it any more
        ours, theirs = copy.log.term_at(before), log.term_at(before)
        if ours != theirs and not self.panel.copies.may_differ(at, before, ours, theirs):
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} goes on with {name} behind offset {before}, which it has from epoch {ours[0]}, "
                f"its leader {copy.following} from epoch {theirs[0]} (I6)"
            )
            self.violation(seen, "logs-differ", (name, seen.actor, copy.following), text)

    def _leaders_log(self, host: str, at: TopicPartition) -> EpochLog | None:
        """The log that a follower copies, if its leader takes part in the same leader epoch."""
        members, leader = self._truth(at).members, self.panel.copies.on_host(host, at).following
        same = leader in members and host in members and members[leader].epoch == members[host].epoch
        return self._log(leader, at) if same else None

    def _cut(self, seen: Seen, fact: Truncated) -> None:
        """I6. Without any epoch to go by, a follower keeps what is below its high watermark
        (``AbstractFetcherThread.truncateToHighWatermark`` 3.4).
        """
        at, name = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}"
        log = self._leaders_log(seen.actor, at)
        if log is None or fact.why == "high-watermark" or self.panel.former.has(seen.actor, at):
            return
        truncated = self.panel.copies.on_host(seen.actor, at).truncated
        needless = minus(truncated, minus(truncated, log.runs_from(0)))
        if needless:
            text = (
                f"{seen.actor} cuts its log of {name} at {fact.end_offset}, and its leader has record {needless[0][0]}"
            )
            self.violation(seen, "cut-too-much", (name, seen.actor), f"{text}, too (I6)")

    def finish(self, at_us: int) -> None:
        """I6: who is in sync has deleted what its leader deleted."""
        for at, leader in self.panel.leaders.items():
            copy = self.panel.copies.on_host(leader, at)
            for host in map(broker_host, self.panel.states[at].isr):
                start, able_us = self._log(host, at).start, self.panel.disturbances.undisturbed_since_us((leader, host))
                if start >= copy.log.start or able_us is None or self.panel.now is None:
                    continue
                if at_us - max(able_us, copy.start_us) > STARTS_LATE_US and self.panel.runs(host):
                    name, seen = f"{at[0]}-{at[1]}", self.panel.now._replace(at_us=at_us)
                    text = f"{host} has {name} from {start} on, its leader {leader} from {copy.log.start} on (I6)"
                    self.violation(seen, "start-behind", (name, host), text, liveness=True)

    # --- what a copy lacks -------------------------------------------------------------------------------------

    def _reasons(
        self, at: TopicPartition, truth: PartitionTruth, host: str, missing: list[Run]
    ) -> tuple[list[tuple[Run, str]], list[Run]]:
        """Why a copy may lack these committed records: (run, reason in LOSS_REASONS); and those without a reason."""
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
        """I4: who is in the ISR lacks nothing that is committed without a reason. True: nothing at all."""
        missing = truth.not_deleted(truth.committed.without(self._log(host, at)))
        unexcused = self._reasons(at, truth, host, missing)[1]
        if unexcused:
            name = f"{at[0]}-{at[1]}"
            text = f"{host} is in the ISR of {name} without records {unexcused[0][0]} to {unexcused[-1][1] - 1}"
            self.violation(seen, "isr-without-committed", (name, host), f"{text}, which are committed (I4)")
        return not missing

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        """A leader deletes records: by retention, or because an admin asked for it (KIP-107)."""
        at = (fact.topic, fact.partition)
        if self.panel.leaders.get(at) == seen.actor:
            truth = self._truth(at)
            truth.deleted_below = max(truth.deleted_below, fact.start_offset)

    # --- leaders -----------------------------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        """I5."""
        at, name = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}"
        self._watermarks[seen.actor, at] = fact.high_watermark
        if not self._takes_part(seen, fact):
            return
        truth, log = self._truth(at), self._log(seen.actor, at)
        truth.member(seen.actor).epoch = fact.leader_epoch
        if fact.leader_epoch < max(truth.committed_epoch, truth.unclean_epoch):
            return  # it is deposed already
        missing = truth.committed.without(log)
        if missing:
            reasons, unexcused = self._reasons(at, truth, seen.actor, truth.not_deleted(missing))
            self._tell_losses(seen, name, reasons)
            truth.lose(missing)
            if reasons:
                truth.led_with_losses(missing[0][0], fact.leader_epoch)
            if unexcused:
                text = (
                    f"{seen.actor} leads {name} in epoch {fact.leader_epoch} without records {unexcused[0][0]} to "
                    f"{unexcused[-1][1] - 1}, which were committed (I5)"
                )
                self.violation(seen, "committed-lost", (name, seen.actor), text)
            truth.goes_on_with(log, missing)
        for first, last, _ in truth.broken_promises(log):
            self.losses.append(Loss(seen.at_us, name, first, last - 1, LEADER_ONLY))
        truth.unclean_epoch = -1

    def _tell_losses(self, seen: Seen, name: str, reasons: list[tuple[Run, str]]) -> None:
        told: list[tuple[int, int, str]] = []
        for (first, last, _), why in sorted(reasons):
            if told and told[-1][1:] == (first, why):
                first = told.pop()[0]
            told.append((first, last, why))
        self.losses += [Loss(seen.at_us, name, first, last - 1, why) for first, last, why in told]

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        """I7, I8 and I4."""
        at, name, watermark = (fact.topic, fact.partition), f"{fact.topic}-{fact.partition}", fact.high_watermark
        is_former, log = self.panel.former.has(seen.actor, at), self._log(seen.actor, at)
        state = None if is_former else self.panel.states.get(at)
        truth = PartitionTruth() if is_former else self._truth(at)
        is_deposed = state is not None and fact.leader_epoch < state.leader_epoch
        if is_deposed and truth.deposed_from(fact.leader_epoch) <= log.end:
            # deposed by an election with losses, and does not know it: what only it has is lost already
            shown = [(first, min(last, watermark), term) for first, last, term in log.runs_from(0)]
            truth.lose([run for run in shown if run[0] < run[1] and truth.unknown(run)])
            return
        before = self._watermarks.get((seen.actor, at), -1)
        if watermark < before:
            text = f"{seen.actor}'s high watermark of {name} went back from {before} to {watermark} (I7)"
            self.violation(seen, "watermark-back", (name, seen.actor), text)
        self._watermarks[seen.actor, at] = watermark
        committed = self._former.setdefault(at, EpochLog()) if is_former else truth.committed
        same = committed.same_until(log)
        if same < min(committed.end, watermark) and not is_former:
            ours, theirs = log.term_at(same)[0], committed.term_at(same)[0]
            text = f"{seen.actor} shows record {same} of {name} from epoch {ours}; readers had it from epoch {theirs}"
            self.violation(seen, "another-record", (name, seen.actor), f"{text} (I8)")
            committed.truncate(same)
        if watermark > committed.end:
            committed.grow_from(log, watermark)
        truth.committed_epoch = max(truth.committed_epoch, fact.leader_epoch)
        if state is None or fact.leader_epoch < max([member.epoch for member in truth.members.values()], default=-1):
            return  # it does not know yet that it is deposed: its ISR is not the store's
        if committed.end < watermark:
            text = f"{seen.actor}'s high watermark of {name} is {watermark}, and its log ends at {log.end} (I4)"
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
                self._former[at] = self._partitions.pop(at).committed  # its readers may still be at work
        else:
            self._state_written(seen, fact.client, at, self.panel.states[at], self.panel.state_before)
            self._asked.pop(at, None)

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
                if has_all and node not in stays:  # else its leader counts it with what it saw it fetch before
                    truth.member(host).settled = [run for run, _ in self.panel.copies.on_host(host, at).lost]

    def _elected_uncleanly(
        self, seen: Seen, client: str, at: TopicPartition, state: PartitionState, before: tuple[int, ...]
    ) -> None:
        """A controller takes members out of an ISR; it brings somebody in only by an unclean election."""
        truth, leader = self._truth(at), broker_host(state.leader)
        if not self._unclean.get(at[0], self._unclean_by_default) and at not in self._asked:
            name = f"{at[0]}-{at[1]}"
            text = f"{client} made {leader} the leader of {name}, which was not in its ISR {before}; the topic forbids"
            self.violation(seen, "unclean-forbidden", (name, client), f"{text} unclean elections (I5)")
        log = self._log(leader, at)
        truth.unclean_epoch = state.leader_epoch
        truth.unclean_lacks = truth.committed.without(log)
        truth.led_with_losses(truth.committed.same_until(log), state.leader_epoch)

    # --- producers, coordinators and readers -------------------------------------------------------------------

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        if fact.acks == -1:
            self._asked_less.pop(seen.actor, None)
        else:
            self._asked_less[seen.actor] = None

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        at, end = (fact.topic, fact.partition), fact.base_offset + fact.count
        if seen.actor not in self._asked_less:
            self._check_told(seen, at, fact.base_offset, end)
        elif (truth := self._partitions.get(at)) and not truth.may_have_been_told(fact.base_offset, end):
            truth.promise(fact.base_offset, end, [self._log(host, at) for host in truth.members])

    def _offset_committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        at = self.panel.log_of(fact.group) if fact.position >= 0 else None
        if at is not None:
            self._check_told(seen, at, fact.position, fact.position + 1)

    def _check_told(self, seen: Seen, at: TopicPartition, first: int, end: int) -> None:
        """I5: what somebody takes for written by all is committed."""
        truth = self._partitions.get(at)
        if truth is not None and truth.members and not truth.may_have_been_told(first, end):
            name, committed = f"{at[0]}-{at[1]}", truth.committed.end - 1
            text = f"{seen.actor} takes records to {end - 1} of {name} for written by all; committed is {committed}"
            self.violation(seen, "acknowledged-uncommitted", (name, seen.actor), f"{text} (I5)")

    def _processed(self, seen: Seen, fact: Processed | RangeProcessed) -> None:
        """I8."""
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
            known = f"committed there is one of epoch {there}" if there not in (-1, term[0]) else ""
            known = known or f"of that epoch it is committed to {committed.span_of(term)[1] - 1}"
            self.violation(seen, "read-uncommitted", (name, seen.actor), f"{text}; {known} (I8)")
