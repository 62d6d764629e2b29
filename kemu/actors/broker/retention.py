"""Retention: a broker deletes whole old segments, or segments beyond the size limit, from the start of its logs.

The content of a log determines its segments. A batch starts a new segment if the batch would make the current segment
too large. A batch also starts a new segment if it is appended too long after the current segment's first batch. A
segment is deleted when its last record is older than ``retention.ms``, or while at least ``retention.bytes`` would
remain. The whole segment must be below the high watermark. The last segment is deleted by age only. Every broker
deletes segments of its own replicas.

``__consumer_offsets`` is compacted (``log_cleaner``), not deleted. No check runs while no record can expire: with
Kafka's defaults (a week, any size) no run has a check. Not emulated: ``file.delete.delay.ms``, compaction of other
topics.

Source: Kafka 2.8's ``Log.deleteOldSegments``, ``LogSegment.shouldRoll``, ``LogManager.cleanupLogs``.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kemu.actors.broker.partition_log import PartitionLog
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Draws, Machine
from kemu.protocol.config import BrokerConfig
from kemu.protocol.draws import DrawName
from kemu.protocol.dynamic_configs import (
    ALL_BROKERS,
    LOG_RETENTION_BYTES,
    LOG_RETENTION_MS,
    LOG_ROLL_MS,
    LOG_SEGMENT_BYTES,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    SEGMENT_MS,
)
from kemu.protocol.names import OFFSETS_TOPIC

FIRST_LOOK_US = 30_000_000
"""The time from a broker's start to its first check. Source: ``LogManager.InitialTaskDelayMs``."""
UNLIMITED = -1
_TIMER = (BrokerTimer.RETENTION,)
_DEFAULTS = BrokerConfig()


class RetentionPolicy(NamedTuple):
    """The retention of a topic's records (ms, -1 = forever), their maximum size, and the limits of segments."""

    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int

    @property
    def may_delete(self) -> bool:
        """Whether a record may expire. False for Kafka's default of a week, as runs are shorter."""
        return self.retention_bytes >= 0 or 0 <= self.retention_ms < _DEFAULTS.log_retention_ms

    def start_of(self, log: PartitionLog, record_bytes: int, now_ms: int) -> int:
        """The log's start after the deletion of all expired segments."""
        start, upto = log.start_offset, log.high_watermark
        over_bytes = (log.end_offset - start) * record_bytes - self.retention_bytes if self.retention_bytes >= 0 else -1
        for end, latest_ms, is_last in self._segments(log, record_bytes):
            segment_bytes = (end - start) * record_bytes
            aged = 0 <= self.retention_ms < now_ms - latest_ms
            too_much = not is_last and over_bytes >= segment_bytes
            if end > upto or not (aged or too_much):
                break
            over_bytes -= segment_bytes
            start = end
        return start

    def _segments(self, log: PartitionLog, record_bytes: int) -> Iterator[tuple[int, int, bool]]:
        """(end, time of its latest record, whether it is the last segment) of each segment, oldest first."""
        base, first_ms, latest_ms, end = log.start_offset, -1, -1, log.start_offset
        for batch in log.ranges():
            after, time_ms = batch.base_offset + batch.count, batch.append_time_ms
            full = (after - base) * record_bytes > self.segment_bytes or time_ms - first_ms > self.segment_ms
            if end > base and full:
                yield end, latest_ms, False
                base = end
            if end == base:
                first_ms = latest_ms = time_ms
            latest_ms, end = max(latest_ms, time_ms), after
        if end > base:
            yield end, latest_ms, True


class Retention:
    """The schedule of retention checks, and each topic's policy.

    Args:
        settings: the known settings of topics and (under "") of all brokers; read at each use.
    """

    def __init__(
        self, machine: Machine, config: BrokerConfig, settings: Mapping[str, Mapping[str, str]], draws: Draws
    ) -> None:
        self._machine = machine
        self._config = config
        self._settings = settings
        self._draws = draws
        self._next_us = -1
        """The time of the next check; -1 before the start."""
        self._is_waiting = False

    def policy(self, topic: str) -> RetentionPolicy:
        """The topic's own settings; missing ones are the settings of all brokers, or of the start configuration."""
        config, own, all_brokers = self._config, self._settings.get(topic, {}), self._settings.get(ALL_BROKERS, {})

        def value(topic_key: str, broker_key: str, default: int) -> int:
            return int(own.get(topic_key, all_brokers.get(broker_key, default)))

        return RetentionPolicy(
            value(RETENTION_MS, LOG_RETENTION_MS, config.log_retention_ms),
            value(RETENTION_BYTES, LOG_RETENTION_BYTES, config.log_retention_bytes),
            value(SEGMENT_BYTES, LOG_SEGMENT_BYTES, config.log_segment_bytes),
            value(SEGMENT_MS, LOG_ROLL_MS, config.log_roll_ms),
        )

    def deletes(self, topic: str) -> bool:
        """Whether records of a topic may expire."""
        return topic != OFFSETS_TOPIC and self.policy(topic).may_delete

    def started(self) -> None:
        """Schedule the first check when the broker starts."""
        self._next_us = self._machine.now_us + FIRST_LOOK_US
        self.configured()

    def hours_pass(self) -> None:
        """Move the next check to a random point of its interval."""
        if self._is_waiting:
            every_us = self._config.log_retention_check_interval_ms * 1_000
            self._next_us = self._machine.now_us + self._draws.us(DrawName.RETENTION_CHECK_PHASE, every_us, every_us)
            self._wait()

    def configured(self) -> None:
        """Schedule checks after settings changed, if records may expire now."""
        if self._next_us >= 0 and not self._is_waiting and any(map(self.deletes, [ALL_BROKERS, *self._settings])):
            every_us = self._config.log_retention_check_interval_ms * 1_000
            late_us = self._machine.now_us - self._next_us
            if late_us > 0:
                self._next_us += -(-late_us // every_us) * every_us
            self._wait()

    def due(self) -> None:
        """Schedule the next check, after the timer RETENTION fired and the check is done."""
        self._is_waiting = False
        self._next_us = self._machine.now_us + self._config.log_retention_check_interval_ms * 1_000
        self.configured()

    def _wait(self) -> None:
        self._is_waiting = True
        self._machine.start_timer(_TIMER, self._next_us - self._machine.now_us)
