"""Replicated logs: what was committed stays, every leader has it, and readers find one record at an offset.

Theory. A record is committed when its leader's high watermark passes it: every in-sync replica has it then, and the
next leader comes from the in-sync replicas. So (Kafka's guarantees; numbers of the table in ``emulator.checkers``):

* I4: everybody in the ISR, as the store has it, has everything that is committed when it is written there, record by
  record, and everything below the high watermark that a leader moves to.
* I5: a new leader's log begins with everything committed before; what a producer with acks=all was told is committed,
  and so are the offsets that a coordinator takes for committed.
  A controller elects out of the ISR only where the topic allows it or an admin asked for it (KIP-460).
* I6: a follower appends only behind records that are its leader's, too.
* I7: a leader's high watermark does not go back within its epoch.
* A replica in a log directory that failed takes part in nothing until its broker starts again (KIP-112).
* I8: no leader ever shows another record at an offset below a high watermark; a consumer processes committed records
  only, each from the epoch that was committed (``EpochRead``).

A record is known by its offset and its term: the leader epoch, and the life of the process that led (``EpochLog``).
What may be lost all the same is in the fault atlas (``emulator.findings``): it is a ``Loss``, named with its reason,
and no violation. A replica may lack exactly these committed records:

* what a fault took from its disk, until it has that again, or a leader that did not count it takes it into its ISR;
* what it lacked as the elected replica when an unclean election was written;
* what it holds others in place of, because a leader lost them, led on in its epoch and wrote others there: KIP-101,
  KIP-320 and KIP-595 compare epochs (``Copies.may_differ``).
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.replica_truth import PartitionTruth, ReplicaRole
from kemu.emulator.facts import HostDown, HostStarted, Seen, TopicFilled, TopicReplicated
from kemu.emulator.findings import DIVERGED, LEADER_ONLY, UNCLEAN, Loss
from kemu.emulator.watching.copies import Copy
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
    NodeWritten,
    RecordsReplicated,
    ReplicaStopped,
    UncleanElectionAsked,
)


class Replicas(Checker):
    """What was committed stays, every leader has it, and readers find one record at an offset."""

    name = "replicas"

    def __init__(self) -> None:
        super().__init__()
        self._partitions: dict[TopicPartition, PartitionTruth] = {}
        self._unclean: dict[str, None] = {}
        """Topics that allow unclean elections."""
        self._clean: dict[str, None] = {}
        """Topics whose own setting forbids them, whatever the brokers' says."""
        self._unclean_by_default = False
        """Whether the brokers' setting was changed to allow them."""
        self._asked: dict[TopicPartition, None] = {}
        """Partitions of which an admin asked for any leader, until the store has their next state."""
        self._asked_less: dict[str, None] = {}
        """Producers that do not ask for all in-sync replicas."""
        self._offline: dict[str, dict[TopicPartition, None]] = {}
        """Host -> replicas on its failed log directories, in this life of its."""
        self._deleted: dict[TopicPartition, PartitionTruth] = {}
        """Partitions that were deleted last."""
        self._former: dict[tuple[str, TopicPartition], PartitionTruth] = {}
        """Brokers with a log of a deleted partition -> that one; some take part in it still (``Panel.former``)."""
        self.on = {
            BecameLeader: self._led,
            BecameFollower: self._followed,
            RecordsAppended: self._appended,
            RecordsReplicated: self._replicated,
            HighWatermarkAdvanced: self._advanced,
            RecordsAcknowledged: self._acknowledged,
            OffsetCommitted: self._offset_committed,
            LogDirFailed: self._dir_failed,
            ReplicaStopped: self._stopped,
            NodeWritten: self._written,
            HostDown: self._down,
            HostStarted: self._started,
            TopicReplicated: self._topic,
            TopicFilled: self._filled,
            UncleanElectionAsked: self._asked_uncleanly,
            ProducerStarted: self._produces,
            Processed: self._processed,
            RangeProcessed: self._processed,
        }

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        if fact.unclean:
            self._unclean[fact.topic] = None

    def _filled(self, seen: Seen, fact: TopicFilled) -> None:
        for number in range(fact.partitions):
            self._truth(fact.topic, number).committed.append(0, fact.records, FIRST_TERM)

    def _asked_uncleanly(self, seen: Seen, fact: UncleanElectionAsked) -> None:
        self._asked.update(dict.fromkeys((fact.topic, number) for number in fact.partitions))

    def _truth(self, topic: str, partition: int) -> PartitionTruth:
        truth = self._partitions.get((topic, partition))
        if truth is None:
            truth = self._partitions[topic, partition] = PartitionTruth()
            deleted = self._deleted.get((topic, partition))
            truth.former = deleted.committed if deleted is not None else None  # its readers may still be at work
        return truth

    def _truth_of(self, seen: Seen, at: TopicPartition) -> PartitionTruth:
        """The partition that a broker speaks of: of now, or of a deleted topic."""
        if not self.panel.former.has(seen.actor, at):
            return self._truth(*at)
        truth = self._former.get((seen.actor, at))
        if truth is None:
            truth = self._former[seen.actor, at] = self._deleted.setdefault(at, PartitionTruth())
        return truth

    def _copy(self, host: str, at: TopicPartition) -> Copy:
        return self.panel.copies.on_host(host, at)

    def _log(self, host: str, at: TopicPartition) -> EpochLog:
        return self.panel.copies.on_host(host, at).log

    def _joins(self, seen: Seen, at: TopicPartition) -> None:
        """A log that was left over of a deleted topic is one of the topic that was created again from now on."""
        if (seen.actor, at) not in self._former or self.panel.former.has(seen.actor, at):
            return
        left_over = self._former.pop((seen.actor, at)).members.pop(seen.actor, None)
        if left_over is not None:
            self._truth(*at).members.setdefault(seen.actor, left_over)

    # --- roles -------------------------------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        self._check_on_disk(seen, fact)
        self._joins(seen, at)
        truth = self._truth_of(seen, at)
        member, copy = truth.member(seen.actor), self._copy(seen.actor, at)
        member.leads, member.following, member.epoch, member.watermark = (
            True,
            "",
            fact.leader_epoch,
            fact.high_watermark,
        )
        name = f"{fact.topic}-{fact.partition}"
        self._check_end(seen, name, copy, fact.end_offset)
        if fact.leader_epoch < max(truth.committed_epoch, truth.unclean_epoch):
            return  # it is deposed already
        missing = truth.committed.without(copy.log)
        if missing:
            reasons, unexcused = self._reasons(at, truth, member, copy, missing)
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
            truth.goes_on_with(copy.log, missing)
        for first, last, _ in truth.broken_promises(copy.log):
            self.losses.append(Loss(seen.at_us, name, first, last - 1, LEADER_ONLY))
        truth.unclean_epoch = -1

    def _check_end(self, seen: Seen, name: str, copy: Copy, end: int) -> None:
        """What a broker says of its log's end is compared with what it appended, copied, cut and found on its disk."""
        if copy.gap is not None:
            text = (
                f"{seen.actor} says that its log of {name} ends at {end}; by its disk and what it copied and appended"
            )
            self.violation(seen, "append-gap", (name, seen.actor), f"{text} it ends at {copy.gap}")

    def _reasons(
        self, at: TopicPartition, truth: PartitionTruth, member: ReplicaRole, copy: Copy, missing: list[Run]
    ) -> tuple[list[tuple[Run, str]], list[Run]]:
        """Why a replica may lack these committed records: (run, reason of the atlas); and those without a reason."""
        reasons: list[tuple[Run, str]] = []
        rest = missing
        lost = [(run, why) for run, why in copy.lost if run not in member.settled]
        if truth.unclean_epoch >= 0:
            lost = [*[(run, UNCLEAN) for run in truth.unclean_lacks], *lost]
        for run, why in lost:
            left = minus(rest, [run])
            reasons += [(piece, why) for piece in minus(rest, left)]
            rest = left
        if rest:
            differs = [
                (max(first, run[0]), min(last, run[1]), run[2])
                for run in rest
                for first, last, _ in copy.log.runs_from(run[0])
                if first < run[1]
            ]
            for piece in differs:
                if self.panel.copies.may_differ(at, piece[0], piece[2], copy.log.term_at(piece[0])):
                    reasons.append((piece, DIVERGED))
                    rest = minus(rest, [piece])
        return reasons, rest

    def _tell_losses(self, seen: Seen, name: str, reasons: list[tuple[Run, str]]) -> None:
        told: list[tuple[int, int, str]] = []
        for (first, last, _), why in sorted(reasons):
            if told and told[-1][1:] == (first, why):
                first = told.pop()[0]
            told.append((first, last, why))
        self.losses += [Loss(seen.at_us, name, first, last - 1, why) for first, last, why in told]

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        at = (fact.topic, fact.partition)
        self._check_on_disk(seen, fact)
        self._joins(seen, at)
        member = self._truth_of(seen, at).member(seen.actor)
        member.leads, member.epoch, member.following = False, fact.leader_epoch, broker_host(fact.leader)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        at = (fact.topic, fact.partition)
        former = self._former.pop((seen.actor, at), None)
        truth = self._truth(*at) if former is None else former
        if fact.deleted:
            truth.members.pop(seen.actor, None)
        else:
            truth.member(seen.actor).leads = False

    def _dir_failed(self, seen: Seen, fact: LogDirFailed) -> None:
        self._offline.setdefault(seen.actor, {}).update(dict.fromkeys(fact.partitions))

    def _check_on_disk(
        self, seen: Seen, fact: BecameLeader | BecameFollower | RecordsAppended | RecordsReplicated
    ) -> None:
        """KIP-112: a replica takes part in nothing until its broker starts with the directory repaired."""
        if (fact.topic, fact.partition) in self._offline.get(seen.actor, {}):
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} takes part in {name}, whose log there lies in a directory that failed (KIP-112)"
            self.violation(seen, "failed-log-dir", (name, seen.actor), text)

    # --- logs --------------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        at = (fact.topic, fact.partition)
        truth = self._truth_of(seen, at) if self.panel.former.has(seen.actor, at) else self._partitions.get(at)
        member = truth.members.get(seen.actor) if truth is not None else None
        if member is None or not member.leads:
            return  # no replication here
        if self._offline:
            self._check_on_disk(seen, fact)
        copy = self._copy(seen.actor, at)
        if copy.gap is not None:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} appended to {name} at {fact.base_offset}, whose log there ends at {copy.gap}"
            self.violation(seen, "append-gap", (name, seen.actor), text)

    def _replicated(self, seen: Seen, fact: RecordsReplicated) -> None:
        if self._offline:
            self._check_on_disk(seen, fact)
        at = (fact.topic, fact.partition)
        truth, copy = self._truth_of(seen, at), self._copy(seen.actor, at)
        member = truth.member(seen.actor)
        if copy.gap is not None:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} copied records of {name} from {fact.base_offset}; its log ends at {copy.gap}"
            self.violation(seen, "append-gap", (name, seen.actor), text)
            return
        leader = truth.members.get(member.following)
        before = fact.base_offset - 1
        if leader is None or leader.epoch != member.epoch:
            return
        log = self._log(member.following, at)
        if not max(copy.log.start, log.start) <= before < log.end:
            return  # one of them does not have it any more
        ours, theirs = copy.log.term_at(before), log.term_at(before)
        if ours != theirs and not self.panel.copies.may_differ(at, before, ours, theirs):
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} goes on with {name} behind offset {before}, which it has from epoch {ours[0]}, "
                f"its leader {member.following} from epoch {theirs[0]} (I6)"
            )
            self.violation(seen, "logs-differ", (name, seen.actor, member.following), text)

    # --- watermarks --------------------------------------------------------------------------------------------

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        at = (fact.topic, fact.partition)
        truth = self._truth_of(seen, at)
        member, log = truth.member(seen.actor), self._log(seen.actor, at)
        state = self.panel.states.get(at) if not self.panel.former.has(seen.actor, at) else None
        is_deposed = state is not None and fact.leader_epoch < state.leader_epoch
        if is_deposed and truth.deposed_from(fact.leader_epoch) <= log.end:
            # deposed by an election with losses, and does not know it: what only it has is lost already
            shown = [(first, min(last, fact.high_watermark), term) for first, last, term in log.runs_from(0)]
            truth.lose([run for run in shown if run[0] < run[1] and not truth.committed.holds(*run)])
            return
        if fact.high_watermark < member.watermark:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor}'s high watermark of {name} went back from {member.watermark} to {fact.high_watermark}"
            self.violation(seen, "watermark-back", (name, seen.actor), f"{text} (I7)")
        member.watermark = fact.high_watermark
        truth.committed_epoch = max(truth.committed_epoch, fact.leader_epoch)
        committed = truth.committed
        same = committed.same_until(log)
        if same < committed.end and same < fact.high_watermark:
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} shows record {same} of {name} from epoch {log.epoch_at(same)}; "
                f"readers had it from epoch {committed.epoch_at(same)} (I8)"
            )
            self.violation(seen, "another-record", (name, seen.actor), text)
            committed.cut(same)
        if fact.high_watermark > committed.end:
            committed.grow_from(log, fact.high_watermark)
        if state is not None:
            self._check_in_sync(seen, at, truth, state.isr, fact)

    def _check_in_sync(
        self, seen: Seen, at: TopicPartition, truth: PartitionTruth, isr: tuple[int, ...], fact: HighWatermarkAdvanced
    ) -> None:
        """I4. The leader that does not know yet that it is deposed is not asked: its ISR is not the store's."""
        watermark = fact.high_watermark
        if fact.leader_epoch < max([member.epoch for member in truth.members.values()]):
            return
        for node in isr:
            host = broker_host(node)
            member = truth.members.get(host)
            copy = self._copy(host, at) if member is not None else None
            end = copy.log.end if copy is not None else 0
            if end >= watermark:
                continue
            if copy is not None and member is not None and truth.committed.end >= watermark:
                missing = [(max(first, end), last, term) for first, last, term in truth.committed.without(copy.log)]
                if not self._reasons(at, truth, member, copy, [run for run in missing if run[0] < run[1]])[1]:
                    continue
            name = f"{at[0]}-{at[1]}"
            text = f"{host} is in the ISR of {name} with a log to {end}; {seen.actor}'s high watermark"
            self.violation(seen, "isr-without-committed", (name, host), f"{text} is {fact.high_watermark} (I4)")

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        if fact.acks == -1:
            self._asked_less.pop(seen.actor, None)
        else:
            self._asked_less[seen.actor] = None

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        truth = self._partitions.get((fact.topic, fact.partition))
        if truth is None or not truth.members:
            return
        end = fact.base_offset + fact.count
        if truth.may_have_been_told(fact.base_offset, end):
            return
        if seen.actor in self._asked_less:
            at = (fact.topic, fact.partition)
            truth.promise(fact.base_offset, end, [self._log(host, at) for host in truth.members])
            return
        name = f"{fact.topic}-{fact.partition}"
        text = f"{seen.actor} was told that all have {name} to {end - 1}; committed is {truth.committed.end - 1} (I5)"
        self.violation(seen, "acknowledged-uncommitted", (name, seen.actor), text)

    def _offset_committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        at = self.panel.log_of(fact.group) if fact.position >= 0 else None
        truth = self._partitions.get(at) if at is not None else None
        if truth is None or not truth.members:
            return
        end = fact.position + 1
        if not truth.may_have_been_told(fact.position, end):
            assert at is not None
            name = f"{at[0]}-{at[1]}"
            text = f"{seen.actor} takes record {fact.position} of {name} for written by all; committed is"
            self.violation(
                seen, "acknowledged-uncommitted", (name, seen.actor), f"{text} {truth.committed.end - 1} (I5)"
            )

    # --- readers -----------------------------------------------------------------------------------------------

    def _processed(self, seen: Seen, fact: Processed | RangeProcessed) -> None:
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
            there = committed.epoch_at(first)
            known = f"committed there is one of epoch {there}" if there not in (-1, term[0]) else ""
            known = known or f"of that epoch it is committed to {min(committed.end_of(term), committed.end) - 1}"
            self.violation(seen, "read-uncommitted", (name, seen.actor), f"{text}; {known} (I8)")

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = self.panel.written
        if at is None:
            if fact.path.startswith(TOPIC_CONFIGS + "/") and fact.what != "deleted":
                self._configured(fact.path.rpartition("/")[2], read_config(fact.data).get(UNCLEAN_ELECTION_ENABLE, ""))
            elif fact.path == BROKER_DEFAULTS and fact.what != "deleted":
                self._unclean_by_default = read_config(fact.data).get(UNCLEAN_ELECTION_ENABLE) == "true"
            return
        if fact.what == "deleted":
            gone = self._partitions.pop(at, None)
            if gone is not None:
                self._deleted[at] = gone
                for host in gone.members:
                    self._former.setdefault((host, at), gone)
            return
        state, before = self.panel.states[at], self.panel.state_before
        truth = self._truth(*at)
        if before is not None and self.panel.was_elected and not set(state.isr) <= set(before.isr):
            self._elected_uncleanly(seen, fact.client, at, state, before.isr)
        elif truth.unclean_epoch < 0:
            self._check_written(seen, fact.client, at, state, before)
        self._asked.pop(at, None)

    def _configured(self, topic: str, unclean: str) -> None:
        self._clean.pop(topic, None)
        if unclean == "true":
            self._unclean[topic] = None
        elif unclean == "false":
            self._unclean.pop(topic, None)
            self._clean[topic] = None

    def _elected_uncleanly(
        self, seen: Seen, client: str, at: TopicPartition, state: PartitionState, before: tuple[int, ...]
    ) -> None:
        """A controller takes members out of an ISR; it brings somebody in only by an unclean election."""
        truth, leader = self._truth(*at), broker_host(state.leader)
        allowed = at[0] in self._unclean or (self._unclean_by_default and at[0] not in self._clean)
        if not allowed and at not in self._asked:
            name = f"{at[0]}-{at[1]}"
            text = f"{client} made {leader} the leader of {name}, which was not in its ISR {before}; the topic forbids"
            self.violation(seen, "unclean-forbidden", (name, client), f"{text} unclean elections (I5)")
        log = self._log(leader, at)
        truth.unclean_epoch = state.leader_epoch
        truth.unclean_lacks = truth.committed.without(log)
        truth.led_with_losses(truth.committed.same_until(log), state.leader_epoch)

    def _check_written(
        self, seen: Seen, client: str, at: TopicPartition, state: PartitionState, before: PartitionState | None
    ) -> None:
        truth = self._truth(*at)
        stays = before.isr if before is not None and before.leader == state.leader else ()
        for node in state.isr:
            host = broker_host(node)
            member = truth.members.get(host)
            if member is None:
                continue
            copy = self._copy(host, at)
            missing = truth.committed.without(copy.log)
            if not missing:
                if node not in stays:  # else its leader counts it with what it saw it fetch before
                    member.settled = [run for run, _ in copy.lost]
            elif unexcused := self._reasons(at, truth, member, copy, missing)[1]:
                name, first = f"{at[0]}-{at[1]}", unexcused[0][0]
                text = f"{client} has {host} in the ISR of {name}, whose log has what is committed to {first - 1} only;"
                self.violation(
                    seen, "isr-without-committed", (name, host), f"{text} committed is {truth.committed.end - 1} (I4)"
                )

    # --- hosts -------------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._offline.pop(fact.host, None)
        self._former = {key: truth for key, truth in self._former.items() if key[0] != fact.host}
        for truth in self._partitions.values():
            member = truth.members.get(fact.host)
            if member is not None:
                member.leads = False

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            self._former = {key: truth for key, truth in self._former.items() if key[0] != fact.host}
