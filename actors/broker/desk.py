"""What the parts of a replicated broker share: its books, its voice, its pen (as ``coordinator_base`` for groups).

``ReplicaDesk`` is the machine as its parts see it; ``actors.broker.broker`` adds the decisions.
"""

from collections.abc import Mapping

from attrs import frozen

from kemu.actors.broker.partition import ProduceCall
from kemu.actors.broker.replica import Replica
from kemu.actors.broker.replica_log import batch_entry, cut_entry
from kemu.actors.broker.rules import TODAY, ReplicaRules
from kemu.actors.client import Backoff, Client
from kemu.actors.machine import Chance, Machine, Record
from kemu.protocol.config import BrokerConfig, ReplicaConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import ReplicaBatch
from kemu.protocol.messages.offsets_log import AppendGroupsReply
from kemu.protocol.names import STORE, ActorName, TopicPartition
from kemu.protocol.notes.replication import Truncated

US_PER_MS = 1_000


@frozen
class TopicSettings:
    """What brokers know of a topic besides its replicas; None = the broker's default."""

    record_bytes: int = 1_000
    min_in_sync: int | None = None


class GroupCall(ProduceCall):
    """An append of the group coordinator of this process."""

    __slots__ = ()

    def group_reply(self) -> AppendGroupsReply:
        """What came of it."""
        (row,) = self.rows
        assert row is not None
        return AppendGroupsReply(error=row.error, base_offset=row.base_offset)


class ReplicaDesk(Machine):
    """The books of a replicated broker, and what its parts may do through it.

    Args:
        node_id: Kafka's broker id.
        topics: what brokers know of topics besides their replicas.
        rules: the decisions that past bugs change.
        store: the metadata store's actor.
    """

    def __init__(
        self,
        name: ActorName,
        node_id: int,
        config: BrokerConfig,
        replication: ReplicaConfig,
        *,
        topics: Mapping[str, TopicSettings],
        chance: Chance,
        rules: ReplicaRules = TODAY,
        store: ActorName = STORE,
    ) -> None:
        super().__init__(name)
        self.client = Client(
            self,
            request_timeout_us=replication.replica_socket_timeout_ms * US_PER_MS,
            reconnect=Backoff(
                replication.reconnect_backoff_ms * US_PER_MS, replication.reconnect_backoff_max_ms * US_PER_MS
            ),
            chance=chance,
            link_lost=self.link_lost,
        )
        self.node_id = node_id
        self.config = config
        self.replication = replication
        self.rules = rules
        self.store = store
        self.topic_settings = topics
        self.lag_us = replication.replica_lag_time_max_ms * US_PER_MS
        self.flushes_each = config.log_flush_interval_ms == 0
        """Whether a record counts (for the high watermark, for acks=1, for our leader) only once it is durable."""
        self.replicas: dict[TopicPartition, Replica] = {}
        self.partitions: dict[TopicPartition, Replica] = {}
        """Those led here."""
        self.live_brokers: dict[int, ActorName] = {}
        """As the controller last said."""
        self.controller_id = -1
        self.controller_epoch = 0
        self.broker_epoch = -1
        """Under which we are registered; -1 until we know."""
        self._last_token = 0
        self._last_order = 0
        self.writes: dict[int, Replica] = {}
        """Token of a journal write under way -> whose it is."""
        self._assemble()

    def _assemble(self) -> None:
        """Make the parts and their books; the desk is ready. Called once, so that only one class has to be set up."""

    @property
    def now_ms(self) -> int:
        """This host's clock as records have it."""
        return self.now_us // US_PER_MS

    def next_order(self) -> int:
        """A number that rises with every call."""
        self._last_order += 1
        return self._last_order

    def own_end(self, replica: Replica) -> int:
        """Up to where a replica's log counts as stored here."""
        return replica.log.durable_end if self.flushes_each else replica.log.end_offset

    def write_journal(self, replica: Replica, records: tuple[Record, ...]) -> int:
        """Put entries on their way to a replica's journal; the write's token. The log has changed already."""
        self._last_token = token = self._last_token + 1
        self.writes[token] = replica
        replica.writes[token] = replica.log.end_offset
        self.append(replica.journal, records, token)
        return token

    def write_batches(self, replica: Replica, batches: tuple[ReplicaBatch, ...]) -> None:
        """Put appended batches on their way to the journal."""
        self.write_journal(replica, tuple(entry for batch in batches for entry in batch_entry(batch)))

    def write_elsewhere(self, log: str, records: tuple[Record, ...]) -> None:
        """Append to a log of the broker itself; nothing waits for it."""
        self._last_token += 1
        self.append(log, records, self._last_token)

    def cut(self, replica: Replica, end_offset: int, why: str) -> None:
        """Truncate a replica's log to this end, if it is longer; the disk hears of epochs without records, too."""
        old, epochs = replica.log.end_offset, replica.log.epochs.entries
        shorter = replica.cut(end_offset)
        if shorter or replica.log.epochs.entries != epochs:
            self.write_journal(replica, (cut_entry(end_offset),))
        if shorter:
            self.note(
                Truncated(
                    topic=replica.topic,
                    partition=replica.number,
                    leader_epoch=replica.leader_epoch,
                    old_end_offset=old,
                    end_offset=end_offset,
                    why=why,
                )
            )

    def link_lost(self, peer: ActorName, why: str) -> None:
        """Called before the requests to ``peer`` fail."""

    def advance(self, replica: Replica) -> None:
        """Raise a leader's high watermark as far as it goes; whoever waited for that is answered."""
        raise NotImplementedError

    def absent(self, topic: str, partition: int) -> ErrorCode:
        """Why a partition is not led here."""
        raise NotImplementedError
