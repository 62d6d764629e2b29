"""Produce requests on a broker, split into batches (a part of every broker).

Brokers differ in the append of a valid batch. With replication the batch is in the leader's log at once and waits for
other replicas; without replication, the batch waits for the disk. So the broker provides the functions that refuse and
append a batch.

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
"""The broker's class of a led partition."""


class ProduceRequests(Generic[P]):
    """The common treatment of Produce requests.

    Args:
        calls: the unanswered requests.
        injections: the answers that a plan injects.
        partitions: the partitions that this broker leads.
        fault: the error of a batch (from the batch, its partition or None, and the request's acks).
        append: appends a batch; its row is decided at once or later. Returns whether the partition needs more work
            after the whole request.
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
        """Refuse or append each batch; returns the request, and the partitions that need more work."""
        request: Produce = event.message
        refused = self._injections.take("Produce", event.peer)
        acks = request.acks
        if refused is None and acks not in _KNOWN_ACKS:
            refused = ErrorCode.INVALID_REQUIRED_ACKS
        call = self._calls.taken(event)
        if not request.batches:
            self._calls.answer(call)
        touched: dict[P, None] = {}
        partitions, fault, append = self._partitions, self._fault, self._append
        for index, batch in enumerate(request.batches):
            partition = partitions.get((batch.topic, batch.partition))
            error = fault(batch, partition, acks) if refused is None else refused
            if partition is None or error is not _NONE:
                self._calls.decide(call, index, produced(batch, error))
            elif append(partition, batch, call, index, acks):
                touched[partition] = None
        return call, touched
