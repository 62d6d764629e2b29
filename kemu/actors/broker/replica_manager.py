"""The replicas of a broker and their journals on its disk (a part of the replicated broker).

Every change of a log is an entry of the replica's journal. It is written into the page cache, and counts then; unless
``log.flush.interval.messages`` records stand unflushed with it, or something waits until it is durable: then it is
flushed. A log is also flushed when the flush scheduler looks
(``log.flush.scheduler.interval.ms``) and it was not for ``log.flush.interval.ms``. All that is off as Kafka comes: the
system writes back when it likes.

The high watermarks are written down from time to time, apart from the journals: after a start they may be behind.

Source: Kafka 2.8's ``ReplicaManager``, ``LogManager.flushDirtyLogs``, ``Log.append``, ``OffsetCheckpointFile``.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from attrs import frozen

from kemu.actors.broker.delayed_fetches import look_again
from kemu.actors.broker.log_dirs import PLACES, LogDirs
from kemu.actors.broker.partition_log import start_entry
from kemu.actors.broker.quotas import ReplicationQuota
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_log import JOURNALS, ReplicaLog, batch_entry, cut_entry, emptied_entry, restored
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
from kemu.protocol.messages.data import ReplicaBatch
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.notes.replication import LogStartMoved, ReplicaRestored, Truncated

US_PER_MS = 1_000
WATERMARKS = "high-watermarks"
"""The disk's name of the checkpoint of high watermarks: (log name, offset) at each change."""
_CHECKPOINT = (BrokerTimer.CHECKPOINT,)
_FLUSH = (BrokerTimer.FLUSH,)
_new = tuple.__new__
_NONE, _OFFLINE = ErrorCode.NONE, Role.OFFLINE


@frozen
class TopicSettings:
    """What brokers know of a topic besides its replicas; None = the broker's default."""

    record_bytes: int = 1_000
    min_in_sync: int | None = None


class JournalWrite(NamedTuple):
    """A write to a replica's journal that is under way."""

    replica: Replica
    done: Callable[[ErrorCode], None] | None
    """What is to happen besides when it is durable, or has failed."""
    flushes: bool


