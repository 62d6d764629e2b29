"""Produce requests on a broker, taken apart into batches (a part of both brokers).

What a good batch leads to differs: with replication it is in the leader's log at once and waits for others, without it
waits for the disk. So the broker hands in what refuses a batch and what appends one.

Source: Kafka's ``KafkaApis.handleProduceRequest``.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from kemu.actors.broker.produce_calls import Acks, ProduceCall, ProduceCalls, produced
from kemu.actors.injection import Injections
from kemu.actors.machine import Received
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Produce, ProduceBatch
from kemu.protocol.names import TopicPartition

_NONE = ErrorCode.NONE


_KNOWN_ACKS = frozenset(int(acks) for acks in Acks)


P = TypeVar("P")
"""What the broker keeps of a partition it leads."""


class ProduceRequests(Generic[P]):
    """See the module.

    Args:
        calls: answers what is decided.
        injections: answers that a plan asked for.
        partitions: what is led here.
        fault: why a batch is refused (by the batch, its partition or None, and the request's acks).
        append: takes a batch in; the call's row is decided there and then or later. Whether there is more to do for the
            partition once the whole request was seen.
    """

    def __init__(
        self,
        calls: ProduceCalls,
        injections: Injections,
        partitions: Mapping[TopicPartition, P],
        *,
        fault: Callable[[ProduceBatch, P | None, int], ErrorCode],
        append: Callable[[P, ProduceBatch, ProduceCall, int, int], bool],
    ) -> None:
        self._calls = calls
        self._injections = injections
        self._partitions = partitions
        self._fault = fault
        self._append = append

    def asked(self, event: Received) -> tuple[ProduceCall, dict[P, None]]:
        """Refuse or append each batch; the call, and the partitions for which there is more to do."""
        request: Produce = event.message
        refused = self._injections.take("Produce", event.peer)
        acks = request.acks
        if refused is None and acks not in _KNOWN_ACKS:
            refused = ErrorCode.INVALID_REQUIRED_ACKS
        call = self._calls.taken(event)
        if not request.batches:
            self._calls.answer(call)
        touched: dict[P, None] = {}
        for index, batch in enumerate(request.batches):
            partition = self._partitions.get((batch.topic, batch.partition))
            error = self._fault(batch, partition, acks) if refused is None else refused
            if partition is None or error is not _NONE:
                self._calls.decide(call, index, produced(batch, error))
            elif self._append(partition, batch, call, index, acks):
                touched[partition] = None
        return call, touched
