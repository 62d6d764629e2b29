"""A leader's ISR changes: lagging replicas, proposals and their results (a part of the replicated broker).

Until a change is decided both results are possible, and the leader waits for all replicas that may be in the ISR
(``InSync.maximal``). Each partition has at most one pending change. By the rule ``IsrPath``, the leader writes its
changes into the store (``isr_store``), or requests them from the controller (``alter_isr``).

Source: Kafka 2.8's ``Partition`` (maybeShrinkIsr, maybeExpandIsr, handleAlterIsrResponse).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from kemu.actors.broker.high_watermarks import HighWatermarks
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_manager import ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Draws, Event, Machine
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.messages.local import BrokerSession
from kemu.protocol.notes.replication import IsrChanged, IsrChangeFailed, IsrChangePending, IsrProposed


class IsrChange(NamedTuple):
    """A change proposed under this leader epoch, based on the ISR in this version of the state node."""

    replica: Replica
    leader_epoch: int
    zk_version: int
    isr: tuple[int, ...]
    why: str

    @property
    def still_counts(self) -> bool:
        """Whether this broker is still the leader in the epoch of the proposal."""
        return self.replica.role is Role.LEADER and self.replica.leader_epoch == self.leader_epoch


class IsrWriter(Protocol):
    """The sender of ISR changes to their decider: ``IsrStore`` or ``AlterIsrs``."""

    def write(self, change: IsrChange) -> None:
        """Send a change. ``IsrChanges`` gets the result later, or in the same step if the change is impossible."""
        ...

    def registered(self, session: BrokerSession) -> None:
        """Adopt the controller part's new session (0: the session has expired, and another session will follow)."""
        ...

    def hours_pass(self) -> None:
        """Move periodic work to a random point of its interval."""
        ...

    def handle(self, event: Event) -> bool:
        """React to an event of the writer's own connection; False for other events."""
        ...

    @property
    def timers(self) -> Mapping[str, Callable[[], None]]:
        """The kinds of the writer's timers, each with its handler."""
        ...


class IsrChanges:
    """A leader's ISR changes. ``writer`` is set before the broker starts."""

    writer: IsrWriter

    def __init__(
        self, machine: Machine, manager: ReplicaManager, watermarks: HighWatermarks, draws: Draws = CALM
    ) -> None:
        self._machine = machine
        self._manager = manager
        self._watermarks = watermarks
        self._draws = draws

    # --- lagging replicas ----------------------------------------------------------------------------------------

    def check_later(self) -> None:
        """Schedule the next check for lagging replicas, after half of the allowed lag."""
        self._machine.start_timer((BrokerTimer.ISR,), self._manager.lag_us // 2)

    def hours_pass(self) -> None:
        """Move the checks, and the writer's periodic work, to a random point of their intervals."""
        self.writer.hours_pass()
        every_us = self._manager.lag_us // 2
        self._machine.start_timer((BrokerTimer.ISR,), self._draws.us(DrawName.ISR_CHECK_PHASE, every_us, every_us))

    def check(self) -> None:
        """Check for lagging replicas when the timer ISR fired."""
        manager = self._manager
        for replica in manager.led.values():
            isr = replica.shrunk(self._machine.now_us, manager.lag_us, manager.rules)
            if isr is not None:
                self.propose(replica, isr, "shrink")
        self.check_later()

    # --- changes -----------------------------------------------------------------------------------------------

    def propose(self, replica: Replica, isr: tuple[int, ...], why: str) -> None:
        """Propose a new ISR."""
        assert replica.role is Role.LEADER and replica.in_sync.proposed is None and isr
        replica.in_sync.proposed = isr
        self._machine.note(
            IsrProposed(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                isr=isr,
                counted=replica.in_sync.maximal if self._manager.rules.maximal_isr else replica.in_sync.members,
            )
        )
        self.writer.write(IsrChange(replica, replica.leader_epoch, replica.in_sync.zk_version, isr, why))

    def accepted(self, change: IsrChange, isr: tuple[int, ...], version: int) -> None:
        """Adopt an accepted change: the state node has this ISR and version."""
        replica = change.replica
        replica.in_sync.settle(isr, version)
        self._machine.note(
            IsrChanged(
                topic=replica.topic,
                partition=replica.number,
                leader=self._manager.node_id,
                leader_epoch=replica.leader_epoch,
                isr=isr,
                zk_version=version,
                why=change.why,
            )
        )
        self._watermarks.advance(replica)

    def refused(self, change: IsrChange, why: str) -> None:
        """Drop a refused change: the ISR is unchanged, and a new change may be proposed."""
        replica = change.replica
        replica.in_sync.proposed = None
        self._machine.note(
            IsrChangeFailed(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                isr=change.isr,
                why=why,
            )
        )

    def pending(self, change: IsrChange, why: str) -> None:
        """Keep a change pending because the controller has newer state.

        Until the controller's LeaderAndIsr arrives, the leader waits for all replicas that may be in the ISR.
        """
        replica = change.replica
        self._machine.note(
            IsrChangePending(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                isr=change.isr,
                why=why,
            )
        )
