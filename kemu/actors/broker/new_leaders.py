"""The new leaders that a broker names in its errors since 3.7 (KIP-951).

Source: ``KafkaApis.getCurrentLeader``, ``handleProduceRequest`` and ``handleFetchRequest`` (3.7 to 4.3).
"""

from collections.abc import Callable, Iterable

from kemu.protocol.messages.data import OUTDATED, BrokerMetadata, FetchedPartition, NewLeader, ProducedBatch


class NewLeaders:
    """The leaders that this broker knows.

    Args:
        believed: (leader or -1, leader epoch) of a partition with a replica on this broker; None without a replica.
        cached: the same of a partition in the metadata cache.
        live: a live broker in the metadata cache.
    """

    def __init__(
        self,
        believed: Callable[[str, int], tuple[int, int] | None],
        cached: Callable[[str, int], tuple[int, int]],
        live: Callable[[int], BrokerMetadata | None],
    ) -> None:
        self._believed = believed
        self._cached = cached
        self._live = live

    def of(self, rows: Iterable[FetchedPartition | ProducedBatch]) -> tuple[NewLeader, ...]:
        """The known leaders of the rows with an error of ``OUTDATED``."""
        named: list[NewLeader] = []
        for row in rows:
            if row.error not in OUTDATED:
                continue
            believed = self._believed(row.topic, row.partition)
            leader, epoch = self._cached(row.topic, row.partition) if believed is None else believed
            if leader >= 0 and epoch >= 0:
                node = self._live(leader)
                named.append(
                    NewLeader(
                        topic=row.topic, partition=row.partition, leader_id=leader, leader_epoch=epoch, broker=node
                    )
                )
        return tuple(named)
