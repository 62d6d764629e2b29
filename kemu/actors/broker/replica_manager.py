"""The replicas of a broker and their journals on its disk (a part of the replicated broker).

Every change of a log is an entry of the replica's journal. The entry is valid as soon as it is written into the page
cache. The journal is flushed if ``log.flush.interval.messages`` records are unflushed after the entry, or if an
operation requires the flush. The flush scheduler (``log.flush.scheduler.interval.ms``) also flushes logs that were not
flushed for ``log.flush.interval.ms``. Kafka's defaults turn these flushes off: the operating system alone decides when
to write.

The high watermarks are checkpointed from time to time, apart from the journals: after a start they may be outdated.

Source: Kafka 2.8's ``ReplicaManager``, ``LogManager.flushDirtyLogs``, ``Log.append``, ``OffsetCheckpointFile``.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kemu.actors.broker.delayed_fetches import invalidate
from kemu.actors.broker.log_cleaner import TOMBSTONES_MS
from kemu.actors.broker.log_dirs import PLACES, LogDirs
from kemu.actors.broker.partition_log import JOURNALS, start_entry
from kemu.actors.broker.quotas import ReplicationQuota
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_log import (
    ReplicaLog,
    batch_entry,
    cleaned_entry,
    emptied_entry,
    restored,
    truncation_entry,
)
from kemu.actors.broker.retention import Retention
from kemu.actors.broker.rules import ReplicaRules
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Draws, Machine, Record
from kemu.protocol.config import NEVER, BrokerConfig, ReplicaConfig
from kemu.protocol.draws import CALM
from kemu.protocol.dynamic_configs import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
    LOG_FLUSH_INTERVAL_MESSAGES,
    LOG_FLUSH_INTERVAL_MS,
    MIN_INSYNC_REPLICAS,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.data import ReplicaBatch
from kemu.protocol.messages.records import batch_bytes
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.notes.replication import LogCleaned, LogStartMoved, ReplicaRestored, Truncated

US_PER_MS = 1_000
WATERMARKS = "high-watermarks"
"""The disk's name of the checkpoint of high watermarks: (log name, offset) at each change."""
_CHECKPOINT = (BrokerTimer.CHECKPOINT,)
_FLUSH = (BrokerTimer.FLUSH,)
_new = tuple.__new__
_NONE, _OFFLINE = ErrorCode.NONE, Role.OFFLINE


@frozen
class TopicSettings:
    """A topic's properties besides its replicas; None = the broker's default."""

    record_bytes: int = 1_000
    min_in_sync: int | None = None


class JournalWrite(NamedTuple):
    """A write to a replica's journal in progress."""

    replica: Replica
    done: Callable[[ErrorCode], None] | None
    """The function to call when the write is durable, or has failed."""
    flushes: bool


