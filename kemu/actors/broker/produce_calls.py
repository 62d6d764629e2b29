"""Producers' requests on a broker, and the results of their batches (a part of every broker).

Source: Kafka's ``DelayedProduce``.
"""

from enum import IntEnum

from kemu.actors.broker.new_leaders import NewLeaders
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.connections import Connections
from kemu.actors.machine import Caller, Machine, Received, caller_of
from kemu.actors.parking import Parking
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import (
    OUTDATED,
    PRODUCE_NAMES_LEADERS_SINCE,
    Produce,
    ProduceBatch,
    ProducedBatch,
    ProduceReply,
)
from kemu.protocol.wire.compile import maker


class Acks(IntEnum):
    """The replicas whose append a producer waits for (Kafka's ``acks``)."""

    ALL = -1
    NONE = 0
    LEADER = 1


_NONE = ErrorCode.NONE
_produced_batch = maker(ProducedBatch)
_produce_reply = maker(ProduceReply)


class ProduceCall:
    """A Produce request whose batches are being appended; answered when its last batch is decided."""

    __slots__ = ("caller", "is_outdated", "left", "number", "rows")

    asks_for_min_isr = True
    """Whether too small an ISR at the end of the wait is an error (acks=all)."""

    def __init__(self, caller: Caller | None, batches: int) -> None:
        self.number = 0
        """The number of a request with a timeout; 0: no timeout."""
        self.caller = caller
        """The sender; None with acks 0, when no answer is sent."""
        self.rows: list[ProducedBatch | None] = [None] * batches
        self.left = batches
        self.is_outdated = False
        """Whether the result of a batch says that the sender's metadata is outdated."""

    def answer(self, index: int, row: ProducedBatch) -> bool:
        """Set the result of one batch; returns whether the request can be answered now."""
        rows = self.rows
        assert rows[index] is None, f"batch {index} is decided twice"
        rows[index] = row
        if row.error is not _NONE and row.error in OUTDATED:
            self.is_outdated = True
        self.left = left = self.left - 1
        return not left

    def reply(self, new_leaders: NewLeaders) -> object:
        """The answer: the results of the batches in the order of the request."""
        assert self.left == 0
        batches = tuple([row for row in self.rows if row is not None])
        if self.is_outdated and self.caller is not None and self.caller.version >= PRODUCE_NAMES_LEADERS_SINCE:
            return ProduceReply(batches=batches, new_leaders=new_leaders.of(batches))
        return _produce_reply(batches=batches)


class ProduceCalls:
    """The unanswered requests and their timeouts.

    Args:
        connections: muted while a request is undecided.
        new_leaders: the leaders that errors name.
    """

    def __init__(self, machine: Machine, connections: Connections, new_leaders: NewLeaders) -> None:
        self._machine = machine
        self._connections = connections
        self._new_leaders = new_leaders
        self._waiting: Parking[int, ProduceCall] = Parking(machine, BrokerTimer.PRODUCE)
        """Number -> request with a timeout."""

    def taken(self, event: Received) -> ProduceCall:
        """Register a request that was read."""
        request: Produce = event.message
        if request.acks == Acks.NONE:
            return ProduceCall(None, len(request.batches))
        self._connections.mute(event)
        return ProduceCall(caller_of(event), len(request.batches))

    def decide(self, call: ProduceCall, index: int, row: ProducedBatch) -> None:
        """Set the result of a batch."""
        if call.answer(index, row):
            self.answer(call)

    def wait(self, call: ProduceCall, number: int, timeout_ms: int) -> None:
        """Set a timeout (``timed_out``) for an unanswered request; ``number`` identifies the request."""
        call.number = number
        self._waiting.hold(number, call, timeout_ms * 1_000)

    def timed_out(self, number: int) -> ProduceCall:
        """Remove and return a request that timed out."""
        return self._waiting.time_is_over(number)

    def answer(self, call: ProduceCall) -> None:
        """Answer a request whose batches are all decided."""
        self._waiting.release(call.number)
        if call.caller is not None:
            self._machine.reply(call.caller, call.reply(self._new_leaders))
            self._connections.answered(call.caller)


def produced(batch: ProduceBatch, error: ErrorCode, base_offset: int = -1, append_time_ms: int = -1) -> ProducedBatch:
    """The row of a batch in the answer."""
    return _produced_batch(
        topic=batch.topic,
        partition=batch.partition,
        error=error,
        base_offset=base_offset,
        append_time_ms=append_time_ms,
    )


def fault_of(batch: ProduceBatch) -> ErrorCode:
    """The error of a batch that is malformed for every leader; NONE for a valid batch."""
    if not 0 < batch.count < 1 << 31:
        return ErrorCode.INVALID_REQUEST
    if batch.producer_id >= 0 and not (0 <= batch.sequence < 1 << 31 and 0 <= batch.producer_epoch < 1 << 15):
        return ErrorCode.INVALID_REQUEST
    return _NONE
