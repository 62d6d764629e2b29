"""Any reassignment, on paper: it ends, keeps its limits and its promises (KIP-435; spec of the batching)."""

from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.reassign.batches import Batches
from kemu.protocol.reassign.moves import (
    UNLIMITED,
    Limits,
    Move,
    ReassignmentStep,
    Standing,
    leader_after,
    next_step,
    waits_for,
    without,
)
from kemu.protocol.reassign.plans import plan_reassignment
from kemu.protocol.reassign.readings import POLICIES
from tests.protocol.reassign.reference import differences

BROKERS = st.integers(0, 7)
LISTS = st.lists(BROKERS, min_size=1, max_size=5, unique=True).map(tuple)
LIMIT = st.one_of(st.integers(1, 5), st.just(UNLIMITED))
LIMITS = st.builds(Limits, LIMIT, LIMIT, LIMIT)
MIN_ISR = st.integers(1, 3)
ALL = frozenset(range(8))


@given(st.lists(st.tuples(LISTS, LISTS), min_size=1, max_size=6), LIMITS, MIN_ISR, st.sampled_from(list(POLICIES)))
def test_with_all_brokers_up_every_policy_ends_in_the_target(
    moves: list[tuple[tuple[int, ...], tuple[int, ...]]], limits: Limits, min_isr: int, policy: str
) -> None:
    """Termination, final order included; min.insync.replicas is no larger than the replicas it is asked of."""
    min_isr = min(min_isr, *(len(each) for pair in moves for each in pair))
    before = {("t", number): start for number, (start, _) in enumerate(moves)}
    wanted = {("t", number): target for number, (_, target) in enumerate(moves)}

    plan = plan_reassignment(before, wanted, limits=limits, min_isr=min_isr, policy=policy, online=ALL)

    assert plan.waiting == ()
    now = dict(before)
    for batch in plan.batches:
        for each in batch:
            assert set(each.step.during) == set(now[each.at]) | set(each.step.add)
            now[each.at] = each.step.replicas
            assert each.leader in each.step.replicas
    assert now == wanted


@given(st.lists(st.tuples(LISTS, LISTS), min_size=1, max_size=6), LIMITS)
def test_no_batch_exceeds_a_limit(moves: list[tuple[tuple[int, ...], tuple[int, ...]]], limits: Limits) -> None:
    """R per partition and step, P partitions, L steps that move a leader."""
    before = {("t", number): start for number, (start, _) in enumerate(moves)}
    wanted = {("t", number): target for number, (_, target) in enumerate(moves)}

    plan = plan_reassignment(before, wanted, limits=limits, online=ALL)

    for batch in plan.batches:
        assert len(batch) <= limits.partition_movements
        assert sum(each.step.moves_leader for each in batch) <= limits.leader_movements
        assert all(len(each.step.add) <= limits.replica_movements for each in batch)


@given(LISTS, LISTS, st.frozensets(BROKERS), st.integers(1, 5), MIN_ISR)
def test_dead_brokers_and_a_late_isr_never_cost_what_the_guard_promises(
    start: tuple[int, ...], target: tuple[int, ...], dead: frozenset[int], most: int, min_isr: int
) -> None:
    """Never beyond R but for the named deficit; no in-sync replica goes when too few would be left; no endless loop."""
    online = ALL - dead
    move = Move.begin(start, target)
    isr = tuple(broker for broker in start if broker in online)
    standing = Standing(isr[0] if isr else -1, isr, online)
    for _ in range(40):
        if move.done or not standing.isr:
            return  # a partition without a leader is not reassigned
        step = next_step(move, standing, min_isr, most)
        if step is None:
            return
        in_sync = sum(1 for broker in move.replicas if broker in standing.isr)
        deficit = max(0, min_isr - in_sync) if set(move.replicas) == set(move.original) else 0
        assert len(step.add) <= max(most, deficit)
        assert set(step.add) <= online
        during = tuple(broker for broker in step.during if broker in standing.isr or broker in step.add)
        if waits_for(move, step, during, min_isr):
            return
        left = without(during, step.drop)
        assert left
        if any(broker in during for broker in step.drop) and step.replicas != target:
            assert len(left) >= min(min_isr, len(target))
        standing = Standing(leader_after(move, step, standing, during), left, online)
        move = move.committed(step)
    raise AssertionError(f"{start} -> {target} without {sorted(dead)}: no end")


@given(LISTS, LISTS, st.integers(1, 3), st.integers(0, 6))
def test_a_cancel_at_any_point_restores_the_original(
    start: tuple[int, ...], target: tuple[int, ...], most: int, after: int
) -> None:
    """Under the same limits; nothing committed yet: at once, in the original order."""
    move = _run(Move.begin(start, target), Standing(start[0], start, ALL), most, after)

    cancelled = move[0].cancelled()
    end, _ = _run(cancelled, move[1], most, 40)

    assert end.done
    assert end.replicas == start
    assert after or cancelled.done


def _run(move: Move, standing: Standing, most: int, steps: int) -> tuple[Move, Standing]:
    for _ in range(steps):
        step = None if move.done else next_step(move, standing, 1, most)
        if step is None:
            break
        isr = tuple(broker for broker in step.during if broker in standing.isr or broker in step.add)
        leader = leader_after(move, step, standing, isr)
        move, standing = move.committed(step), Standing(leader, without(isr, step.drop), ALL)
    return move, standing


def test_lowered_limits_leave_what_runs_alone() -> None:
    """KIP-435: "would only affect the next reassignment step calculation"."""
    step = Move.begin((0, 1), (2, 3))
    chosen: dict[int, ReassignmentStep] = {}

    def step_of(at: int) -> ReassignmentStep:
        found = next_step(step, Standing(0, (0, 1), ALL), 1, batches.limits.replica_movements)
        assert found is not None
        return chosen.setdefault(at, found)

    batches: Batches[int] = Batches(step_of, Limits())
    for at in range(3):
        batches.submit(at)
    assert len(batches.start()) == 3

    batches.reconsider(Limits(1, 1, 1))
    batches.submit(3)

    assert batches.start() == []
    assert len(batches.running) == 3
    for at in range(3):
        batches.committed(at)
    for at in range(3):
        assert [begun for begun, _ in batches.start()] == [at], "one at a time, in the order of requests"
        assert not batches.waits_for_leaders((at + 1) % 3 if at < 2 else 3)
        batches.remove(at)
    assert [at for at, _ in batches.start()] == [3]


def test_a_queued_step_is_chosen_again_when_it_begins() -> None:
    """Two brokers left the ISR before the request, so the last member may not be removed; they are back when a place
    is free (``tests.soak_reassignment``, brokers-join-under-load, seed 216).
    """
    move, isr = Move.begin((1, 2, 0), (1, 2, 3)), {0: (1, 2, 0), 1: (0,)}

    def step_of(at: int) -> ReassignmentStep | None:
        return next_step(move, Standing(0, isr[at], ALL), 2, 1)

    batches: Batches[int] = Batches(step_of, Limits(partition_movements=1, replica_movements=1))
    for at in range(2):
        batches.submit(at)
    batches.start()
    isr[1] = (0, 1, 2)
    batches.remove(0)

    assert [(at, step.add, step.drop) for at, step in batches.start()] == [(1, (3,), (0,))]


def test_a_second_implementation_begins_the_same_steps_while_limits_change() -> None:
    """``python -m tests.protocol.reassign.reference`` makes 1,000 cases."""
    assert differences(range(100)) == {}
