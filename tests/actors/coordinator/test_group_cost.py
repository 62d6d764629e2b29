"""Cost of a step: it must not grow with the group. Function calls are counted, which do not depend on the computer."""

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from kemu.protocol.messages.group import Heartbeat, JoinGroup, OffsetCommit, OffsetToCommit, SyncGroup
from kemu.protocol.names import NO_GENERATION
from tests.actors.coordinator.coordinator_harness import DELAY_MS, GROUP, REBALANCE_MS, Bench, metadata, protocols

SMALL, LARGE = 10, 1_000


def work(step: Callable[[], Any]) -> int:
    """How many functions (ours and built-in) and how many lines one call runs."""
    count = 0

    def counted(_frame: Any, event: str, _arg: Any) -> Any:
        nonlocal count
        count += 1
        return counted

    before = sys.getprofile(), sys.gettrace()
    gc.disable()  # a collection would run finalizers of whatever came before
    sys.setprofile(counted)
    sys.settrace(counted)
    try:
        step()
    finally:
        sys.settrace(before[1])
        sys.setprofile(before[0])
        gc.enable()
    return count


def grown(size: int) -> tuple[Bench, list[str]]:
    """A group of this size in CompletingRebalance, and its member ids."""
    bench = Bench()
    joins = [bench.join(f"c{index}", version=3, session_ms=600_000) for index in range(size)]
    bench.advance(DELAY_MS + REBALANCE_MS)
    return bench, [join.reply.member_id for join in joins]


def step(bench: Bench, client: str, request: Any, version: int) -> int:
    """The work of one request's step alone, without the bench."""
    _, event = bench.mail(client, request, version)
    return work(lambda: bench.coordinator.step(bench.now_us, event))


def costs(size: int) -> dict[str, int]:
    """The work of each kind of step that happens once per member or more."""
    bench, ids = grown(size)
    found = {}
    sync = SyncGroup(group=GROUP, generation=1, member_id=ids[3], protocol_type="consumer", protocol_name="range")
    found["parked sync"] = step(bench, "c3", sync, 5)
    bench.sync("c0", ids[0], 1, {})
    found["sync"] = step(bench, "c3", sync, 5)
    found["heartbeat"] = step(bench, "c3", Heartbeat(group=GROUP, generation=1, member_id=ids[3]), 4)
    commit = OffsetCommit(
        group=GROUP, generation=1, member_id=ids[3], offsets=(OffsetToCommit(topic="t", partition=0, offset=1),)
    )
    found["commit"] = step(bench, "c3", commit, 8)
    rejoin = JoinGroup(
        group=GROUP,
        session_timeout_ms=600_000,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=ids[3],
        protocol_type="consumer",
        protocols=protocols("range"),
    )
    found["unchanged join"] = step(bench, "c3", rejoin, 9)
    bench.join("c1", ids[1], data=metadata("u"), session_ms=600_000)
    found["join in a rebalance"] = step(bench, "c3", rejoin, 9)
    found["refused"] = step(bench, "x", Heartbeat(group=GROUP, generation=NO_GENERATION, member_id="x"), 4)
    return found


def test_no_step_of_a_member_costs_more_in_a_large_group() -> None:
    """At most 1.5 times the work at 1,000 members of that at 10; in fact the same."""
    small, large = costs(SMALL), costs(LARGE)

    assert large == small
    assert min(large.values()) > 20


def test_a_join_phase_costs_in_proportion_to_the_members() -> None:
    """Completion looks at each member a fixed number of times."""
    small, large = [work(partial(completing(size).advance, DELAY_MS)) for size in (SMALL, LARGE)]

    assert large / small < 1.5 * LARGE / SMALL


def completing(size: int) -> Bench:
    """A group whose initial delay is about to end."""
    bench = Bench()
    for index in range(size):
        bench.join(f"c{index}", version=3, rebalance_ms=1)
    return bench
