"""What a producer has for one partition: batches in order, their sequence numbers, and the one under way."""

from kemu.actors.broker.partition_log import sequence_after

LAST_EPOCH = (1 << 15) - 1


class Batch:
    """Records of one partition that travel together. Grows until it is first sent."""

    __slots__ = ("attempts", "count", "created_us", "in_doubt", "sequence")

    def __init__(self, count: int, created_us: int) -> None:
        self.count = count
        self.created_us = created_us
        self.sequence = -1
        """Its first record's sequence number, once it has one."""
        self.attempts = 0
        self.in_doubt = False
        """An attempt ended without a definite answer: the batch may be in the log."""


class ProduceQueue:
    """One partition's batches, oldest first. The head stays in the queue until it is decided."""

    __slots__ = (
        "batches",
        "epoch",
        "in_flight",
        "index",
        "leader",
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
        """Among all partitions of its producer."""
        self.leader = -1
        """Node id; -1 when nobody is known to lead."""
        self.batches: list[Batch] = []
        self.in_flight: Batch | None = None
        self.not_before_us = 0
        """Backoff of the head."""
        self.producer_id = producer_id
        self.epoch = 0
        self.next_sequence = 0

    def add(self, count: int, now_us: int) -> bool:
        """Put records at the end; whether this began a new batch."""
        if self.batches:
            last = self.batches[-1]
            if last.attempts == 0:
                last.count += count
                return False
        self.batches.append(Batch(count, now_us))
        return True

    def take(self, *, idempotent: bool) -> Batch:
        """The head, on its way from now on, with a sequence number if it is to have one."""
        assert self.in_flight is None, f"partition {self.number}: one batch in flight at a time"
        self.in_flight = head = self.batches[0]
        head.attempts += 1
        if idempotent and head.sequence < 0:
            head.sequence = self.next_sequence
            self.next_sequence = sequence_after(head.sequence, head.count)
        return head

    def drop(self) -> Batch:
        """The head is decided for good."""
        self.in_flight = None
        self.not_before_us = 0
        return self.batches.pop(0)

    def split(self) -> None:
        """Make two batches of the head, which surely is not in the log; they get sequence numbers anew."""
        head = self.batches[0]
        assert head.count > 1 and not head.in_doubt, "only what surely is not in the log may be cut anew"
        second = Batch(head.count - head.count // 2, head.created_us)
        second.attempts = head.attempts  # neither half takes more records
        head.count //= 2
        if head.sequence >= 0:
            self.next_sequence, head.sequence = head.sequence, -1
        self.batches.insert(1, second)

    def begin_epoch(self, new_producer_id: int) -> None:
        """Start again at sequence 0 in the next epoch; with this producer id when epochs have run out."""
        if self.epoch == LAST_EPOCH:
            self.producer_id, self.epoch = new_producer_id, 0
        else:
            self.epoch += 1
        self.next_sequence = 0
        for batch in self.batches:
            batch.sequence = -1
