"""A producer's queue for one partition: batches in order, their sequence numbers, and the batch in flight."""

from kemu.actors.broker.partition_log import sequence_after

LAST_EPOCH = (1 << 15) - 1


class Batch:
    """A batch of records of one partition. The batch grows until its first attempt."""

    __slots__ = ("attempts", "attempts_before", "count", "created_us", "in_doubt", "leader_epoch", "sequence")

    def __init__(self, count: int, created_us: int) -> None:
        self.count = count
        self.created_us = created_us
        self.sequence = -1
        """The sequence number of the first record; -1: not assigned yet."""
        self.attempts = 0
        self.in_doubt = False
        """Whether an attempt ended without a definite answer, so that the batch may be in the log."""
        self.leader_epoch = -1
        """The highest known epoch of the leader when the batch could be sent."""
        self.attempts_before = 0
        """The number of attempts before this epoch was known."""

    def see_leader(self, epoch: int) -> bool:
        """Note the leader epoch in the metadata. Returns whether the next attempt is the first one since a newer leader
        is known, so that the batch need not wait for its backoff.

        Source: ``ProducerBatch.maybeUpdateLeaderEpoch``, ``hasLeaderChangedForTheOngoingRetry`` (3.7 to 4.3).
        """
        if epoch > self.leader_epoch:
            self.leader_epoch, self.attempts_before = epoch, self.attempts
        return self.attempts == self.attempts_before


class ProduceQueue:
    """The batches of one partition, oldest first. The first batch remains queued until it is acknowledged or failed."""

    __slots__ = (
        "batches",
        "epoch",
        "in_flight",
        "index",
        "leader",
        "leader_epoch",
        "next_sequence",
        "not_before_us",
        "number",
        "producer_id",
        "topic",
    )

    def __init__(self, topic: str, number: int, index: int, producer_id: int) -> None:
        self.topic = topic
        self.number = number
        self.index = index
        """The queue's index among all partitions of its producer."""
        self.leader = -1
        """The node id of the leader; -1: unknown."""
        self.leader_epoch = -1
        """The epoch of this leader in the metadata."""
        self.batches: list[Batch] = []
        self.in_flight: Batch | None = None
        self.not_before_us = 0
        """The end of the first batch's backoff."""
        self.producer_id = producer_id
        self.epoch = 0
        self.next_sequence = 0

    def add(self, count: int, now_us: int) -> bool:
        """Append records. Returns whether the records began a new batch."""
        if self.batches:
            last = self.batches[-1]
            if last.attempts == 0:
                last.count += count
                return False
        self.batches.append(Batch(count, now_us))
        return True

    def take(self, *, idempotent: bool) -> Batch:
        """Mark the first batch as in flight and return it. An idempotent producer's batch gets its sequence number."""
        assert self.in_flight is None, f"partition {self.number}: one batch in flight at a time"
        self.in_flight = head = self.batches[0]
        if not head.attempts:
            head.leader_epoch = self.leader_epoch
        head.attempts += 1
        if idempotent and head.sequence < 0:
            head.sequence = sequence = self.next_sequence
            self.next_sequence = sequence_after(sequence, head.count)
        return head

    def drop(self) -> Batch:
        """Remove the first batch, which is acknowledged or failed."""
        self.in_flight = None
        self.not_before_us = 0
        return self.batches.pop(0)

    def split(self) -> None:
        """Split the first batch, which is certainly not in the log, into two batches with new sequence numbers."""
        head = self.batches[0]
        assert head.count > 1 and not head.in_doubt, "only a batch that is definitely not in the log may be split"
        second = Batch(head.count - head.count // 2, head.created_us)
        second.attempts = head.attempts  # so that neither half grows
        head.count //= 2
        if head.sequence >= 0:
            self.next_sequence, head.sequence = head.sequence, -1
        self.batches.insert(1, second)

    def begin_epoch(self, new_producer_id: int) -> None:
        """Restart at sequence 0 in the next epoch; after the last epoch, with this new producer id."""
        if self.epoch == LAST_EPOCH:
            self.producer_id, self.epoch = new_producer_id, 0
        else:
            self.epoch += 1
        self.next_sequence = 0
        for batch in self.batches:
            batch.sequence = -1
