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

What may be lost all the same is in the fault atlas (``emulator.findings``): it is a ``Loss``, named with its reason,
and no violation. A disk is an excuse for what a fault took from it, until its replica is in the ISR of a new leader, or
is taken into one, with everything that is committed (a leader counts whom it has in its ISR with what it fetched
before), or has as much as it had; an election is one for what was written before its epoch: never for later or other
records. A leader that leads on in its epoch without what its disk lost writes other records there, and no epoch tells
the others (``Relapse``): a replica may keep what was lost, and what it copies behind that is its leader's.
"""

from kemu.actors.broker.replica_log import JOURNALS
from kemu.emulator.checkers.absences import Absences
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.replica_truth import Copy, PartitionTruth
from kemu.emulator.facts import (
    DiskTailLost,
    HostDown,
    HostStarted,
    Seen,
    TopicFilled,
    TopicReplicated,
    UnflushedLost,
)
from kemu.emulator.findings import DIVERGED, EMPTY_DISK, LEADER_ONLY, LOST_TAIL, UNCLEAN, UNFLUSHED, Loss
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
    ReplicaRestored,
    ReplicaStopped,
    Truncated,
    UncleanElectionAsked,
)


class Replicas(Checker):
    """What was committed stays, every leader has it, and readers find one record at an offset.

    Args:
        absences: who must have noticed that a broker was gone.
    """

    name = "replicas"

    def __init__(self, absences: Absences | None = None) -> None:
        super().__init__()
        self._absences = absences or Absences()
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
            Truncated: self._truncated,
            LogStartMoved: self._start_moved,
            HighWatermarkAdvanced: self._advanced,
            RecordsAcknowledged: self._acknowledged,
            OffsetCommitted: self._offset_committed,
            LogDirFailed: self._dir_failed,
            ReplicaRestored: self._restored,
            ReplicaStopped: self._stopped,
            NodeWritten: self._written,
            HostDown: self._down,
            HostStarted: self._started,
            DiskTailLost: self._tail_lost,
            UnflushedLost: self._unflushed,
            TopicReplicated: self._topic,
            TopicFilled: self._filled,
            UncleanElectionAsked: self._asked_uncleanly,
            ProducerStarted: self._produces,
            Processed: self._processed,
            RangeProcessed: self._processed,
        }
        self.shown_to(self._absences.on)

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        if fact.unclean:
            self._unclean[fact.topic] = None

    def _filled(self, seen: Seen, fact: TopicFilled) -> None:
        for number in range(fact.partitions):
            self._truth(fact.topic, number).committed.append(0, fact.records, 0)

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

    def _copy(self, seen: Seen, fact: BecameLeader | BecameFollower | RecordsReplicated | Truncated) -> Copy:
        return self._truth_of(seen, (fact.topic, fact.partition)).copy_on(seen.actor)

    def _joins(self, seen: Seen, at: TopicPartition) -> None:
        """A log that was left over of a deleted topic is one of the topic that was created again from now on."""
        if (seen.actor, at) not in self._former or self.panel.former.has(seen.actor, at):
            return
        left_over = self._former.pop((seen.actor, at)).copies.pop(seen.actor, None)
        if left_over is not None:
            self._truth(*at).copies.setdefault(seen.actor, left_over)

    # --- roles -------------------------------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        self._check_on_disk(seen, fact)
        self._joins(seen, (fact.topic, fact.partition))
        truth = self._truth_of(seen, (fact.topic, fact.partition))
        copy = truth.copy_on(seen.actor)
        copy.leads, copy.following, copy.epoch, copy.watermark = True, "", fact.leader_epoch, fact.high_watermark
        _found(copy)
        name = f"{fact.topic}-{fact.partition}"
        assert copy.log.end == fact.end_offset, f"{name} on {seen.actor} ends at {fact.end_offset}, not {copy.log.end}"
        truth.leads_again(copy, fact.leader_epoch, self._absences.was_noticed(seen.actor, seen.at_us))
        if fact.leader_epoch < max(truth.committed_epoch, truth.unclean_epoch):
            return  # it is deposed already
        why = UNCLEAN if truth.unclean_epoch >= 0 else copy.lost
        first = same = truth.committed.same_until(copy.log)
        if why == UNCLEAN:
            truth.excuse(same, fact.leader_epoch)
        if same < truth.committed.end:
            if why == UNCLEAN:
                excused = self._lost_by_election(seen, truth, copy, name, same)
            else:
                diverged, same = truth.diverged(copy.log), truth.same_until(copy.log)
                self.losses += [Loss(seen.at_us, name, start, end - 1, DIVERGED) for start, end in diverged]
                excused = truth.excused_to(copy, same)
                if same < excused:
                    self.losses.append(Loss(seen.at_us, name, same, excused - 1, why))
            if first < excused:
                truth.excuse(first, fact.leader_epoch)
            if excused < truth.committed.end:
                text = (
                    f"{seen.actor} leads {name} in epoch {fact.leader_epoch} without records {excused} to "
                    f"{truth.committed.end - 1}, which were committed (I5)"
                )
                self.violation(seen, "committed-lost", (name, seen.actor), text)
            truth.committed.cut(first)
            if first < same:
                truth.committed.grow_from(copy.log, same)
        for first, last in truth.broken_promises(copy.log):
            self.losses.append(Loss(seen.at_us, name, first, last - 1, LEADER_ONLY))
        truth.unclean_epoch = -1

    def _lost_by_election(self, seen: Seen, truth: PartitionTruth, copy: Copy, name: str, same: int) -> int:
        """Up to where the loss of committed records from ``same`` on is excused, of which the losses are told.

        An unclean election loses what the elected replica lacked when it was elected, its disk what a fault took since.
        """
        kept = max(same, truth.unclean_kept)
        by_disk = min(truth.excused_to(copy, same), kept)
        if same < by_disk:
            self.losses.append(Loss(seen.at_us, name, same, by_disk - 1, copy.lost))
        if by_disk < kept:
            return by_disk
        if kept < truth.committed.end:
            self.losses.append(Loss(seen.at_us, name, kept, truth.committed.end - 1, UNCLEAN))
        return truth.committed.end

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        self._check_on_disk(seen, fact)
        self._joins(seen, (fact.topic, fact.partition))
        copy = self._copy(seen, fact)
        _found(copy)
        copy.leads, copy.epoch, copy.following = False, fact.leader_epoch, broker_host(fact.leader)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        at = (fact.topic, fact.partition)
        former = self._former.pop((seen.actor, at), None)
        truth = self._truth(*at) if former is None else former
        if fact.deleted:
            truth.copies.pop(seen.actor, None)
        else:
            truth.copy_on(seen.actor).leads = False

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
        copy = truth.copies.get(seen.actor) if truth is not None else None
        if copy is None or not copy.leads:
            return  # no replication here
        assert truth is not None
        if self._offline:
            self._check_on_disk(seen, fact)
        truth.astray(fact.base_offset + fact.count, copy.epoch)
        if not copy.log.append(fact.base_offset, fact.count, copy.epoch):
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} appended to {name} at {fact.base_offset}, whose log there ends at {copy.log.end}"
            self.violation(seen, "append-gap", (name, seen.actor), text)

    def _replicated(self, seen: Seen, fact: RecordsReplicated) -> None:
        if self._offline:
            self._check_on_disk(seen, fact)
        truth = self._truth_of(seen, (fact.topic, fact.partition))
        copy = truth.copy_on(seen.actor)
        if not copy.log.append(fact.base_offset, fact.count, fact.leader_epoch):
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} copied records of {name} from {fact.base_offset}; its log ends at {copy.log.end}"
            self.violation(seen, "append-gap", (name, seen.actor), text)
            return
        leader = truth.copies.get(copy.following)
        before = fact.base_offset - 1
        if leader is None or leader.epoch != copy.epoch or leader.log.end <= before:
            return
        if before < copy.log.start or before < leader.log.start:
            return  # one of them does not have it any more
        ours, theirs = copy.log.epoch_at(before), leader.log.epoch_at(before)
        if ours != theirs and not truth.may_differ(before, ours, theirs):
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} goes on with {name} behind offset {before}, which it has from epoch {ours}, "
                f"its leader {copy.following} from epoch {theirs} (I6)"
            )
            self.violation(seen, "logs-differ", (name, seen.actor, copy.following), text)

    def _truncated(self, seen: Seen, fact: Truncated) -> None:
        self._copy(seen, fact).log.cut(fact.end_offset)

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        """Records are deleted, on purpose: what was committed of them was, and nobody needs to have it."""
        truth = self._partitions.get((fact.topic, fact.partition))
        if truth is None:
            return  # no replication here
        log = self._truth_of(seen, (fact.topic, fact.partition)).copy_on(seen.actor).log
        if fact.start_offset == fact.end_offset != log.end:
            log.begin_at(fact.start_offset)  # the log was emptied
        else:
            log.start_at(fact.start_offset)

    def _restored(self, seen: Seen, fact: ReplicaRestored) -> None:
        copy = self._truth(fact.topic, fact.partition).copy_on(seen.actor)
        copy.log.restore(fact.end_offset, fact.epochs)
        copy.unread = False

    # --- watermarks --------------------------------------------------------------------------------------------

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        at = (fact.topic, fact.partition)
        truth = self._truth_of(seen, at)
        copy = truth.copy_on(seen.actor)
        state = self.panel.states.get(at) if not self.panel.former.has(seen.actor, at) else None
        is_deposed = state is not None and fact.leader_epoch < state.leader_epoch
        if is_deposed and truth.excused_from(fact.leader_epoch) <= copy.log.end:
            return  # deposed by an election with losses, and does not know it: what only it has is lost already
        if fact.high_watermark < copy.watermark:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor}'s high watermark of {name} went back from {copy.watermark} to {fact.high_watermark}"
            self.violation(seen, "watermark-back", (name, seen.actor), f"{text} (I7)")
        copy.watermark = fact.high_watermark
        truth.committed_epoch = max(truth.committed_epoch, fact.leader_epoch)
        committed = truth.committed
        same = committed.same_until(copy.log)
        if same < committed.end and same < fact.high_watermark:
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} shows record {same} of {name} from epoch {copy.log.epoch_at(same)}; "
                f"readers had it from epoch {committed.epoch_at(same)} (I8)"
            )
            self.violation(seen, "another-record", (name, seen.actor), text)
            committed.cut(same)
        if fact.high_watermark > committed.end:
            committed.grow_from(copy.log, fact.high_watermark)
        if state is not None:
            self._check_in_sync(seen, at, truth, state.isr, fact)

    def _check_in_sync(
        self, seen: Seen, at: TopicPartition, truth: PartitionTruth, isr: tuple[int, ...], fact: HighWatermarkAdvanced
    ) -> None:
        """I4. The leader that does not know yet that it is deposed is not asked: its ISR is not the store's."""
        watermark, copies = fact.high_watermark, truth.copies
        if fact.leader_epoch < max([copy.epoch for copy in copies.values()]):
            return
        for node in isr:
            copy = copies.get(broker_host(node))
            end = copy.log.end if copy is not None else 0
            if end < watermark and (copy is None or not copy.lost or copy.had.end < watermark):
                name = f"{at[0]}-{at[1]}"
                text = f"{broker_host(node)} is in the ISR of {name} with a log to {end}; {seen.actor}'s high watermark"
                self.violation(
                    seen, "isr-without-committed", (name, broker_host(node)), f"{text} is {fact.high_watermark} (I4)"
                )

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        if fact.acks == -1:
            self._asked_less.pop(seen.actor, None)
        else:
            self._asked_less[seen.actor] = None

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        truth = self._partitions.get((fact.topic, fact.partition))
        if truth is None or not truth.copies:
            return
        end = fact.base_offset + fact.count
        if end <= truth.committed.end or truth.may_have_been_told(end):
            return
        if seen.actor in self._asked_less:
            truth.promise(fact.base_offset, end)
            return
        name = f"{fact.topic}-{fact.partition}"
        text = f"{seen.actor} was told that all have {name} to {end - 1}; committed is {truth.committed.end - 1} (I5)"
        self.violation(seen, "acknowledged-uncommitted", (name, seen.actor), text)

    def _offset_committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        at = self.panel.log_of(fact.group) if fact.position >= 0 else None
        truth = self._partitions.get(at) if at is not None else None
        if truth is None or not truth.copies:
            return
        end = fact.position + 1
        if end > truth.committed.end and not truth.may_have_been_told(end):
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
        if truth is None or not truth.copies:
            return
        committed = truth.committed
        for first, last, epoch in self.panel.logs.reads.pieces(reader_of(seen), at, fact.first, fact.last):
            upto = min(last, truth.excused_from(epoch))
            if first >= upto or committed.holds(first, upto, epoch):
                continue
            if truth.former is not None and truth.former.holds(first, upto, epoch):
                continue
            begin = truth.was_there(first, upto, epoch)
            if begin >= upto or (begin > first and committed.holds(begin, upto, epoch)):
                continue
            name = f"{at[0]}-{at[1]}"
            text = f"{seen.actor} read records {first} to {upto - 1} of {name} from epoch {epoch}"
            there = committed.epoch_at(first)
            known = f"committed there is one of epoch {there}" if there not in (-1, epoch) else ""
            known = known or f"of that epoch it is committed to {min(committed.end_of(epoch), committed.end) - 1}"
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
                for host in gone.copies:
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
        truth.unclean_epoch = state.leader_epoch
        truth.unclean_kept = truth.committed.same_until(truth.copy_on(leader).log)
        truth.excuse(truth.unclean_kept, state.leader_epoch)

    def _check_written(
        self, seen: Seen, client: str, at: TopicPartition, state: PartitionState, before: PartitionState | None
    ) -> None:
        truth = self._truth(*at)
        stays = before.isr if before is not None and before.leader == state.leader else ()
        for node in state.isr:
            copy = truth.copies.get(broker_host(node))
            if copy is None:
                continue
            same = truth.same_until(copy.log)
            if same == truth.committed.end:
                counted = node in stays and copy.log.end < copy.had.end  # with what its leader saw it fetch before
                copy.lost = copy.lost if copy.unread or counted else ""
            elif truth.excused_to(copy, same) < truth.committed.end:
                name = f"{at[0]}-{at[1]}"
                host = broker_host(node)
                text = f"{client} has {host} in the ISR of {name}, whose log has what is committed to {same - 1} only;"
                self.violation(
                    seen, "isr-without-committed", (name, host), f"{text} committed is {truth.committed.end - 1} (I4)"
                )

    # --- hosts -------------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._offline.pop(fact.host, None)
        self._former = {key: truth for key, truth in self._former.items() if key[0] != fact.host}
        for truth in self._partitions.values():
            copy = truth.copies.get(fact.host)
            if copy is not None:
                copy.leads, copy.unread = False, True

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if fact.kept_disk:
            return
        self._former = {key: truth for key, truth in self._former.items() if key[0] != fact.host}
        for truth in self._partitions.values():
            copy = truth.copies.get(fact.host)
            if copy is not None:
                copy.lose(EMPTY_DISK, 0)
                copy.log.restore(0, ())

    def _tail_lost(self, seen: Seen, fact: DiskTailLost) -> None:
        self._lost(fact.host, fact.log, LOST_TAIL, fact.end_offset)

    def _unflushed(self, seen: Seen, fact: UnflushedLost) -> None:
        for log, _, end_offset in fact.logs:
            self._lost(fact.host, log, UNFLUSHED, end_offset)

    def _lost(self, host: str, log: str, why: str, left: int) -> None:
        if log.startswith(JOURNALS):
            topic, _, number = log.removeprefix(JOURNALS).rpartition("-")
            self._truth(topic, int(number)).copy_on(host).lose(why, left)


def _found(copy: Copy) -> None:
    """A broker that says nothing of a log when it starts has found none."""
    if copy.unread:
        copy.log.restore(0, ())
        copy.unread = False
