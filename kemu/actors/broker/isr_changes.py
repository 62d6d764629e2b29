"""How a leader changes its ISRs: who fell behind, what is proposed, what came of it (a part of the replicated broker).

Until a change is decided both outcomes are possible, and the leader counts everybody who may be in the ISR
(``InSync.maximal``); there is one change of a partition at a time. Who decides is a rule (``IsrPath``): the store,
which the leader writes itself (``isr_store``), or the controller, which the leader asks (``alter_isr``).

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
    """A change that was decided under this leader epoch, from the ISR that the state node had in this version."""

    replica: Replica
    leader_epoch: int
    zk_version: int
    isr: tuple[int, ...]
    why: str

    @property
    def still_counts(self) -> bool:
        """Whether the leadership it was decided under still lasts."""
        return self.replica.role is Role.LEADER and self.replica.leader_epoch == self.leader_epoch


class IsrWriter(Protocol):
    """Has changes decided."""

    def write(self, change: IsrChange) -> None:
        """Have it decided: ``IsrChanges`` is told in a later step, or in this one if it cannot be."""
        ...

    def registered(self, session: BrokerSession) -> None:
        """Our controller part has a session (0: it has expired, and a new one will follow)."""
        ...

    def hours_pass(self) -> None:
        """What is done at intervals is at any moment of them."""
        ...

    def handle(self, event: Event) -> bool:
        """Take an event of a connection of its own; False if it is not its."""
        ...

    @property
    def timers(self) -> Mapping[str, Callable[[], None]]:
        """What it does when one of its timers fires."""
        ...


class IsrChanges:
    """See the module. ``writer`` is given before the broker starts."""

    writer: IsrWriter

    def __init__(
        self, machine: Machine, manager: ReplicaManager, watermarks: HighWatermarks, draws: Draws = CALM
    ) -> None:
        self._machine = machine
        self._manager = manager
        self._watermarks = watermarks
        self._draws = draws

    # --- who fell behind ---------------------------------------------------------------------------------------

    def look_later(self) -> None:
        """Look who fell behind when half of the lag that is allowed is over."""
        self._machine.start_timer((BrokerTimer.ISR,), self._manager.lag_us // 2)

    def hours_pass(self) -> None:
        """The looks, and what the writer does at intervals, are at any moment of their intervals."""
        self.writer.hours_pass()
        every_us = self._manager.lag_us // 2
        self._machine.start_timer((BrokerTimer.ISR,), self._draws.us(DrawName.ISR_CHECK_PHASE, every_us, every_us))

    def look(self) -> None:
        """ISR fired."""
        manager = self._manager
        for replica in manager.led.values():
            isr = replica.shrunk(self._machine.now_us, manager.lag_us, manager.rules)
            if isr is not None:
                self.propose(replica, isr, "shrink")
        self.look_later()

    # --- changes -----------------------------------------------------------------------------------------------

    def propose(self, replica: Replica, isr: tuple[int, ...], why: str) -> None:
        """Try to make this the ISR."""
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

    def took(self, change: IsrChange, isr: tuple[int, ...], version: int) -> None:
        """The state node has this ISR now, in this version."""
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
        """Nothing was changed: our ISR stays as it was, and may be changed again."""
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
        """The controller knows better: until its LeaderAndIsr comes, everybody who may be in the ISR counts."""
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
