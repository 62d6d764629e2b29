"""A leader's ISR changes through the controller (a part of the replicated broker).

One AlterIsr is in flight at a time, with all changes that waited when it was created. The broker resends the request
unchanged until a controller answers, each time to the controller that the broker then knows. If the host of that
controller lost power, the request times out only after ``replica.socket.timeout.ms``. No ISR of this leader changes
before this timeout.

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
"""The wait before a retry, after an answer that does not decide the changes."""
POLL_US = 100_000
"""The interval at which a broker checks whether it knows a controller, or may connect to the controller again."""
_TIMER = (BrokerTimer.ALTER_ISR,)

GIVEN_UP = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
"""Errors after which the ISR is unchanged."""
AWAITS_CONTROLLER = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
)
"""Errors that show another state at the controller: the leader waits for a LeaderAndIsr with another leader epoch.

The controller has usually sent the LeaderAndIsr already. In one case the controller has sent none: its own write
created the version in the refusal, unknown to the controller (``isr_alterations``). In this case the next election ends
the leader's wait.
"""


class AlterIsrs:
    """The leader's side of AlterIsr."""

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
        """Changes that are queued or in flight."""
        self._sent: tuple[IsrChange, ...] = ()
        """The changes of the request in flight."""
        self._request: AlterIsr | None = None
        """The request in flight; the next request is created after its answer."""

    def registered(self, session: BrokerSession) -> None:
        """Do nothing: a request under the former registration is refused, and then repeated."""

    def hours_pass(self) -> None:
        """Do nothing: this part has no periodic work."""

    def handle(self, event: Event) -> bool:
        """False: the client receives the answers."""
        return False

    @property
    def timers(self) -> Mapping[str, Callable[[], None]]:
        """The retry timer."""
        return {BrokerTimer.ALTER_ISR: self._due}

    def write(self, change: IsrChange) -> None:
        """Queue a change, or refuse it if an earlier change of the partition (of an older epoch) is undecided."""
        at = change.replica.at
        if at in self._undecided:
            self._changes.refused(change, ErrorCode.OPERATION_NOT_ATTEMPTED.name)
            return
        self._undecided[at] = change
        if self._request is None:
            self._make()

    def _due(self) -> None:
        """Send the waiting changes when the timer ALTER_ISR fired."""
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
        """Send the request again later: the connection broke or the answer is missing, so another controller may be
        active.
        """
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
            self._changes.accepted(change, row.isr, row.current_isr_version)
        else:
            self._changes.pending(change, "another epoch")
