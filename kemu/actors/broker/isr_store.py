"""A leader's own writes of ISRs into the metadata store (a part of the replicated broker).

A change is a compare-and-set on the partition's state node, with the version that the leader knows. The change keeps
leader, leader epoch and the deciding controller's epoch. Until the store has answered, both results are possible
(``InSync.maximal``). After a lost answer the write is repeated. If the store had already executed the write, the
version conflicts. After a conflict, the leader reads the node and compares the node's content (KAFKA-1382).

The session belongs to the broker's controller part; this part attaches to the session. Changes wait while no session
exists. Changes in progress when a session expires are repeated in the next session, if their leadership still lasts.

Leaders write ISRs up to inter.broker.protocol.version 2.6. Source: Kafka 2.8's ``Partition.updateIsr``,
``ReplicationUtils``, ``ZkIsrManager`` (the notifications).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from kemu.actors.broker.isr_changes import IsrChange, IsrChanges
from kemu.actors.broker.replica_manager import US_PER_MS, ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Draws, Event, Machine
from kemu.actors.store.session import StoreSession
from kemu.protocol.draws import CALM
from kemu.protocol.messages.local import BrokerSession
from kemu.protocol.messages.store import (
    NO_SESSION,
    CreateMode,
    StoreCode,
    StoreOp,
    StoreOpKind,
    Transaction,
    TransactionResult,
    WatchEvent,
)
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.nodes import ISR_CHANGE_PREFIX, PartitionState, partitions_data, state_data, state_path


class _Write(NamedTuple):
    """A change in the form of a write of the state node."""

    change: IsrChange
    data: bytes
    reading: bool = False
    """Whether the write was refused, and the node's content is being read."""