class ReplicaManager:
    """See the module.

    Args:
        node_id: Kafka's broker id.
        topics: what brokers know of topics besides their replicas.
        rules: the decisions that past bugs change.
        log_dirs: how many log directories there are.
        life: which start of this process it is.
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
        self._told: dict[str, dict[str, str]] = {}
        """The settings in the store of all brokers (under "") and of topics: those that we were told of."""
        self.retention = Retention(machine, config, self._told, draws)
        self.leader_quota = ReplicationQuota(node_id, LEADER_THROTTLED_REPLICAS, self._told)
        self.follower_quota = ReplicationQuota(node_id, FOLLOWER_THROTTLED_REPLICAS, self._told)
        self._flush_messages = config.log_flush_interval_messages
        self._flush_ms = self._flush_interval_ms({})
        self.is_shutting_down = False
        """The process is about to end: it follows nobody any more."""
        self.replicas: dict[TopicPartition, Replica] = {}
        self.led: dict[TopicPartition, Replica] = {}
        """Those led here."""
        self.served: dict[TopicPartition, Replica] = {}
        """Of these the ones that the metadata cache has: clients and followers are served from no others."""
        self.live_brokers: dict[int, ActorName] = {}
        """As the controller last said."""
        self.writes: dict[int, JournalWrite] = {}
        """By token."""
        self._topics = topics
        self._last_token = 0
        self._last_order = 0
        self._found: dict[str, tuple[Record, ...]] = {}
        """What was on the disk; only until the start."""
        self._checkpointed: dict[str, int] = {}
        """Log name -> the high watermark the disk knows."""

    @property
    def now_ms(self) -> int:
        """This host's clock as records have it."""
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
        """A replica goes, with its log."""
        del self.replicas[replica.at]
        self._write_place(self.dirs.remove(replica.log_name))

    def _write_place(self, row: Record | None) -> None:
        if row is not None:
            self._last_token += 1
            self._machine.write_only(PLACES, (row,), self._last_token)

    def fail_dir(self, number: int) -> list[Replica]:
        """A log directory has failed; the replicas there that were not offline."""
        self.dirs.fail(number)
        there = [replica for replica in self.replicas.values() if self.dirs.of(replica.log_name) == number]
        return [replica for replica in there if replica.role is not Role.OFFLINE]

    def configure(self, topic: str, settings: dict[str, str]) -> None:
        """A topic's settings, or ("") those of all brokers, are these now: they count when they are asked for next."""
        self._told[topic] = settings
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
        """Whether an append with acks=all may be tried; ``maximal``: with those about to join, if it was enough."""
        least = replica.min_in_sync
        if self.rules.min_isr_holds_watermark:
            least = min(least, len(replica.replicas))
        return len(replica.in_sync.maximal if maximal else replica.in_sync.members) >= least

    def _min_in_sync(self, topic: str) -> int:
        """A topic's own setting, else that of all brokers, else the one we started with."""
        told, known = self._told.get(topic), self._topics.get(topic)
        if told is not None and MIN_INSYNC_REPLICAS in told:
            return int(told[MIN_INSYNC_REPLICAS])
        if told is None and known is not None and known.min_in_sync is not None:
            return known.min_in_sync
        return int(self._told.get(ALL_BROKERS, {}).get(MIN_INSYNC_REPLICAS, self.replication.min_insync_replicas))

    def _flush_interval_ms(self, settings: Mapping[str, str]) -> int:
        """How long a log may stay unflushed before the scheduler flushes it."""
        config = self._config
        given = config.log_flush_interval_ms
        default = config.log_flush_scheduler_interval_ms if given is None else given
        return int(settings.get(LOG_FLUSH_INTERVAL_MS, default))

    def configure_own(self, settings: dict[str, str]) -> None:
        """These are the settings of this broker alone now."""
        self.leader_quota.configure(settings.get(LEADER_THROTTLED_RATE))
        self.follower_quota.configure(settings.get(FOLLOWER_THROTTLED_RATE))

    # --- start -------------------------------------------------------------------------------------------------

    def found(self, log: str, records: tuple[Record, ...]) -> None:
        """The disk has this log."""
        self._found[log] = records

    def restore(self) -> None:
        """Take up the logs that were found; they have no role until the controller says so."""
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
        """Put entries into a replica's journal; the log has changed already. ``done`` waits until they are durable."""
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
        """Put appended batches on their way to the journal."""
        self.write_journal(replica, tuple(entry for batch in batches for entry in batch_entry(batch)))

    def written(self, token: int, error: ErrorCode) -> Replica | None:
        """A write is durable, or failed; the replica that was written, if it is still one of ours and not offline."""
        write = self.writes.pop(token, None)
        if write is None:
            return None  # a checkpoint, or where a log lies
        replica = write.replica
        if error is _NONE:
            replica.written(token, flushed=write.flushes)
        else:
            replica.writes.pop(token)
        if write.done is not None:
            write.done(error)
        is_ours = self.replicas.get(replica.at) is replica and replica.role is not _OFFLINE
        return replica if is_ours else None

    def cut(self, replica: Replica, end_offset: int, why: str) -> None:
        """Truncate a replica's log to this end, if it is longer; the disk hears of epochs without records, too."""
        if end_offset < replica.log.start_offset:
            self.empty(replica, end_offset, why)
            return
        old, epochs = replica.log.end_offset, replica.log.epochs.entries
        shorter = replica.cut(end_offset)
        if shorter or replica.log.epochs.entries != epochs:
            self.write_journal(replica, (cut_entry(end_offset),))
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
        """Delete the records of a replica's log below this offset, if there are any."""
        if not replica.log.advance_start(start_offset):
            return
        look_again(replica.waiters)
        self.write_journal(replica, (start_entry(start_offset),))
        for follower in replica.followers.values():
            follower.told_watermark = -1  # our next answer tells it, whatever else is new
        self._note_start(replica, why)

    def delete_expired(self) -> None:
        """RETENTION fired: delete what is too old or too much in the logs that are here."""
        for replica in self.replicas.values():
            if replica.role is not Role.OFFLINE and self.retention.deletes(replica.topic):
                policy = self.retention.policy(replica.topic)
                start_offset = policy.start_of(replica.log, replica.record_bytes, self.now_ms)
                self.advance_start(replica, start_offset, "retention")
        self.retention.due()

    def empty(self, replica: Replica, start_offset: int, why: str) -> None:
        """Forget all that is in a replica's log; it goes on at this offset."""
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
        """FLUSH fired."""
        interval_ms = self._config.log_flush_scheduler_interval_ms
        if interval_ms < NEVER:
            self._machine.start_timer(_FLUSH, interval_ms * US_PER_MS)
        for replica in self.replicas.values():
            if self._machine.now_us - replica.flushed_us >= self._flush_ms * US_PER_MS:
                self._flush(replica)

    def flush_all(self) -> None:
        """All logs are closed."""
        for replica in self.replicas.values():
            self._flush(replica)

    def _flush(self, replica: Replica) -> None:
        if replica.role is not Role.OFFLINE and replica.log.flushed_end < replica.log.end_offset:
            replica.flushed_us, replica.log.flushed_end = self._machine.now_us, replica.log.end_offset
            self._machine.flush(replica.journal)

    # --- high watermarks ---------------------------------------------------------------------------------------

    def checkpoint_due(self) -> None:
        """CHECKPOINT fired."""
        self.checkpoint()
        self._checkpoint_later()

    def _checkpoint_later(self) -> None:
        interval_ms = self.replication.replica_high_watermark_checkpoint_interval_ms
        self._machine.start_timer(_CHECKPOINT, interval_ms * US_PER_MS)

    def checkpoint(self) -> None:
        """Write down the high watermarks that changed."""
        rows: list[Record] = []
        for replica in self.replicas.values():
            offset = replica.log.high_watermark
            if self._checkpointed.get(replica.log_name) != offset:
                self._checkpointed[replica.log_name] = offset
                rows.append((replica.log_name.encode(), str(offset).encode()))
        if rows:
            self._write_watermarks(tuple(rows))

    def forget_watermark(self, replica: Replica) -> None:
        """A replica is gone: so is its checkpoint, if there was one."""
        if self._checkpointed.pop(replica.log_name, None) is not None:
            self._write_watermarks(((replica.log_name.encode(), b"0"),))

    def _write_watermarks(self, rows: tuple[Record, ...]) -> None:
        self._last_token += 1
        self._machine.append(WATERMARKS, rows, self._last_token)
