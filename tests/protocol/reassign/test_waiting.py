"""The reasons of a waiting reassignment, and their texts."""

import pytest

from kemu.protocol.reassign.moves import Limits, Move, Standing, next_step
from kemu.protocol.reassign.waiting import Wait, WaitReason, of_blocked, of_limit, of_step

ALL = frozenset(range(6))


@pytest.mark.parametrize(
    ("online", "leader", "isr", "wait"),
    [
        (ALL, 0, (0, 1), Wait(WaitReason.NOT_IN_SYNC, (2, 3), "2, 3 not in sync")),
        (ALL, 0, (0, 1, 2), Wait(WaitReason.NOT_IN_SYNC, (3,), "3 not in sync")),
        (ALL - {3}, 0, (0, 1), Wait(WaitReason.NOT_UP, (3,), "3 not up; 2 not in sync")),
        (ALL - {2, 3}, 0, (0, 1), Wait(WaitReason.NOT_UP, (2, 3), "2, 3 not up")),
        (ALL - {0}, -1, (0,), Wait(WaitReason.NO_LEADER, (2, 3), "nobody leads it, 2, 3 not in sync")),
        (ALL, 0, (0, 1, 2, 3), None),
    ],
)
def test_a_step_that_runs_waits_for_who_is_late_and_says_why(
    online: frozenset[int], leader: int, isr: tuple[int, ...], wait: Wait | None
) -> None:
    """Down comes before copying, and both are said; without a leader nobody copies."""
    move = Move.begin((0, 1), (2, 3))
    step = next_step(move, Standing(0, (0, 1), ALL), 1, 2**31 - 1)
    assert step is not None

    assert of_step(move, step, Standing(leader, isr, online), isr, 1) == wait


def test_a_step_that_would_leave_too_few_in_sync_says_so() -> None:
    """The guard of ``min.insync.replicas`` (I14) holds a step that has all its additions."""
    move = Move((0, 1, 2), (0, 1, 2), (0, 3, 4))
    step = next_step(move, Standing(0, (0, 1, 2), ALL), 2, 1)
    assert step is not None

    wait = of_step(move, step, Standing(0, (3, 1), ALL), (3, *step.drop), 2)

    assert wait == Wait(WaitReason.MIN_ISR, (), "1 in sync would be left, min.insync.replicas asks for 2")


def test_what_is_blocked_waits_for_brokers_or_for_replicas_in_sync() -> None:
    """No target is up; or one is not, and what is there cannot be spared."""
    gone = of_blocked(Move.begin((0, 1), (2, 3)), Standing(0, (0, 1), frozenset({0, 1})), 1)
    few = of_blocked(Move((0, 1, 2), (0, 1), (2, 3)), Standing(0, (0,), frozenset({0, 1})), 2)

    assert gone == Wait(WaitReason.NOT_UP, (2, 3), "2, 3 not up")
    assert few == Wait(WaitReason.NOT_UP, (3,), "3 not up")


def test_a_limit_is_called_by_its_name_and_value() -> None:
    """The names of KIP-435's table."""
    limits = Limits(1, 2, 3)

    assert of_limit(limits, of_leaders=False).why == "reassignment.max.concurrent.partition.movements is 2"
    assert of_limit(limits, of_leaders=True).why == "reassignment.max.concurrent.leader.movements is 3"