class IsrStore:
    """The writer of ISRs into the store.

    Args:
        store: the store's actor.
        session_timeout_ms: the timeout of the process's session.
        max_in_flight: the limit of transactions in flight.
    """

    def __init__(
        self,
        machine: Machine,
        manager: ReplicaManager,
        changes: IsrChanges,
        *,
        store: ActorName,
        session_timeout_ms: int,
        max_in_flight: int,
        draws: Draws = CALM,
    ) -> None:
        self._machine = machine
        self._manager = manager
        self._changes = changes
        self.session = StoreSession(
            machine, self, store=store, timeout_ms=session_timeout_ms, max_in_flight=max_in_flight, draws=draws
        )
        self._attached_to = NO_SESSION
        """The session for the changes; NO_SESSION while the part is not attached."""
        self._undecided: list[_Write] = []
        """Changes in the order of the proposals; each change is submitted once per session."""
        self._changed: dict[TopicPartition, None] = {}
        """Partitions whose new ISR has not been announced to the controller yet."""
        self._announcing: tuple[TopicPartition, ...] = ()
        """Partitions whose announcement is in progress."""
        self._last_change_us = 0
        self._last_announced_us = 0

    # --- the session -------------------------------------------------------------------------------------------

    def registered(self, session: BrokerSession) -> None:
        """Attach to the controller part's session (0: the session has expired, and another session will follow)."""
        if session.session_id not in (NO_SESSION, self._attached_to):
            self._attached_to = NO_SESSION
            self.session.attach(session.session_id)

    def session_opened(self, session_id: int) -> None:
        """Submit all undecided writes in the new session."""
        self._attached_to = session_id
        if self._announcing:
            self._not_announced()
        self._undecided = [write for write in self._undecided if write.change.still_counts]
        for write in self._undecided:
            self._submit(write)

    def session_expired(self) -> None:
        """Do nothing: the controller part also learns of the expiry, and registers again."""
        self._attached_to = NO_SESSION

    def session_closed(self, code: StoreCode) -> None:
        """Raise an error: only the controller part closes the session."""
        raise AssertionError(f"{self._machine.name} does not close the session ({code})")

    def watch_fired(self, event: WatchEvent) -> None:
        """Raise an error: a broker sets no watches."""
        raise AssertionError(f"{self._machine.name} set no watch: {event}")

    def handle(self, event: Event) -> bool:
        """React to an event of the session; False for other events."""
        return self.session.handle(event)

    @property
    def timers(self) -> Mapping[str, Callable[[], None]]:
        """The timer of announcements."""
        return {BrokerTimer.ISR_NOTIFY: self.notify_due}

    def hours_pass(self) -> None:
        """Move the session's next ping to a random point of its interval."""
        self.session.hours_pass()

    # --- changes -----------------------------------------------------------------------------------------------

    def write(self, change: IsrChange) -> None:
        """Write the change as soon as a session exists."""
        state = PartitionState(self._manager.node_id, change.leader_epoch, change.isr, change.replica.controller_epoch)
        self._try(_Write(change, state_data(state)))

    def _try(self, write: _Write) -> None:
        self._undecided.append(write)
        if self._attached_to != NO_SESSION:
            self._submit(write)

    def _submit(self, write: _Write) -> None:
        self.session.submit((_transaction(write),), partial(self._answered, write))

    def _answered(self, write: _Write, results: tuple[TransactionResult, ...]) -> None:
        self._undecided.remove(write)
        if write.change.still_counts:
            self._decided(write, results[0])

    def _decided(self, write: _Write, result: TransactionResult) -> None:
        if result.code is StoreCode.OK and (not write.reading or result.results[0].data == write.data):
            self._changes.accepted(write.change, write.change.isr, result.results[0].version)
            if self._manager.rules.announces_isr_changes:
                self._announce_later(write.change.replica.at)
        elif result.code is StoreCode.BAD_VERSION and not write.reading and self._manager.rules.reads_back:
            self._try(write._replace(reading=True))
        else:
            # Another writer changed the node: its LeaderAndIsr will arrive.
            self._changes.refused(write.change, "somebody else wrote" if write.reading else result.code.name)

    # --- announcements -----------------------------------------------------------------------------------------

    def _announce_later(self, at: TopicPartition) -> None:
        if not self._changed and not self._announcing:
            self._check_later()
        self._changed[at] = None
        self._last_change_us = self._machine.now_us

    def notify_due(self) -> None:
        """Announce changed ISRs to the controller, when the timer ISR_NOTIFY fired.

        The announcement is a sequential node. The announcement waits until no ISR has changed for some time, or until
        the last announcement is old enough.
        """
        if not self._changed and not self._announcing:
            return
        config, now_us = self._manager.replication, self._machine.now_us
        calm = now_us - self._last_change_us >= config.emulated_isr_notification_delay_ms * US_PER_MS
        late = now_us - self._last_announced_us >= config.emulated_isr_notification_most_ms * US_PER_MS
        may = self._attached_to != NO_SESSION and not self._announcing
        if self._changed and may and (calm or late):
            self._announcing, self._changed = tuple(self._changed), {}
            op = StoreOp(
                kind=StoreOpKind.CREATE,
                path=ISR_CHANGE_PREFIX,
                data=partitions_data(self._announcing),
                mode=CreateMode.PERSISTENT_SEQUENTIAL,
            )
            self.session.submit((Transaction(ops=(op,)),), self._announced)
        self._check_later()

    def _check_later(self) -> None:
        tick_ms = self._manager.replication.emulated_isr_notification_tick_ms
        self._machine.start_timer((BrokerTimer.ISR_NOTIFY,), tick_ms * US_PER_MS)

    def _announced(self, results: tuple[TransactionResult, ...]) -> None:
        """React to the store's answer to the announcement; a refused announcement is repeated."""
        if results[0].code is StoreCode.OK:
            self._announcing = ()
            self._last_announced_us = self._machine.now_us
        else:
            self._not_announced()

    def _not_announced(self) -> None:
        self._changed = dict.fromkeys((*self._announcing, *self._changed))
        self._announcing = ()
        self._check_later()


def _transaction(write: _Write) -> Transaction:
    path = state_path(*write.change.replica.at)
    if write.reading:
        return Transaction(ops=(StoreOp(kind=StoreOpKind.GET_DATA, path=path),))
    op = StoreOp(kind=StoreOpKind.SET_DATA, path=path, data=write.data, version=write.change.zk_version)
    return Transaction(ops=(op,))
