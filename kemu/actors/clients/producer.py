"""A producer: it appends records at a set rate, or on command, with the configured guarantees.

Records arise evenly (``rate * elapsed``, in whole numbers, without rounding loss). The records are distributed
round-robin to all partitions, with or without a leader. With ``shares`` each partition gets records in proportion to
its share. With ``emulated_numbered_keys`` the keys are the numbers 0, 1, 2 and so on as decimal text, and Kafka's
partitioner chooses the partition. Every ``emulated_batch_interval_ms`` each broker gets one Produce with the batches
of all its partitions. One request per broker and one batch per partition
is in flight at a time, so batches never overtake each other. Kafka's idempotent client keeps the order with up to five
requests in flight.

A batch is retried until an answer acknowledges or fails the batch, or ``delivery.timeout.ms`` has passed. After a lost
answer the batch may already be in the log. With idempotence the leader recognizes a retry by producer id, epoch and
sequence; without idempotence, the retry is a duplicate.

Differences from Kafka: the producer draws its id from its random stream, where Kafka assigns ids (InitProducerId). So
each process needs a separate stream. Kafka raises the epoch of the whole producer; this producer raises only the epoch
of the affected partition. The brokers cannot see the difference, since each log stores only its own producer states. As
in Kafka, idempotence needs acks=all, and is off with other acks.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from kemu.actors.client import DEADLINE, DISCONNECTED, TIMED_OUT, Client, backoff_ms
from kemu.actors.clients.brokers import BrokersToAsk
from kemu.actors.clients.metadata import METADATA, MetadataRefresh
from kemu.actors.clients.produce_queue import Batch, ProduceQueue
from kemu.actors.clients.shares import LoadShares
from kemu.actors.machine import Chance, Draws, Event, LinkDown, Machine, Received, TimerFired, Told
from kemu.protocol.commands import Close, FlushRecords, ProduceRecords, SetRate, Start
from kemu.protocol.config import ProducerConfig
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import NewLeader, Produce, ProduceBatch, ProducedBatch, ProduceReply
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.metadata_rules import METADATA_3_7, MetadataRules
from kemu.protocol.names import ActorName
from kemu.protocol.notes.groups import ProduceFailed, ProducerStarted, RecordsAcknowledged
from kemu.protocol.partitioner import partition_of_key
from kemu.protocol.wire.compile import maker

STALE_METADATA = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
)
"""Errors after which the producer refreshes metadata. Source: the subclasses of Kafka's InvalidMetadataException."""

_MICRO = 1_000_000
_NONE = ErrorCode.NONE
_new = tuple.__new__
_produce = maker(Produce)
_produce_batch = maker(ProduceBatch)
_records_acknowledged = maker(RecordsAcknowledged)


class ProducerTimer(StrEnum):
    """The timers of a producer."""

    BATCH = "batch"
    """The next interval at which new records are put into batches has ended."""
    RETRY = "retry"
    """A backoff, or a linger time, has ended."""
    TIMEOUTS = "timeouts"
    """``delivery.timeout.ms`` of the oldest batch may have passed. The timer is never stopped early."""
    DEADLINE = DEADLINE[0]
    """The earliest deadline of a request in flight."""
    METADATA = METADATA[0]
    """Metadata is too old, or the next request for metadata is allowed."""


class _Node:
    """A broker in the producer's view."""

    __slots__ = ("host", "in_flight", "ready")

    def __init__(self, host: ActorName) -> None:
        self.host = host
        self.in_flight = False
        """Whether a Produce to the broker is in flight."""
        self.ready: dict[int, None] = {}
        """The broker's partitions with batches but none in flight, by index, in the order in which they became
        ready."""


class _Sent(NamedTuple):
    """A Produce in flight."""

    node: _Node
    batches: list[tuple[ProduceQueue, Batch]]


