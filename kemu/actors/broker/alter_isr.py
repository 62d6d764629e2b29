"""How a leader has the controller change its ISRs (a part of the replicated broker).

One AlterIsr is in flight at a time; it has all the changes that waited when it was sent. It is sent again, as it is,
until a controller answers it: to the one we know then. One that is in flight to a controller whose host lost power is
overdue after ``replica.socket.timeout.ms`` only; so long no ISR of this leader changes.

Source: KIP-497; Kafka 3.4's ``AlterPartitionManager``, ``BrokerToControllerChannelManager``,
``Partition.handleAlterPartitionError``.
"""

from collections.abc import Callable, Mapping

from kemu.actors.broker.control_requests import ControlRequests
from kemu.actors.broker.isr_changes import IsrChange, IsrChanges
from kemu.actors.broker.replica_manager import ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.client import Client
from kemu.actors.machine import Event, Machine
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import AlteredIsr, AlterIsr, AlterIsrReply, NewIsr
from kemu.protocol.messages.local import BrokerSession
from kemu.protocol.names import TopicPartition, broker_host, controller_on

VERSION = 2
RETRY_US = 50_000
"""How long after an answer that settles nothing the changes are sent again."""
POLL_US = 100_000
"""How often a broker looks whether it knows a controller, or may speak to it again."""
_TIMER = (BrokerTimer.ALTER_ISR,)

GIVEN_UP = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
"""Nothing was changed: the ISR is what it was."""
AWAITS_CONTROLLER = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
)
"""What the controller knows is not what we know: we wait for its LeaderAndIsr with another leader epoch.

It is on its way to us, but for one case: the controller's own write made the version that it was refused for, and it
does not know (``isr_alterations``). Then the next election, whenever it comes, ends the wait.
"""


class AlterIsrs:
    """See the module."""

    def __init__(
        self,
        machine: Machine,
        client: Client,
        changes: IsrChanges,
        manager: ReplicaManager,
        control: ControlRequests,
    ) -> None:
        self._machine = machine
        self._client = client
        self._changes = changes
        self._manager = manager
        self._control = control
        self._undecided: dict[TopicPartition, IsrChange] = {}
        """What waits to be sent, and what is in flight."""
        self._sent: tuple[IsrChange, ...] = ()
        """What the request in flight is about."""
        self._request: AlterIsr | None = None
        """The one in flight: until it is answered, no other is made."""

    def registered(self, session: BrokerSession) -> None:
        """A new registration changes nothing: a request of the former one is refused, and made again."""

    def hours_pass(self) -> None:
        """Nothing is done at intervals."""

    def handle(self, event: Event) -> bool:
        """Nothing is its: answers come to the client."""
        return False

    @property
    def timers(self) -> Mapping[str, Callable[[], None]]:
        """To try again."""
        return {BrokerTimer.ALTER_ISR: self._due}

    def write(self, change: IsrChange) -> None:
        """Have it decided; a partition whose last change is still under way (of an epoch before) must wait."""
        at = change.replica.at
        if at in self._undecided:
            self._changes.refused(change, ErrorCode.OPERATION_NOT_ATTEMPTED.name)
            return
        self._undecided[at] = change
        if self._request is None:
            self._make()

    def _due(self) -> None:
        """ALTER_ISR fired."""
        if self._request is None:
            self._make()
        else:
            self._send()

    # --- requests ----------------------------------------------------------------------------------------------

    def _make(self) -> None:
        if not self._undecided:
            return
        self._sent = tuple(self._undecided.values())
        rows = [
            NewIsr(
                topic_name=change.replica.topic,
                partition_index=change.replica.number,
                leader_epoch=change.leader_epoch,
                new_isr=change.isr,
                current_isr_version=change.zk_version,
            )
            for change in self._sent
        ]
        self._request = AlterIsr(
            broker_id=self._manager.node_id, broker_epoch=self._control.broker_epoch, partitions=tuple(rows)
        )
        self._send()

    def _send(self) -> None:
        controller = self._control.controller_id
        peer = controller_on(broker_host(controller))
        if controller < 0 or self._machine.now_us < self._client.available_at(peer):
            self._machine.start_timer(_TIMER, POLL_US)
        else:
            self._client.call(peer, self._request, VERSION, self._answered, self._failed)

    def _failed(self, why: str, _: None) -> None:
        """Its connection broke, or it did not answer: perhaps it controls no more."""
        self._machine.start_timer(_TIMER, POLL_US)

    def _answered(self, reply: AlterIsrReply, _: None) -> None:
        if reply.error_code is ErrorCode.NOT_CONTROLLER:
            self._machine.start_timer(_TIMER, POLL_US)
            return
        sent, self._sent, self._request = self._sent, (), None
        if reply.error_code is not ErrorCode.NONE:
            self._machine.start_timer(_TIMER, RETRY_US)
            return
        rows = {(row.topic_name, row.partition_index): row for row in reply.partitions}
        for change in sent:
            row = rows.get(change.replica.at)
            if row is not None:
                del self._undecided[change.replica.at]
                self._decided(change, row)
        if self._request is None:
            self._make()

    def _decided(self, change: IsrChange, row: AlteredIsr) -> None:
        if not change.still_counts:
            return
        if row.error_code in GIVEN_UP:
            self._changes.refused(change, row.error_code.name)
        elif row.error_code in AWAITS_CONTROLLER:
            self._changes.pending(change, row.error_code.name)
        elif row.error_code is not ErrorCode.NONE:
            self.write(change)
        elif row.leader_epoch == change.leader_epoch and row.current_isr_version >= change.zk_version:
            self._changes.took(change, row.isr, row.current_isr_version)
        else:
            self._changes.pending(change, "another epoch")
