"""Number of ControlledShutdowns of a stopping broker: KafkaServer.controlledShutdown (3.4.1)."""

from types import SimpleNamespace
from typing import Any

from kemu.actors.broker.broker_shutdown import BrokerShutdown
from kemu.protocol.config import ReplicaConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import ControlledShutdown, ControlledShutdownReply
from kemu.protocol.messages.local import LeaveStore


class Bench:
    """A stopping broker; the tests see its requests and waits, and answer them."""

    def __init__(self, *, controller_id: int, broker_epoch: int = 5) -> None:
        self.asked: list[Any] = []
        self.waits_ms: list[int] = []
        self.control = SimpleNamespace(controller_id=controller_id, broker_epoch=broker_epoch)
        machine = SimpleNamespace(name="b1/broker", start_timer=lambda key, us: self.waits_ms.append(us // 1_000))
        client = SimpleNamespace(call=self._call)
        manager = SimpleNamespace(
            is_shutting_down=False, node_id=1, replication=ReplicaConfig(), flush_all=lambda: None
        )
        self.shutdown = BrokerShutdown(machine, client, manager, self.control)  # type: ignore[arg-type]

    def _call(self, to: str, message: object, version: int, answered: Any, failed: Any) -> None:
        self.asked.append(message)
        self._answered = answered

    def answer(self, error: ErrorCode) -> None:
        self._answered(ControlledShutdownReply(error_code=error, remaining_partitions=()), None)


def test_without_a_known_controller_a_broker_waits_and_looks_again_before_it_ends() -> None:
    """No controller in the metadata cache: an attempt is used up, and the back-off passes."""
    bench = Bench(controller_id=-1)
    bench.shutdown.begin()
    bench.shutdown.try_shutdown()
    assert (bench.asked, bench.waits_ms) == ([], [5_000, 5_000])

    bench.shutdown.try_shutdown()
    assert [type(each) for each in bench.asked] == [LeaveStore], "three tries (controlled.shutdown.max.retries)"
    assert len(bench.waits_ms) == 2, "after the last one it does not sleep"


def test_a_controller_that_is_known_meanwhile_is_asked() -> None:
    bench = Bench(controller_id=-1)
    bench.shutdown.begin()
    bench.control.controller_id = 0
    bench.shutdown.try_shutdown()

    assert [type(each) for each in bench.asked] == [ControlledShutdown]
    bench.answer(ErrorCode.NONE)
    assert [type(each) for each in bench.asked] == [ControlledShutdown, LeaveStore]


def test_a_broker_that_never_registered_ends_at_once() -> None:
    """Kafka sends requests only if startupComplete is set."""
    bench = Bench(controller_id=0, broker_epoch=-1)
    bench.shutdown.begin()

    assert [type(each) for each in bench.asked] == [LeaveStore]