class ReplicaManager:
    """The replicas of a broker and their journals.

    Args:
        node_id: Kafka's broker id.
        topics: the properties of topics besides their replicas.
        rules: the decisions that past bugs change.
        log_dirs: the number of log directories.
        life: the number of the start of the broker's process.
    """

    def __init__(
        self,
        machine: Machine,
        node_id: int,
        config: BrokerConfig,
        replication: ReplicaConfig,
        *,
        topics: Mapping[str, TopicSettings],
        rules: ReplicaRules,
        draws: Draws = CALM,
        log_dirs: int = 1,
        life: int = 0,
    ) -> None:
        self._machine = machine
        self._life = life
        self.dirs = LogDirs(log_dirs)
        self.node_id = node_id
        self.replication = replication
        self.rules = rules
        self.lag_us = replication.replica_lag_time_max_ms * US_PER_MS
        self._config = config
        self.settings: dict[str, dict[str, str]] = {}
        """The known settings in the store: settings of all brokers (under "") and of topics."""
        self.own_settings: dict[str, str] = {}
        """The known settings of this broker alone."""
        self.retention = Retention(machine, config, self.settings, draws)
        self.leader_quota = ReplicationQuota(node_id, LEADER_THROTTLED_REPLICAS, self.settings)
        self.follower_quota = ReplicationQuota(node_id, FOLLOWER_THROTTLED_REPLICAS, self.settings)
        self._flush_messages = config.log_flush_interval_messages
        self._flush_ms = self._flush_interval_ms({})
        self.is_shutting_down = False
        """Whether the process is about to end, so that the broker follows no new leaders."""
        self.replicas: dict[TopicPartition, Replica] = {}
        self.led: dict[TopicPartition, Replica] = {}
        """The replicas that lead."""
        self.served: dict[TopicPartition, Replica] = {}
        """The leading replicas in the metadata cache; the broker serves only these replicas."""
        self.live_brokers: dict[int, ActorName] = {}
        """The live brokers in the last UpdateMetadata."""
        self.writes: dict[int, JournalWrite] = {}
        """Token -> journal write in progress."""
        self._topics = topics
        self._last_token = 0
        self._last_order = 0
        self._found: dict[str, tuple[Record, ...]] = {}
        """The logs on the disk; empty after the start."""
        self._checkpointed: dict[str, int] = {}
        """Log name -> the checkpointed high watermark."""

    @property
    def now_ms(self) -> int:
        """The time of this host's clock in ms, as in records."""
        return self._machine.now_us // US_PER_MS

    def next_order(self) -> int:
        """A number that rises with every call."""
        self._last_order += 1
        return self._last_order

    def create(self, at: TopicPartition) -> Replica:
        """A replica with an empty log and no role."""
        settings = self._topics.get(at[0])
        replica = self.replicas[at] = Replica(
            *at,
            ReplicaLog(),
            record_bytes=settings.record_bytes if settings is not None else 100,
            min_in_sync=self._min_in_sync(at[0]),
            life=self._life,
        )
        replica.flushed_us = self._machine.now_us
        self._write_place(self.dirs.place(replica.log_name))
        return replica

    def remove(self, replica: Replica) -> None:
        """Remove a replica with its log."""
        del self.replicas[replica.at]
        self._write_place(self.dirs.remove(replica.log_name))

    def _write_place(self, row: Record | None) -> None:
        if row is not None:
            self._last_token += 1
            self._machine.write_only(PLACES, (row,), self._last_token)

    def fail_dir(self, number: int) -> list[Replica]:
        """Mark a log directory as failed; returns its replicas that were not offline before."""
        self.dirs.fail(number)
        there = [replica for replica in self.replicas.values() if self.dirs.of(replica.log_name) == number]
        return [replica for replica in there if replica.role is not Role.OFFLINE]

    def configure(self, topic: str, settings: dict[str, str]) -> None:
        """Set the settings of a topic, or ("") of all brokers; the next use of a setting reads the new value."""
        self.settings[topic] = settings
        self.retention.configured()
        if topic == ALL_BROKERS:
            self._flush_messages = int(
                settings.get(LOG_FLUSH_INTERVAL_MESSAGES, self._config.log_flush_interval_messages)
            )
            self._flush_ms = self._flush_interval_ms(settings)
        for replica in self.replicas.values():
            if topic in (ALL_BROKERS, replica.topic):
                replica.min_in_sync = self._min_in_sync(replica.topic)

    def enough_in_sync(self, replica: Replica, *, maximal: bool = False) -> bool:
        """Whether the ISR allows an append with acks=all.

        ``maximal``: the check after the append, which includes replicas that are about to join the ISR.
        """
        least = replica.min_in_sync
        if self.rules.min_isr_holds_watermark:
            least = min(least, len(replica.replicas))
        return len(replica.in_sync.maximal if maximal else replica.in_sync.members) >= least

    def _min_in_sync(self, topic: str) -> int:
        """The topic's own setting; without it, the setting of all brokers, or the start configuration's value."""
        own, known = self.settings.get(topic), self._topics.get(topic)
        if own is not None and MIN_INSYNC_REPLICAS in own:
            return int(own[MIN_INSYNC_REPLICAS])
        if own is None and known is not None and known.min_in_sync is not None:
            return known.min_in_sync
        return int(self.settings.get(ALL_BROKERS, {}).get(MIN_INSYNC_REPLICAS, self.replication.min_insync_replicas))

    def _flush_interval_ms(self, settings: Mapping[str, str]) -> int:
        """The time that a log may be unflushed before the scheduler flushes it."""
        config = self._config
        given = config.log_flush_interval_ms
        default = config.log_flush_scheduler_interval_ms if given is None else given
        return int(settings.get(LOG_FLUSH_INTERVAL_MS, default))

    def configure_own(self, settings: dict[str, str]) -> None:
        """Set the settings of this broker alone."""
        self.own_settings.clear()
        self.own_settings.update(settings)
        self.leader_quota.configure(settings.get(LEADER_THROTTLED_RATE))
        self.follower_quota.configure(settings.get(FOLLOWER_THROTTLED_RATE))

    # --- start -------------------------------------------------------------------------------------------------

    def found(self, log: str, records: tuple[Record, ...]) -> None:
        """Remember the records of a log from the disk, until ``restore`` loads the log."""
        self._found[log] = records

    def restore(self) -> None:
        """Load the logs of the disk. Their replicas have no role until the controller assigns a role."""
        watermarks = dict(self._found.pop(WATERMARKS, ()))
        self.dirs.found(self._found.pop(PLACES, ()))
        for journal, records in sorted(self._found.items()):
            log = restored(records) if journal.startswith(JOURNALS) else None
            if log is None:
                continue
            name = journal.removeprefix(JOURNALS)
            topic, _, number = name.rpartition("-")
            checkpoint = watermarks.get(name.encode())
            log.high_watermark = min(log.end_offset, max(log.start_offset, int(checkpoint or b"0")))
            self._checkpointed[name] = log.high_watermark
            self.create((topic, int(number))).log = log
            self._machine.note(
                ReplicaRestored(
                    topic=topic,
                    partition=int(number),
                    end_offset=log.end_offset,
                    high_watermark=log.high_watermark,
                    epochs=log.epochs.entries,
                )
            )
        self._found.clear()
        self._checkpoint_later()
        self.retention.started()
        self._machine.start_timer(_FLUSH, self._config.emulated_first_flush_check_ms * US_PER_MS)

    # --- journals ----------------------------------------------------------------------------------------------

    def write_journal(
        self, replica: Replica, records: tuple[Record, ...], done: Callable[[ErrorCode], None] | None = None
    ) -> None:
        """Add entries to a replica's journal for a change of its log. ``done`` is called when the entries
        are durable.
        """
        log = replica.log
        flushes = done is not None or log.end_offset - log.flushed_end >= self._flush_messages
        self._last_token = token = self._last_token + 1
        self.writes[token] = _new(JournalWrite, (replica, done, flushes))
        replica.writes[token] = log.end_offset
        if flushes:
            replica.flushed_us = self._machine.now_us
            self._machine.append(replica.journal, records, token)
        else:
            self._machine.write_only(replica.journal, records, token)

    def write_batches(self, replica: Replica, batches: tuple[ReplicaBatch, ...]) -> None:
        """Write appended batches to the journal."""
        self.write_journal(replica, tuple(entry for batch in batches for entry in batch_entry(batch)))

    def written(self, token: int, error: ErrorCode) -> Replica | None:
        """End a write that is durable, or failed; returns its replica, if it still exists and is not offline."""
        write = self.writes.pop(token, None)
        if write is None:
            return None  # a checkpoint, or the place of a log
        replica = write.replica
        if error is _NONE:
            replica.written(token, flushed=write.flushes)
        else:
            replica.writes.pop(token)
        if write.done is not None:
            write.done(error)
        is_ours = self.replicas.get(replica.at) is replica and replica.role is not _OFFLINE
        return replica if is_ours else None

    def truncate(self, replica: Replica, end_offset: int, why: str) -> None:
        """Truncate a replica's log to this end, if it is longer. Removed epochs without records are journaled, too."""
        if end_offset < replica.log.start_offset:
            self.empty(replica, end_offset, why)
            return
        old, epochs = replica.log.end_offset, replica.log.epochs.entries
        shorter = replica.truncate_to(end_offset)
        if shorter or replica.log.epochs.entries != epochs:
            self.write_journal(replica, (truncation_entry(end_offset),))
        if shorter:
            self._machine.note(
                Truncated(
                    topic=replica.topic,
                    partition=replica.number,
                    leader_epoch=replica.leader_epoch,
                    old_end_offset=old,
                    end_offset=end_offset,
                    why=why,
                )
            )

    def advance_start(self, replica: Replica, start_offset: int, why: str) -> None:
        """Delete the records of a replica's log below this offset, if the log has any."""
        if not replica.log.advance_start(start_offset):
            return
        invalidate(replica.waiters)
        self.write_journal(replica, (start_entry(start_offset),))
        for follower in replica.followers.values():
            follower.sent_watermark = -1  # the next answer reports the new start, even without other changes
        self._note_start(replica, why)

    def delete_expired(self) -> None:
        """Delete segments of local logs beyond the retention limits, when the timer RETENTION fired."""
        for replica in self.replicas.values():
            if replica.role is not Role.OFFLINE and self.retention.deletes(replica.topic):
                policy = self.retention.policy(replica.topic)
                start_offset = policy.start_of(replica.log, replica.record_bytes, self.now_ms)
                self.advance_start(replica, start_offset, "retention")
        self.retention.due()

    def clean(self, replica: Replica, batches: tuple[ReplicaBatch, ...]) -> None:
        """Clean a log of ``__consumer_offsets`` if these new batches close a segment of the log."""
        log, config, due = replica.log, self._config, 0
        limits = {"segment_bytes": config.offsets_topic_segment_bytes, "segment_ms": config.log_roll_ms}
        for batch in batches:
            size = batch_bytes(batch.records) if batch.records else 0
            if replica.segments.append(size, batch.append_time_ms, **limits):
                due = batch.base_offset
        end_offset = min(due, log.high_watermark)
        if end_offset <= 0:
            return
        since_ms = self.now_ms - TOMBSTONES_MS
        removed = log.clean(end_offset, since_ms)
        replica.segments.cleaned(log.cleaned_bytes(end_offset))
        if removed:
            self.write_journal(replica, (cleaned_entry(end_offset, since_ms),))
            self._machine.note(
                LogCleaned(
                    topic=replica.topic, partition=replica.number, end_offset=end_offset, removed_records=removed
                )
            )

    def empty(self, replica: Replica, start_offset: int, why: str) -> None:
        """Remove all records of a replica's log, which continues at this offset."""
        replica.empty(start_offset)
        self.write_journal(replica, (emptied_entry(start_offset),))
        self._note_start(replica, why)

    def _note_start(self, replica: Replica, why: str) -> None:
        log = replica.log
        self._machine.note(
            LogStartMoved(
                topic=replica.topic,
                partition=replica.number,
                start_offset=log.start_offset,
                end_offset=log.end_offset,
                why=why,
            )
        )

    def flush_due(self) -> None:
        """Flush logs that were not flushed for too long, when the timer FLUSH fired."""
        interval_ms = self._config.log_flush_scheduler_interval_ms
        if interval_ms < NEVER:
            self._machine.start_timer(_FLUSH, interval_ms * US_PER_MS)
        for replica in self.replicas.values():
            if self._machine.now_us - replica.flushed_us >= self._flush_ms * US_PER_MS:
                self._flush(replica)

    def flush_all(self) -> None:
        """Flush all logs, which are being closed."""
        for replica in self.replicas.values():
            self._flush(replica)

    def _flush(self, replica: Replica) -> None:
        if replica.role is not Role.OFFLINE and replica.log.flushed_end < replica.log.end_offset:
            replica.flushed_us, replica.log.flushed_end = self._machine.now_us, replica.log.end_offset
            self._machine.flush(replica.journal)

    # --- high watermarks ---------------------------------------------------------------------------------------

    def checkpoint_due(self) -> None:
        """Checkpoint the high watermarks when the timer CHECKPOINT fired."""
        self.checkpoint()
        self._checkpoint_later()

    def _checkpoint_later(self) -> None:
        interval_ms = self.replication.replica_high_watermark_checkpoint_interval_ms
        self._machine.start_timer(_CHECKPOINT, interval_ms * US_PER_MS)

    def checkpoint(self) -> None:
        """Checkpoint the high watermarks that changed."""
        rows: list[Record] = []
        for replica in self.replicas.values():
            offset = replica.log.high_watermark
            if self._checkpointed.get(replica.log_name) != offset:
                self._checkpointed[replica.log_name] = offset
                rows.append((replica.log_name.encode(), str(offset).encode()))
        if rows:
            self._write_watermarks(tuple(rows))

    def forget_watermark(self, replica: Replica) -> None:
        """Reset the checkpoint of a deleted replica, if the checkpoint exists."""
        if self._checkpointed.pop(replica.log_name, None) is not None:
            self._write_watermarks(((replica.log_name.encode(), b"0"),))

    def _write_watermarks(self, rows: tuple[Record, ...]) -> None:
        self._last_token += 1
        self._machine.append(WATERMARKS, rows, self._last_token)
