"""``lab.growth``: the memory of a cluster whose only work is the commits of one member."""

import gc
import tracemalloc

import pytest

from kemu.emulator.engine.loop import run_plain
from lab.growth import REPLICATED, idle_run

HOUR_US = 3_600_000_000
SHORT_SEGMENTS = '[brokers.config]\n"offsets.topic.segment.bytes" = 4000\n'
RARE_CHECKPOINTS = '\nconfig = { "replica.high.watermark.checkpoint.interval.ms" = 600000 }'
"""Without these, the file of high watermarks reaches its greatest length only after half a day."""
MOST_BYTES = 150_000
"""Without the log cleaner and the bounds of the panel, the commits of an hour need three times as much."""


@pytest.mark.parametrize("replication", ["", REPLICATED + RARE_CHECKPOINTS])
def test_the_commits_of_an_hour_leave_nothing(replication: str) -> None:
    """The log cleaner removes superseded commits; the panel keeps the latest commit and the commits in doubt."""
    run = idle_run(SHORT_SEGMENTS + replication)
    run_plain(run.world, HOUR_US)
    tracemalloc.start()
    try:
        sizes = []
        for hours in (2, 3):
            run_plain(run.world, hours * HOUR_US)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    assert sizes[1] - sizes[0] < MOST_BYTES, sizes
