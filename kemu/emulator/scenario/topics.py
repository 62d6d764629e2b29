"""A topic of a scenario."""

from attrs import field, frozen
from attrs.converters import optional

from kemu.emulator.plan.known import MOST_BROKERS
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.tables import Problem
from kemu.emulator.text.units import microseconds, rate_per_s, words
from kemu.protocol.dynamic_configs import RETENTION_BYTES, RETENTION_MS, SEGMENT_BYTES, SEGMENT_MS
from kemu.protocol.reassign.requests import list_error

MOST_PARTITIONS = 100_000


@frozen(kw_only=True)
class TopicSpec:
    """A topic, and the load its producer puts on it (over all partitions; 0 = no producer).

    ``replication_factor``, ``min_isr``, ``unclean``: where brokers replicate; None = as they do (``ReplicationSpec``).
    ``initial_records``: what is in each of its partitions' logs, and committed, before anybody starts.
    ``retention_us``, ``retention_bytes``, ``segment_us``, ``segment_bytes``: what of it brokers delete, and in which
    pieces; None = as they have it (``log.retention.ms`` and so on of ``brokers.config``).
    ``assignment``: there, too: one text per partition, its brokers' ids, the preferred leader first; () = they are
    placed as Kafka places them.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    partitions: int = field(metadata=key("how many", at_least=1, at_most=MOST_PARTITIONS, always=True, short=True))
    records_per_s: int = field(
        default=10,
        converter=rate_per_s,
        metadata=key("records per second over all partitions", at_least=0, at_most=10_000_000, always=True, short=True),
    )
    record_bytes: int = field(
        default=1_000, metadata=key("size of a record", at_least=1, at_most=1_000_000_000, short=True)
    )
    replication_factor: int | None = field(
        default=None,
        metadata=key("its replicas, where brokers replicate", at_least=1, at_most=MOST_BROKERS, shown="theirs"),
    )
    min_isr: int | None = field(
        default=None,
        metadata=key(
            "its own min.insync.replicas, where brokers replicate", at_least=1, at_most=MOST_BROKERS, shown="theirs"
        ),
    )
    unclean: bool | None = field(
        default=None,
        metadata=key("its own unclean.leader.election.enable, where brokers replicate", shown="theirs"),
    )
    initial_records: int = field(
        default=0,
        metadata=key("records in each partition's log before the run", at_least=0, at_most=(1 << 31) - 1, short=True),
    )
    retention_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key("its own retention.ms: how long its records are kept", at_least=1_000, shown="a week"),
    )
    retention_bytes: int | None = field(
        default=None,
        metadata=key("its own retention.bytes, of each partition", at_least=0, shown="without a limit"),
    )
    segment_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key(
            "its own segment.ms: after how long a log goes on in another segment", at_least=1_000, shown="a week"
        ),
    )
    segment_bytes: int | None = field(
        default=None,
        metadata=key("its own segment.bytes", at_least=14, at_most=(1 << 31) - 1, shown="1 GiB"),
    )
    assignment: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key('the brokers of each partition, where brokers replicate: ["0 1 2", "1 2 3"]', shown="placed"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
        if self.assignment:
            refuse(self._misplaced())

    def _misplaced(self) -> list[Problem]:
        """What is wrong with the assignment by itself."""
        rows = self.assignment
        if not all(part.isdecimal() for row in rows for part in row.split()):
            return [Problem(("assignment",), 'must be the broker ids of each partition, as in ["0 1 2", "1 2 3"]')]
        if len(rows) != self.partitions:
            return [Problem(("assignment",), f"has {len(rows)} rows for {self.partitions} partitions")]
        for number, brokers in enumerate(self.placed()):
            if wrong := list_error(brokers):
                return [Problem(("assignment",), f"of partition {number}: {wrong}")]
            if len(brokers) != (self.replication_factor or len(self.placed()[0])):
                return [Problem(("assignment",), f"gives partition {number} another number of replicas")]
        return []

    def settings(self) -> tuple[tuple[str, str], ...]:
        """What it has of its own that every broker heeds, by Kafka's keys."""
        given = (
            (RETENTION_MS, None if self.retention_us is None else self.retention_us // 1_000),
            (RETENTION_BYTES, self.retention_bytes),
            (SEGMENT_MS, None if self.segment_us is None else self.segment_us // 1_000),
            (SEGMENT_BYTES, self.segment_bytes),
        )
        return tuple((name, str(value)) for name, value in given if value is not None)

    def placed(self) -> tuple[tuple[int, ...], ...]:
        """The brokers of each partition as the scenario says; () if it does not."""
        return tuple(tuple(int(broker) for broker in row.split()) for row in self.assignment)
