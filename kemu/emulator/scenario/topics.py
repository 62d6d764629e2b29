"""A topic of a scenario."""

from collections.abc import Iterator

from attrs import field
from attrs.converters import optional

from kemu.emulator.plan.known import MOST_BROKERS
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.tables import Problem
from kemu.emulator.text.units import counts, microseconds, rate_per_s, words
from kemu.protocol.dynamic_configs import RETENTION_BYTES, RETENTION_MS, SEGMENT_BYTES, SEGMENT_MS
from kemu.protocol.frozen import frozen
from kemu.protocol.reassign.requests import list_error

MOST_PARTITIONS = 100_000


@frozen(kw_only=True)
class TopicSpec:
    """A topic and the load of its producer.

    ``records_per_s`` is the rate of all partitions together; 0 means no producer. ``shares`` has the relative load of
    each partition: 3 gets three times the records of 1, and 0 gets none. () means an equal load. Further partitions get
    the smallest share. ``replication_factor``, ``min_isr`` and ``unclean`` apply to replicated brokers; None means the
    value of ``ReplicationSpec``. ``initial_records``: number of committed records in each partition's log before the
    run; ``initial_records_each`` has a number for each partition, and further partitions are empty. ``retention_us``,
    ``retention_bytes``, ``segment_us`` and ``segment_bytes`` are the topic's own retention settings; None means the
    brokers' settings, such as ``log.retention.ms``. ``assignment`` has one text per partition with the ids of its
    replicas, the preferred leader first; further partitions get Kafka's placement.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    partitions: int = field(
        metadata=key("number of partitions", at_least=1, at_most=MOST_PARTITIONS, always=True, short=True)
    )
    records_per_s: int = field(
        default=10,
        converter=rate_per_s,
        metadata=key(
            "records per second, summed over all partitions", at_least=0, at_most=10_000_000, always=True, short=True
        ),
    )
    shares: tuple[int, ...] = field(
        default=(),
        converter=counts,
        metadata=key(
            "relative load of each partition: [90, 5, 5]; further partitions get the smallest share",
            at_least=0,
            at_most=1_000_000_000,
            shown="an equal load",
        ),
    )
    record_bytes: int = field(
        default=1_000, metadata=key("size of a record in bytes", at_least=1, at_most=1_000_000_000, short=True)
    )
    replication_factor: int | None = field(
        default=None,
        metadata=key("number of replicas", at_least=1, at_most=MOST_BROKERS, shown="brokers.replication.factor"),
    )
    min_isr: int | None = field(
        default=None,
        metadata=key(
            "min.insync.replicas of the topic", at_least=1, at_most=MOST_BROKERS, shown="brokers.replication.min_isr"
        ),
    )
    unclean: bool | None = field(
        default=None,
        metadata=key("unclean.leader.election.enable of the topic", shown="brokers.replication.unclean"),
    )
    initial_records: int = field(
        default=0,
        metadata=key(
            "records in each partition's log before the run starts", at_least=0, at_most=(1 << 31) - 1, short=True
        ),
    )
    initial_records_each: tuple[int, ...] = field(
        default=(),
        converter=counts,
        metadata=key(
            "records in the log of each partition before the run starts: [40000, 0, 70]; further partitions are empty",
            at_least=0,
            at_most=(1 << 31) - 1,
            shown="initial_records in each",
        ),
    )
    retention_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key("retention.ms of the topic", at_least=1_000, shown="a week"),
    )
    retention_bytes: int | None = field(
        default=None,
        metadata=key("retention.bytes of the topic, per partition", at_least=0, shown="no limit"),
    )
    segment_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key(
            "segment.ms of the topic: longest time until a log starts a new segment", at_least=1_000, shown="a week"
        ),
    )
    segment_bytes: int | None = field(
        default=None,
        metadata=key("segment.bytes of the topic", at_least=14, at_most=(1 << 31) - 1, shown="1 GiB"),
    )
    assignment: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key('broker ids of each partition\'s replicas: ["0 1 2", "1 2 3"]', shown="Kafka's placement"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
        refuse(self._misshared())
        if self.assignment:
            refuse(self._misplaced())

    def _misshared(self) -> Iterator[Problem]:
        """Yield the mistakes in the lists with a number for each partition."""
        for name, numbers in (
            ("shares", self.shares),
            ("initial_records_each", self.initial_records_each),
        ):
            if len(numbers) > self.partitions:
                yield Problem((name,), f"has {len(numbers)} numbers for {self.partitions} partitions")
        if self.shares and not any(self.shares):
            yield Problem(("shares",), "needs at least one number above 0")
        if self.initial_records and self.initial_records_each:
            text = 'and "initial_records" exclude each other: give one of them'
            yield Problem(("initial_records_each",), text)

    def _misplaced(self) -> list[Problem]:
        """Return the mistakes in ``assignment`` that do not depend on the brokers."""
        rows = self.assignment
        if not all(part.isdecimal() for row in rows for part in row.split()):
            return [Problem(("assignment",), 'must be the broker ids of each partition, as in ["0 1 2", "1 2 3"]')]
        if len(rows) > self.partitions:
            return [Problem(("assignment",), f"has {len(rows)} rows for {self.partitions} partitions")]
        placed = self.placed()
        for number, brokers in enumerate(placed):
            if wrong := list_error(brokers):
                return [Problem(("assignment",), f"of partition {number}: {wrong}")]
            if len(brokers) != (self.replication_factor or len(placed[0])):
                return [Problem(("assignment",), f"gives partition {number} another number of replicas")]
        return []

    def settings(self) -> tuple[tuple[str, str], ...]:
        """Return the topic's own retention settings as (Kafka's key, value)."""
        given = (
            (RETENTION_MS, None if self.retention_us is None else self.retention_us // 1_000),
            (RETENTION_BYTES, self.retention_bytes),
            (SEGMENT_MS, None if self.segment_us is None else self.segment_us // 1_000),
            (SEGMENT_BYTES, self.segment_bytes),
        )
        return tuple((name, str(value)) for name, value in given if value is not None)

    def share_of_busiest(self) -> tuple[int, int]:
        """Return the share of the partition with the most load, and the sum of the shares, at the start."""
        if not self.shares:
            return 1, 1
        return max(self.shares), sum(self.shares) + min(self.shares) * (self.partitions - len(self.shares))

    def filled(self) -> tuple[int, ...]:
        """Return the number of records in each partition's log before the run; () if all logs are empty."""
        given = self.initial_records_each
        if self.initial_records:
            return (self.initial_records,) * self.partitions
        return (*given, *(0,) * (self.partitions - len(given))) if any(given) else ()

    def placed(self) -> tuple[tuple[int, ...], ...]:
        """Return the broker ids in ``assignment`` by partition; () without an assignment."""
        return tuple(tuple(int(broker) for broker in row.split()) for row in self.assignment)