class Producer(Machine):
    """A producer and its application.

    Args:
        topics: the topics of the records; exactly one topic if the producer has a rate.
        chance: the random stream of this process: the producer id, the first broker to ask and backoff jitter.
        shares: the relative load by partition of the one topic; () means an equal load.
        metadata_rules: the leader epochs in metadata that the release trusts.
    """

    def __init__(
        self,
        name: ActorName,
        topics: tuple[str, ...],
        config: ProducerConfig,
        *,
        bootstrap: tuple[ActorName, ...],
        chance: Chance,
        draws: Draws = CALM,
        shares: tuple[int, ...] = (),
        versions: SpokenVersions = LATEST,
        metadata_rules: MetadataRules = METADATA_3_7,
    ) -> None:
        super().__init__(name)
        assert bootstrap, f"{name}: no broker to ask"
        assert not shares or len(topics) == 1, f"{name}: shares of {topics}"
        assert config.acks in (-1, 0, 1), f"{name}: acks {config.acks}"
        self.topics = topics
        self.config = config
        self.idempotent = config.enable_idempotence and config.acks == -1
        self.queues: list[ProduceQueue] = []
        """The queues of all topics, in the order in which their partitions became known."""
        self._queues_of: dict[str, list[ProduceQueue]] = {topic: [] for topic in topics}
        """Topic -> its queues, in the order of partition numbers."""
        self._chance = chance
        self._draws = draws
        self._retry = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._produce_version = versions["Produce"]
        self._retries_at_new_leader = metadata_rules.retries_at_new_leader
        self._producer_id = self._new_producer_id()
        self._client = Client(
            self,
            request_timeout_us=config.request_timeout_ms * 1000,
            reconnect=backoff_ms(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            chance=chance,
            negotiates=versions.negotiates,
            link_lost=self._link_lost,
        )
        self._metadata = MetadataRefresh(
            self,
            self._client,
            BrokersToAsk(self, self._client, bootstrap, chance.below(len(bootstrap))),
            self,
            retry=self._retry,
            max_age_us=config.metadata_max_age_ms * 1000,
            version=versions["Metadata"],
            chance=chance,
            rules=metadata_rules,
        )
        self._nodes: dict[int, _Node] = {}
        self._linger_us = config.linger_ms * 1000
        self._delivery_us = config.delivery_timeout_ms * 1000
        self._rate = config.emulated_records_per_s
        self._credit = 0
        """The number of records that have arisen and are in no batch yet, in millionths."""
        self._credited_us = 0
        self._shares = LoadShares(shares) if shares else None
        """The division of the records among partitions; None: round-robin."""
        self._next_partition = 0
        self._next_key = 0
        self._turn_us = draws.us(DrawName.PRODUCER_TURN, 0)
        """The time in each interval in which the application works; no records arise in it."""
        self._unplaced: list[tuple[str, int, int]] = []
        """(topic, partition, records) that wait for the topic's partitions to become known."""
        self.pending = 0
        """The number of batches that are neither acknowledged nor failed."""
        self._flushing = False
        """Whether batches are sent without lingering, until no batch is pending."""
        self._timeouts_at_us: int | None = None
        self._retry_at_us: int | None = None
        self._closing = False
        self._timers: dict[str, Callable[[], None]] = {
            ProducerTimer.BATCH: self._tick,
            ProducerTimer.RETRY: self._retry_due,
            ProducerTimer.TIMEOUTS: self._time_out,
            ProducerTimer.DEADLINE: self._client.deadline_passed,
            ProducerTimer.METADATA: self._metadata.timer_fired,
        }

    def handle(self, event: Event) -> None:
        """React to a tick, answer, broken connection, timer or command."""
        if self.finished:
            return
        match event:
            case TimerFired(key=key):
                self._timers[key[0]]()
            case Received():
                self._client.reply_arrived(event)
            case LinkDown(peer=peer):
                self._client.connection_broke(peer, DISCONNECTED)
            case Told(command=Start()):
                for topic in self.topics:
                    self.note(ProducerStarted(topic=topic, acks=self.config.acks))
                self._metadata.want(self.topics)
            case Told(command=SetRate(records_per_s=rate)):
                self._set_rate(rate)
            case Told(command=ProduceRecords(counts=counts, topic=topic)):
                self._produce(topic or self.topics[0], counts)
            case Told(command=FlushRecords()):
                self._flushing = self.is_busy
                self._send_all()
            case Told(command=Close()):
                self._close()
            case _:
                raise AssertionError(f"{self.name}: {event}")
        if self.pending == 0:
            self._flushing = self._flushing and self.is_busy
            if self._closing:
                self._finish()

    @property
    def is_busy(self) -> bool:
        """Whether a record is neither acknowledged nor failed."""
        return self.pending > 0 or bool(self._unplaced)

    def _close(self) -> None:
        """Send the remaining batches without lingering."""
        self._closing = True
        self.stop_timer((ProducerTimer.BATCH,))
        self._send_all()

    def _finish(self) -> None:
        self._client.close()
        for timer in (ProducerTimer.RETRY, ProducerTimer.TIMEOUTS, ProducerTimer.DEADLINE, ProducerTimer.METADATA):
            self.stop_timer((timer,))
        self.finished = True

    # --- new records -------------------------------------------------------------------------------------------

    def _set_rate(self, rate: int) -> None:
        assert rate >= 0, f"{self.name}: rate {rate}"
        self._accrue()
        was, self._rate = self._rate, rate
        if rate == 0:
            self.stop_timer((ProducerTimer.BATCH,))
        elif was == 0 and self.queues and not self._closing:
            self.start_timer((ProducerTimer.BATCH,), self.config.emulated_batch_interval_ms * 1000)

    def _accrue(self) -> None:
        if self.queues:  # an application's send() blocks before the first metadata
            arisen = self._rate * max(self.now_us - self._credited_us, 0)
            if self._shares is None:
                self._credit += arisen
            else:
                self._shares.add(arisen)
        self._credited_us = max(self._credited_us, self.now_us)

    def _tick(self) -> None:
        self.start_timer((ProducerTimer.BATCH,), self.config.emulated_batch_interval_ms * 1000 + self._turn_us)
        self._accrue()
        self._credited_us += self._turn_us
        if self._shares is not None:
            self._add([(self.queues[number], count) for number, count in self._shares.take()])
            return
        count, self._credit = divmod(self._credit, _MICRO)
        if count == 0:
            return
        queues, size = self.queues, len(self.queues)
        if self.config.emulated_numbered_keys:
            self._add([(queues[number], records) for number, records in self._hashed(count)])
            return
        everybody, rest = divmod(count, size)
        first = self._next_partition
        self._next_partition = (first + count) % size
        turns = range(min(count, size))
        self._add([(queues[(first + turn) % size], everybody + (turn < rest)) for turn in turns])

    def _hashed(self, count: int) -> list[tuple[int, int]]:
        """Return (partition, records) of the next records, in the order of their first records."""
        counts: dict[int, int] = {}
        for key in range(self._next_key, self._next_key + count):
            number = partition_of_key(b"%d" % key, len(self.queues))
            counts[number] = counts.get(number, 0) + 1
        self._next_key += count
        return list(counts.items())

    def _produce(self, topic: str, counts: tuple[tuple[int, int], ...]) -> None:
        """Send an application's records with the given counts. Before the first metadata send() blocks: the records
        wait.
        """
        queues = self._queues_of[topic]
        if not queues:
            self._unplaced.extend((topic, number, count) for number, count in counts)
        elif not self._closing:
            self._add([(queues[number], count) for number, count in counts])

    def _add(self, counts: list[tuple[ProduceQueue, int]]) -> None:
        """Put records into batches, and send the batches that are due."""
        touched: dict[int, None] = {}
        for queue, count in counts:
            if queue.add(count, self.now_us):
                self.pending += 1
            self._offer(queue)
            touched[queue.leader] = None
        self._expect(self.now_us + self._delivery_us)
        for node_id in touched:
            if node_id >= 0:
                self._send(self._nodes[node_id])
            else:
                self._metadata.refresh()  # RecordAccumulator.ready: unknownLeaderTopics

    # --- sending -----------------------------------------------------------------------------------------------

    def _offer(self, queue: ProduceQueue) -> None:
        """Mark a partition with batches as ready for its leader's next request."""
        if queue.batches and queue.in_flight is None and queue.leader >= 0:
            self._nodes[queue.leader].ready[queue.index] = None

    def _send_all(self) -> None:
        for node in self._nodes.values():
            if node.ready:
                self._send(node)

    def _send(self, node: _Node) -> None:
        """Send one request with the first batch of every ready partition of this broker."""
        if node.in_flight or not node.ready:
            return
        available_us = self._client.available_at(node.host)
        if available_us > self.now_us:
            self._retry_by(available_us)
            return
        taken: list[tuple[ProduceQueue, Batch]] = []
        rows: list[ProduceBatch] = []
        idempotent = self.idempotent
        for index in list(node.ready):
            queue = self.queues[index]
            at_us = self._sendable_at(queue)
            if at_us > self.now_us:
                self._retry_by(at_us)
                continue
            del node.ready[index]
            batch = queue.take(idempotent=idempotent)
            taken.append((queue, batch))
            rows.append(self._row(queue, batch))
        if not rows:
            return
        timeout_ms = self.config.request_timeout_ms
        message = _produce(acks=self.config.acks, timeout_ms=timeout_ms, batches=tuple(rows))
        if self.config.acks == 0:
            self._client.tell(node.host, message, self._produce_version)
            for queue, _ in taken:  # acks=0 has no answer
                self._drop(queue)
            self._send(node)
            return
        node.in_flight = True
        sent = _new(_Sent, (node, taken))
        self._client.call(node.host, message, self._produce_version, self._answered, self._not_answered, sent)

    def _sendable_at(self, queue: ProduceQueue) -> int:
        head = queue.batches[0]
        if head.attempts > 0 and self._retries_at_new_leader and head.see_leader(queue.leader_epoch):
            return 0
        if head.attempts > 0 or self._closing or self._flushing:
            return queue.not_before_us
        return head.created_us + self._linger_us

    def _row(self, queue: ProduceQueue, batch: Batch) -> ProduceBatch:
        if not self.idempotent:
            return _produce_batch(topic=queue.topic, partition=queue.number, count=batch.count)
        return _produce_batch(
            topic=queue.topic,
            partition=queue.number,
            count=batch.count,
            producer_id=queue.producer_id,
            producer_epoch=queue.epoch,
            sequence=batch.sequence,
        )

    # --- answers -----------------------------------------------------------------------------------------------

    def _answered(self, reply: ProduceReply, sent: _Sent) -> None:
        sent.node.in_flight = False
        for (queue, batch), row in zip(sent.batches, reply.batches, strict=True):
            assert row.partition == queue.number and row.topic == queue.topic, f"{row} answers {queue.number}"
            if queue.in_flight is batch:
                self._decide(queue, row.error, row)
        if reply.new_leaders:
            self._learn_leaders(reply.new_leaders)
        self._send_all()

    def _learn_leaders(self, leaders: tuple[NewLeader, ...]) -> None:
        """Send to the leaders that errors name. Source: ``Sender.handleProduceResponse`` (3.7 to 4.3)."""
        for topic, number in self._metadata.learn_leaders(leaders):
            self._know_brokers()
            layout = self._metadata.cluster.topics[topic]
            self._lead(topic, number, layout.leaders[number], layout.epochs[number])

    def _decide(self, queue: ProduceQueue, error: ErrorCode, row: ProducedBatch | None = None) -> None:
        """Use the outcome of the attempt at this queue's first batch.

        Source: Kafka's ``Sender.completeBatch`` and ``canRetry``.
        """
        batch = queue.batches[0]
        queue.in_flight = None
        if error is _NONE:
            assert row is not None
            self._drop(queue)
            note = _records_acknowledged(
                topic=queue.topic, partition=queue.number, base_offset=row.base_offset, count=batch.count
            )
            self.note(note)
            return
        expired = self.now_us >= batch.created_us + self._delivery_us
        if error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._drop(queue)  # the batch is in the log, at an unknown offset
        elif error is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.in_doubt:
            queue.split()
            self.pending += 1
        elif error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.idempotent and not expired:
            # The log lacks an earlier batch: its last part is lost. The remaining batches start a new epoch.
            queue.begin_epoch(self._new_producer_id())
            self._back_off(queue, batch)
        elif error.retriable and not expired:
            batch.in_doubt = batch.in_doubt or not error.definite
            self._back_off(queue, batch)
        else:
            self._fail(queue, error, definite=error.definite)
        if error in STALE_METADATA:
            self._metadata.refresh()
        self._offer(queue)

    def _back_off(self, queue: ProduceQueue, batch: Batch) -> None:
        queue.not_before_us = self.now_us + self._backoff_us(batch.attempts)
        self._retry_by(queue.not_before_us)

    def _fail(self, queue: ProduceQueue, error: ErrorCode, *, definite: bool) -> None:
        """Fail the first batch. The following batches start a new epoch, as the failed batch may be in the log."""
        batch = self._drop(queue)
        self.note(
            ProduceFailed(
                topic=queue.topic,
                partition=queue.number,
                count=batch.count,
                error=error,
                definite=definite and not batch.in_doubt,
            )
        )
        if batch.sequence >= 0:
            queue.begin_epoch(self._new_producer_id())

    def _drop(self, queue: ProduceQueue) -> Batch:
        self.pending -= 1
        batch = queue.drop()
        if queue.batches:
            self._offer(queue)
        elif queue.leader >= 0:
            self._nodes[queue.leader].ready.pop(queue.index, None)
        return batch

    def _not_answered(self, why: str, sent: _Sent) -> None:
        """Retry or fail the batches of a request whose connection broke. Source: ``Sender.handleProduceResponse``."""
        sent.node.in_flight = False
        error = ErrorCode.REQUEST_TIMED_OUT if why == TIMED_OUT else ErrorCode.NETWORK_EXCEPTION
        for queue, batch in sent.batches:
            if queue.in_flight is batch:
                self._decide(queue, error)

    def _link_lost(self, host: ActorName, why: str) -> None:
        """Refresh metadata after a connection broke. Source: ``NetworkClient.processDisconnection``."""
        self._metadata.refresh()

    # --- leaders -----------------------------------------------------------------------------------------------

    def metadata_refreshed(self, changed: bool) -> None:
        """Update the leaders. A topic missing from the response has no leader. Source: ``Metadata.update``."""
        cluster = self._metadata.cluster
        self._know_brokers()
        had = len(self.queues)
        self._accrue()
        for topic, queues in self._queues_of.items():
            layout = cluster.topics.get(topic)
            leaders, epochs = ((), ()) if layout is None else (layout.leaders, layout.epochs)
            for number in range(max(len(queues), len(leaders))):
                leader, epoch = (leaders[number], epochs[number]) if number < len(leaders) else (-1, -1)
                self._lead(topic, number, leader if leader in cluster.brokers else -1, epoch)
        if self._shares is not None and len(self.queues) > had:
            self._shares.grow(len(self.queues))
        if had == 0 and self.queues and self._rate > 0 and not self._closing:
            every_us = self.config.emulated_batch_interval_ms * 1000
            self.start_timer((ProducerTimer.BATCH,), self._draws.us(DrawName.PRODUCER_PHASE, every_us, every_us))
        if self._unplaced and len(self.queues) > had:
            waiting, self._unplaced = self._unplaced, []
            for topic in self.topics:
                counts = tuple((number, count) for of, number, count in waiting if of == topic)
                if counts:
                    self._produce(topic, counts)
        self._send_all()

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """Request metadata again after the backoff.

        In Kafka send() raises the error, and the next send() requests metadata again
        (``KafkaProducer.waitOnMetadata``).
        """
        self._metadata.refresh_later()

    def _know_brokers(self) -> None:
        for node_id, host in self._metadata.cluster.brokers.items():
            if node_id not in self._nodes:
                self._nodes[node_id] = _Node(host)

    def _lead(self, topic: str, number: int, leader: int, epoch: int) -> None:
        queues = self._queues_of[topic]
        if number == len(queues):
            queues.append(ProduceQueue(topic, number, len(self.queues), self._producer_id))
            self.queues.append(queues[number])
        queue = queues[number]
        queue.leader_epoch = epoch
        if queue.leader == leader:
            return
        if queue.leader >= 0:
            self._nodes[queue.leader].ready.pop(queue.index, None)
        queue.leader = leader
        self._offer(queue)

    # --- time --------------------------------------------------------------------------------------------------

    def _time_out(self) -> None:
        """Fail batches older than ``delivery.timeout.ms``, and set the timer for the next batch.

        Source: ``Sender.sendProducerData``.
        """
        self._timeouts_at_us = None
        now_us = self.now_us
        deadlines: list[int] = []
        for queue in self.queues:
            while queue.batches and queue.batches[0].created_us + self._delivery_us <= now_us:
                if queue.in_flight is not None:
                    queue.in_flight.in_doubt = True
                self._fail(queue, ErrorCode.REQUEST_TIMED_OUT, definite=True)
            if queue.batches:
                deadlines.append(queue.batches[0].created_us + self._delivery_us)
        if deadlines:
            self._expect(min(deadlines))
        self._send_all()

    def _expect(self, deadline_us: int) -> None:
        """Make sure that ``_time_out`` runs by this deadline.

        One timer serves all batches; it is never stopped early.
        """
        if self._timeouts_at_us is None or deadline_us < self._timeouts_at_us:
            self._timeouts_at_us = deadline_us
            self.start_timer((ProducerTimer.TIMEOUTS,), deadline_us - self.now_us)

    def _retry_due(self) -> None:
        self._retry_at_us = None
        self._send_all()

    def _retry_by(self, at_us: int) -> None:
        if self._retry_at_us is None or at_us < self._retry_at_us:
            self._retry_at_us = at_us
            self.start_timer((ProducerTimer.RETRY,), at_us - self.now_us)

    def _backoff_us(self, failures: int) -> int:
        return self._retry.after(failures, self._chance)

    def _new_producer_id(self) -> int:
        return self._chance.below(1 << 62)
