"""A broker's shutdown: controlled shutdown, leaving the metadata store, end of process (a part of the replicated
broker).

In a controlled shutdown the controller moves leaderships to other brokers, and removes the broker from ISRs. While the
broker still leads partitions, it repeats the request a few times, with a back-off. After the last attempt the broker
stops in any case. During the shutdown the broker does not follow new leaders, so that it does not rejoin ISRs. Source:
Kafka 2.8's ``KafkaServer.shutdown``, ``ReplicaManager.makeFollowers``.
"""

from kemu.actors.broker.control_requests import ControlRequests
from kemu.actors.broker.replica_manager import US_PER_MS, ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.client import Client
from kemu.actors.machine import Draws, Machine
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import ControlledShutdown, ControlledShutdownReply
from kemu.protocol.messages.local import LeaveStore
from kemu.protocol.names import broker_host, controller_on, host_of

_TIMER = (BrokerTimer.LEAVING,)
_SHUTDOWN_VERSION = 3
_LEAVE_VERSION = 0


class BrokerShutdown:
    """The shutdown of a broker with replication."""

    def __init__(
        self,
        machine: Machine,
        client: Client,
        manager: ReplicaManager,
        control: ControlRequests,
        draws: Draws = CALM,
    ) -> None:
        self._draws = draws
        self._machine = machine
        self._client = client
        self._control = control
        self._manager = manager
        self._config = manager.replication
        self._tries_left = 0

    def begin(self) -> None:
        """Begin the shutdown, when the process receives the request to end."""
        if self._manager.is_shutting_down:
            return
        self._manager.is_shutting_down = True
        config = self._config
        self._tries_left = config.controlled_shutdown_max_retries if config.controlled_shutdown_enable else 0
        self.try_shutdown()

    def try_shutdown(self) -> None:
        """Send a ControlledShutdown, if an attempt is left. An attempt without a known controller is also counted."""
        control = self._control
        if self._tries_left <= 0 or control.broker_epoch < 0:
            self._close_logs()
            return
        self._tries_left -= 1
        if control.controller_id < 0:
            self._failed("no controller is known", None)
            return
        request = ControlledShutdown(broker_id=self._manager.node_id, broker_epoch=control.broker_epoch)
        controller = controller_on(broker_host(control.controller_id))
        self._client.call(controller, request, _SHUTDOWN_VERSION, self._answered, self._failed)

    def _answered(self, reply: ControlledShutdownReply, _: None) -> None:
        if reply.error_code is ErrorCode.NONE and not reply.remaining_partitions:
            self._close_logs()
        else:
            self._failed(reply.error_code.name, None)

    def _failed(self, why: str, _: None) -> None:
        if self._tries_left <= 0:
            self._close_logs()
            return
        self._machine.start_timer(_TIMER, self._config.controlled_shutdown_retry_backoff_ms * US_PER_MS)

    def _close_logs(self) -> None:
        self._manager.flush_all()
        us = self._draws.us(DrawName.BROKER_STOP, 0)
        if us:
            self._machine.start_timer((BrokerTimer.CLOSING_LOGS,), us)
        else:
            self.logs_closed()

    def logs_closed(self) -> None:
        """Leave the metadata store and end the process: all logs are on the disk."""
        self._client.call(
            controller_on(host_of(self._machine.name)), LeaveStore(), _LEAVE_VERSION, self._left, self._left
        )

    def _left(self, _: object, __: None) -> None:
        self._machine.finished = True
