"""Replicated logs: what was committed stays, and every leader has it.

Theory. A record is committed when its leader's high watermark passes it: every in-sync replica has it then, and the
next leader comes from the in-sync replicas. So (Kafka's guarantees; numbers of spec/controller.md 2.8):

* I5, I8: a new leader's log begins with everything committed before, record by record; what a producer with acks=all
  was told is committed. No reader ever finds another record at an offset below a high watermark.
* I4: everybody in the ISR, as the store has it, has everything that is committed when it is written there, and
  everything below the high watermark that a leader moves to.
* I6: a follower appends only behind records that are its leader's, too.
* I7: a leader's high watermark does not go back within its epoch.

The fault atlas: what may be lost all the same, and is counted as a loss, not as a violation.

* An unclean election (allowed by the topic) makes the new leader's log the truth: ``unclean``.
* A disk that loses what it was asked to keep (``lose-disk-tail``, a restart with an empty disk), or a power cut when
  ``log.flush.interval.ms`` is not 0: the replica may still be in the ISR, even the last one in it ("last replica
  standing", KIP-966), and lead with what is left: ``storage``.
* acks 0 and 1 promise nothing beyond the leader.
"""

from attrs import frozen

from emulator.checkers.base import Checker
from emulator.checkers.replica_truth import Copy, PartitionTruth
from emulator.facts import DiskTailLost, HostDown, HostStarted, Seen, TopicReplicated
from protocol.names import TopicPartition
from protocol.nodes import partition_of_state, read_state
from protocol.notes import (
    BecameFollower,
    BecameLeader,
    HighWatermarkAdvanced,
    LeaderElectedForPartition,
    NodeWritten,
    RecordsAcknowledged,
    RecordsAppended,
    RecordsReplicated,
    ReplicaRestored,
    ReplicaStopped,
    Truncated,
)

JOURNALS = "replica/"


@frozen
class Loss:
    """Committed records that are gone, for a reason that the atlas names."""

    at_us: int
    partition: str
    first: int
    last: int
    why: str


