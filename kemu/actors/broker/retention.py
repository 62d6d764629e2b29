"""What a broker deletes from the beginning of its logs: whole segments that are too old, or beyond the size.

A log's segments follow from what is in it: from the log's start on, a batch that would make its segment too large, or
that was appended too long after the segment's first one, begins another. A segment goes when its last record is older
than ``retention.ms``, or while what would be left is at least ``retention.bytes``; all of it must be below the high
watermark. The last one goes by age only. Every replica is looked after by its own broker.

``__consumer_offsets`` is compacted, not deleted. Nobody looks while nothing here can expire: with Kafka's defaults (a
week, any size) that is so in every run. Not emulated: ``file.delete.delay.ms``, compaction.

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
"""How long after its start a broker looks first. Source: ``LogManager.InitialTaskDelayMs``."""
UNLIMITED = -1
_TIMER = (BrokerTimer.RETENTION,)
_DEFAULTS = BrokerConfig()


class RetentionPolicy(NamedTuple):
    """How long the records of a topic are kept (ms, -1 = for ever), how many bytes of them, and how segments end."""

    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int

    @property
    def bites(self) -> bool:
        """Whether anything may expire: not by Kafka's default of a week, which no run lasts longer than."""
        return self.retention_bytes >= 0 or 0 <= self.retention_ms < _DEFAULTS.log_retention_ms

    def start_of(self, log: PartitionLog, record_bytes: int, now_ms: int) -> int:
        """Where a log starts after all segments that may go are gone."""
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
        """(end, time of its latest record, whether it is the last one) of each segment, oldest first."""
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
    """When a broker looks, and what each topic's policy is.

    Args:
        told: the settings of topics and (under "") of all brokers that the broker was told of; read when needed.
    """

    def __init__(
        self, machine: Machine, config: BrokerConfig, told: Mapping[str, Mapping[str, str]], draws: Draws
    ) -> None:
        self._machine = machine
        self._config = config
        self._told = told
        self._draws = draws
        self._next_us = -1
        """When the next look is due; -1 before the start."""
        self._is_waiting = False

    def policy(self, topic: str) -> RetentionPolicy:
        """A topic's own settings, else those of all brokers, else what the broker started with."""
        config, own, all_brokers = self._config, self._told.get(topic, {}), self._told.get(ALL_BROKERS, {})

        def value(topic_key: str, broker_key: str, default: int) -> int:
            return int(own.get(topic_key, all_brokers.get(broker_key, default)))

        return RetentionPolicy(
            value(RETENTION_MS, LOG_RETENTION_MS, config.log_retention_ms),
            value(RETENTION_BYTES, LOG_RETENTION_BYTES, config.log_retention_bytes),
            value(SEGMENT_BYTES, LOG_SEGMENT_BYTES, config.log_segment_bytes),
            value(SEGMENT_MS, LOG_ROLL_MS, config.log_roll_ms),
        )

    def deletes(self, topic: str) -> bool:
        """Whether records of a topic may expire at all."""
        return topic != OFFSETS_TOPIC and self.policy(topic).bites

    def started(self) -> None:
        """The broker starts."""
        self._next_us = self._machine.now_us + FIRST_LOOK_US
        self.configured()

    def hours_pass(self) -> None:
        """Looks are at any moment of their interval."""
        if self._is_waiting:
            every_us = self._config.log_retention_check_interval_ms * 1_000
            self._next_us = self._machine.now_us + self._draws.us(DrawName.RETENTION_CHECK_PHASE, every_us, every_us)
            self._wait()

    def configured(self) -> None:
        """Settings changed: look when it is time, if anything may expire now."""
        if self._next_us >= 0 and not self._is_waiting and any(map(self.deletes, [ALL_BROKERS, *self._told])):
            every_us = self._config.log_retention_check_interval_ms * 1_000
            late_us = self._machine.now_us - self._next_us
            if late_us > 0:
                self._next_us += -(-late_us // every_us) * every_us
            self._wait()

    def due(self) -> None:
        """RETENTION fired, and the broker looked."""
        self._is_waiting = False
        self._next_us = self._machine.now_us + self._config.log_retention_check_interval_ms * 1_000
        self.configured()

    def _wait(self) -> None:
        self._is_waiting = True
        self._machine.start_timer(_TIMER, self._next_us - self._machine.now_us)
