"""Cost of planning a reassignment, and its growth with the number of partitions.

Every replica of every partition moves to another broker (replication factor 4), in KIP-435's batches. The plan of
10,000 partitions must take at most ``LIMIT_S`` of CPU time. Each figure is a median. Growth is the time per partition
divided by the time per partition at the smallest size; 1 means linear.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

from kemu.protocol.names import TopicPartition
from kemu.protocol.reassign.moves import Limits
from kemu.protocol.reassign.plans import plan_reassignment

Say = Callable[[str], None]
SIZES = (1_250, 2_500, 5_000, 10_000)
QUICK_SIZES = (100, 200)
BROKERS = 20
FACTOR = 4
LIMIT_S = 5.0
CASES = {
    "unlimited": Limits(),
    "R1": Limits(replica_movements=1),
    "R1_P50_L10": Limits(replica_movements=1, partition_movements=50, leader_movements=10),
}


def lists(partitions: int, first: int) -> dict[TopicPartition, tuple[int, ...]]:
    """Partitions spread over the brokers, beginning with the broker ``first``."""
    return {
        ("t", number): tuple(first + (number + step) % BROKERS for step in range(FACTOR))
        for number in range(partitions)
    }


def measure(say: Say, *, quick: bool = False) -> dict[str, Any]:
    """All figures by dotted name; times in CPU seconds. ``say`` shows progress."""
    result: dict[str, Any] = {}
    for name, limits in CASES.items():
        base = 0.0
        for size in QUICK_SIZES if quick else SIZES:
            say(f"{name}: {size} partitions")
            spent_s = _median_s(size, limits, 1 if quick else 3)
            base = base or spent_s / size
            result[f"{name}.{size}_s"] = round(spent_s, 3)
            result[f"{name}.{size}_per_partition"] = round(spent_s / size / base, 2)
        result[f"{name}.of_limit"] = round(spent_s / LIMIT_S, 3)
    return result


def _median_s(size: int, limits: Limits, times: int) -> float:
    current, target = lists(size, 0), lists(size, BROKERS)
    spent = []
    for _ in range(times):
        began = time.process_time()
        plan = plan_reassignment(current, target, limits=limits, min_isr=2)
        spent.append(time.process_time() - began)
        assert not plan.waiting and plan.batches, "everything arrives"
    return statistics.median(spent)