class Replicas(Checker):
    """What was committed stays, and every leader has it.

    Args:
        acks_all: whether producers asked for all in-sync replicas.
        flushes: whether an acknowledged append survives a power cut (``log.flush.interval.ms`` 0).
    """

    name = "replicas"

    def __init__(self, *, acks_all: bool = True, flushes: bool = True) -> None:
        super().__init__()
        self.losses: list[Loss] = []
        self._acks_all = acks_all
        self._flushes = flushes
        self._partitions: dict[TopicPartition, PartitionTruth] = {}
        self._in_sync: dict[TopicPartition, tuple[int, ...]] = {}
        self._epochs: dict[TopicPartition, int] = {}
        """Leader epochs as the store has them."""
        self._unclean: dict[str, None] = {}
        """Topics that allow unclean elections."""
        self.on = {
            BecameLeader: self._led,
            BecameFollower: self._followed,
            RecordsAppended: self._appended,
            RecordsReplicated: self._replicated,
            Truncated: self._truncated,
            HighWatermarkAdvanced: self._advanced,
            RecordsAcknowledged: self._acknowledged,
            ReplicaRestored: self._restored,
            ReplicaStopped: self._stopped,
            LeaderElectedForPartition: self._elected,
            NodeWritten: self._written,
            HostDown: self._down,
            HostStarted: self._started,
            DiskTailLost: self._tail_lost,
            TopicReplicated: self._topic,
        }

    def _topic(self, seen: Seen, fact: TopicReplicated) -> None:
        if fact.unclean:
            self._unclean[fact.topic] = None

    def _truth(self, topic: str, partition: int) -> PartitionTruth:
        truth = self._partitions.get((topic, partition))
        if truth is None:
            truth = self._partitions[topic, partition] = PartitionTruth()
        return truth

    def _copy(self, seen: Seen, fact: BecameLeader | BecameFollower | RecordsReplicated | Truncated) -> Copy:
        return self._truth(fact.topic, fact.partition).copy_on(seen.actor)

    # --- roles -------------------------------------------------------------------------------------------------

    def _elected(self, seen: Seen, fact: LeaderElectedForPartition) -> None:
        truth = self._truth(fact.topic, fact.partition)
        truth.unclean |= fact.unclean
        truth.unclean_before |= fact.unclean

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        truth = self._truth(fact.topic, fact.partition)
        copy = truth.copy_on(seen.actor)
        copy.leads, copy.following, copy.epoch, copy.watermark = True, "", fact.leader_epoch, fact.high_watermark
        _found(copy)
        name = f"{fact.topic}-{fact.partition}"
        assert copy.log.end == fact.end_offset, f"{name} on {seen.actor} ends at {fact.end_offset}, not {copy.log.end}"
        same = truth.committed.same_until(copy.log)
        if same < truth.committed.end and fact.leader_epoch >= truth.committed_epoch:  # else it is deposed already
            why = "unclean" if truth.unclean else copy.lost
            if why:
                self.losses.append(Loss(seen.at_us, name, same, truth.committed.end - 1, why))
            else:
                text = (
                    f"{seen.actor} leads {name} in epoch {fact.leader_epoch} without records {same} to "
                    f"{truth.committed.end - 1}, which were committed (I5)"
                )
                self.violation(seen, (name, seen.actor), text)
            truth.committed.cut(same)
        truth.unclean = False

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        copy = self._copy(seen, fact)
        _found(copy)
        copy.leads, copy.epoch, copy.following = False, fact.leader_epoch, f"b{fact.leader}"

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        truth = self._truth(fact.topic, fact.partition)
        if fact.deleted:
            truth.copies.pop(seen.actor, None)
        else:
            truth.copy_on(seen.actor).leads = False

    # --- logs --------------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        truth = self._partitions.get((fact.topic, fact.partition))
        copy = truth.copies.get(seen.actor) if truth is not None else None
        if copy is None or not copy.leads:
            return  # no replication here
        if not copy.log.append(fact.base_offset, fact.count, copy.epoch):
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} appended to {name} at {fact.base_offset}, whose log there ends at {copy.log.end}"
            self.violation(seen, (name, seen.actor), text)

    def _replicated(self, seen: Seen, fact: RecordsReplicated) -> None:
        truth = self._truth(fact.topic, fact.partition)
        copy = truth.copy_on(seen.actor)
        name = f"{fact.topic}-{fact.partition}"
        if not copy.log.append(fact.base_offset, fact.count, fact.leader_epoch):
            text = f"{seen.actor} copied records of {name} from {fact.base_offset}; its log ends at {copy.log.end}"
            self.violation(seen, (name, seen.actor), text)
            return
        leader = truth.copies.get(copy.following)
        before = fact.base_offset - 1
        if leader is None or leader.epoch != copy.epoch or before < 0 or leader.log.end <= before:
            return
        ours, theirs = copy.log.epoch_at(before), leader.log.epoch_at(before)
        if ours != theirs:
            text = (
                f"{seen.actor} goes on with {name} behind offset {before}, which it has from epoch {ours}, "
                f"its leader {copy.following} from epoch {theirs} (I6)"
            )
            self.violation(seen, (name, seen.actor, copy.following), text)

    def _truncated(self, seen: Seen, fact: Truncated) -> None:
        self._copy(seen, fact).log.cut(fact.end_offset)

    def _restored(self, seen: Seen, fact: ReplicaRestored) -> None:
        copy = self._truth(fact.topic, fact.partition).copy_on(seen.actor)
        copy.log.restore(fact.end_offset, fact.epochs)
        copy.unread = False

    # --- watermarks --------------------------------------------------------------------------------------------

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        at = (fact.topic, fact.partition)
        truth = self._truth(*at)
        copy = truth.copy_on(seen.actor)
        if truth.unclean_before and fact.leader_epoch < self._epochs.get(at, -1):
            return  # deposed by an unclean election, and does not know it: what only it has is lost already
        name = f"{fact.topic}-{fact.partition}"
        if fact.high_watermark < copy.watermark:
            text = f"{seen.actor}'s high watermark of {name} went back from {copy.watermark} to {fact.high_watermark}"
            self.violation(seen, (name, seen.actor), f"{text} (I7)")
        copy.watermark = fact.high_watermark
        truth.committed_epoch = max(truth.committed_epoch, fact.leader_epoch)
        committed = truth.committed
        same = committed.same_until(copy.log)
        if same < min(committed.end, fact.high_watermark):
            text = (
                f"{seen.actor} shows record {same} of {name} from epoch {copy.log.epoch_at(same)}; "
                f"readers had it from epoch {committed.epoch_at(same)} (I8)"
            )
            self.violation(seen, (name, seen.actor), text)
            committed.cut(same)
        if fact.high_watermark > committed.end:
            truth.committed = copy.log.copy()
            truth.committed.cut(fact.high_watermark)
        self._check_in_sync(seen, at, truth, fact)

    def _check_in_sync(
        self, seen: Seen, at: TopicPartition, truth: PartitionTruth, fact: HighWatermarkAdvanced
    ) -> None:
        """I4. The leader that does not know yet that it is deposed is not asked: its ISR is not the store's."""
        newest = max(copy.epoch for copy in truth.copies.values())
        if fact.leader_epoch < newest:
            return
        for node in self._in_sync.get(at, ()):
            copy = truth.copies.get(f"b{node}")
            end = copy.log.end if copy is not None else 0
            if end < fact.high_watermark and (copy is None or not copy.lost):
                name = f"{at[0]}-{at[1]}"
                text = f"b{node} is in the ISR of {name} with a log to {end}; {seen.actor}'s high watermark"
                self.violation(seen, (name, f"b{node}"), f"{text} is {fact.high_watermark} (I4)")

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        truth = self._partitions.get((fact.topic, fact.partition))
        if truth is None or not truth.copies or not self._acks_all:
            return
        end = fact.base_offset + fact.count
        name = f"{fact.topic}-{fact.partition}"
        lost = truth.unclean_before or any(loss.partition == name for loss in self.losses)
        if end > truth.committed.end and not lost:
            text = (
                f"{seen.actor} was told that all have {name} to {end - 1}; committed is {truth.committed.end - 1} (I5)"
            )
            self.violation(seen, (name, seen.actor), text)

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at = partition_of_state(fact.path)
        if at is None:
            return
        if fact.what == "deleted":
            self._in_sync.pop(at, None)
            self._partitions.pop(at, None)
            return
        state = read_state(fact.data)
        self._in_sync[at], self._epochs[at] = state.isr, state.leader_epoch
        truth = self._truth(*at)
        if at[0] in self._unclean and len(self._in_sync[at]) == 1:
            return  # perhaps an unclean election: its note follows
        for node in self._in_sync[at]:
            copy = truth.copies.get(f"b{node}")
            if copy is not None and copy.log.end < truth.committed.end and not copy.lost and not truth.unclean:
                name = f"{at[0]}-{at[1]}"
                text = f"{fact.client} has b{node} in the ISR of {name}, whose log ends at {copy.log.end}; committed is"
                self.violation(seen, (name, f"b{node}"), f"{text} {truth.committed.end - 1} (I4)")

    # --- hosts -------------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for truth in self._partitions.values():
            copy = truth.copies.get(fact.host)
            if copy is not None:
                copy.leads = False
                if fact.how == "power" and not self._flushes:
                    copy.lost = "storage"

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        for truth in self._partitions.values():
            copy = truth.copies.get(fact.host)
            if copy is not None and not fact.kept_disk:
                copy.lost = "storage"
                copy.log.restore(0, ())
            elif copy is not None:
                copy.unread = True

    def _tail_lost(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(JOURNALS):
            topic, _, number = fact.log.removeprefix(JOURNALS).rpartition("-")
            self._truth(topic, int(number)).copy_on(fact.host).lost = "storage"


def _found(copy: Copy) -> None:
    """A broker that says nothing of a log when it starts has found none."""
    if copy.unread:
        copy.log.restore(0, ())
        copy.unread = False
