"""Placement of the replicas of a new topic.

Leaders rotate over the brokers. A partition's further replicas follow its leader at a distance that grows by one with
every rotation. So the followers of one broker's partitions are spread over the other brokers. With racks, brokers are
taken from the racks in turn, and a partition's replicas are in as many racks as possible.

Kafka draws the first broker and the distance at random; here they are arguments. Source: Kafka 2.8 ``AdminUtils``,
KIP-36.
"""

from collections.abc import Mapping, Sequence


class CannotPlace(ValueError):
    """The error if the replication factor is below 1 or above the number of brokers, or if some brokers lack a rack."""


def place(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    *,
    racks: Mapping[int, str] | None = None,
    start: int = 0,
    shift: int = 0,
    first_partition: int = 0,
) -> tuple[tuple[int, ...], ...]:
    """The replicas of each partition, preferred leader first.

    Args:
        brokers: the live brokers, ascending.
        racks: broker -> rack; None or empty: ignore racks.
        start: the index of the first partition's leader.
        shift: the distance of the second replica from the leader, before the distance grows.
        first_partition: the number of the first new partition (for a topic that grows).

    Raises:
        CannotPlace: the replication factor is not possible, or only some brokers have a rack.
    """
    if replication_factor < 1:
        raise CannotPlace("the replication factor must be at least 1")
    if replication_factor > len(brokers):
        raise CannotPlace(f"replication factor {replication_factor} with {len(brokers)} brokers")
    if racks:
        missing = [broker for broker in brokers if broker not in racks]
        if missing:
            raise CannotPlace(f"brokers without a rack: {missing}")
        return _with_racks(brokers, racks, partitions, replication_factor, start, shift, first_partition)
    return _without_racks(brokers, partitions, replication_factor, start, shift, first_partition)


def _without_racks(
    brokers: Sequence[int], partitions: int, factor: int, start: int, shift: int, first_partition: int
) -> tuple[tuple[int, ...], ...]:
    count = len(brokers)
    placed = []
    for number in range(first_partition, first_partition + partitions):
        if number > 0 and number % count == 0:
            shift += 1
        first = (number + start) % count
        placed.append((brokers[first], *[brokers[_follower(first, shift, k, count)] for k in range(factor - 1)]))
    return tuple(placed)


def _follower(first: int, shift: int, index: int, count: int) -> int:
    return (first + 1 + (shift + index) % (count - 1)) % count


def racks_in_turn(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """The brokers, one from each rack in turn; racks are in order of name."""
    by_rack: dict[str, list[int]] = {rack: [] for rack in sorted(dict.fromkeys(racks[broker] for broker in brokers))}
    for broker in sorted(brokers):
        by_rack[racks[broker]].append(broker)
    found: list[int] = []
    while len(found) < len(brokers):
        for theirs in by_rack.values():
            if theirs:
                found.append(theirs.pop(0))
    return found


def _with_racks(
    brokers: Sequence[int],
    racks: Mapping[int, str],
    partitions: int,
    factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> tuple[tuple[int, ...], ...]:
    arranged = racks_in_turn(brokers, racks)
    count = len(arranged)
    rack_count = len(dict.fromkeys(racks[broker] for broker in brokers))
    placed = []
    for number in range(first_partition, first_partition + partitions):
        if number > 0 and number % count == 0:
            shift += 1
        first = (number + start) % count
        chosen = [arranged[first]]
        used_racks = {racks[arranged[first]]: None}
        step = 0
        for _ in range(factor - 1):
            while True:
                broker = arranged[_rack_follower(first, shift * rack_count, step, count)]
                step += 1
                fresh_rack = racks[broker] not in used_racks or len(used_racks) == rack_count
                if fresh_rack and (broker not in chosen or len(chosen) == count):
                    break
            chosen.append(broker)
            used_racks[racks[broker]] = None
        placed.append(tuple(chosen))
    return tuple(placed)


def _rack_follower(first: int, shift: int, index: int, count: int) -> int:
    return (first + 1 + (shift + index) % (count - 1)) % count
