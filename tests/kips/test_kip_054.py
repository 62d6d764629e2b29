"""KIP-54 (the sticky assignor) as its page tells it: the three examples, the alternatives, and the bug KIP-341
fixed.
"""

from collections.abc import Mapping

import pytest

from kemu.protocol.assign.base import Assignment, Memory, Subscriber, Topics
from kemu.protocol.assign.checked import InvalidAssignment, check
from kemu.protocol.assign.round_robin import RoundRobinAssignor
from kemu.protocol.assign.search.score import balance_score, is_balanced, moved
from kemu.protocol.assign.sticky import FAIR, STICKY, STICKY_FIRST, STICKY_WITHOUT_GENERATION, StickyAssignor
from kemu.protocol.assign.user_data import decode_sticky
from kemu.protocol.names import MemberId, TopicPartition

ROUND_ROBIN = RoundRobinAssignor()


def _partitions(text: str) -> list[TopicPartition]:
    """``t0p0,t1p1`` as the page writes partitions."""
    return sorted((one[:2], int(one[3:])) for one in text.split(",") if one)


def _as_written(**members: str) -> Assignment:
    return {member: _partitions(text) for member, text in members.items()}


def _sorted(assignment: Assignment) -> Assignment:
    return {member: sorted(partitions) for member, partitions in assignment.items()}


def _preserved(before: Assignment, after: Assignment) -> int:
    return sum(len(set(before[member]) & set(partitions)) for member, partitions in after.items() if member in before)


def _rejoin(
    subscriptions: Mapping[MemberId, str], assigned: Assignment, generation: int = 1, by: StickyAssignor = STICKY
) -> dict[MemberId, Subscriber]:
    """The members as they come back: with the last assignment in their user data."""
    return {
        member: Subscriber(
            tuple(topics.split()),
            user_data=by.user_data(Memory(tuple(assigned[member]), generation)) if member in assigned else None,
        )
        for member, topics in subscriptions.items()
    }


def test_example_1_five_assignments_are_preserved_when_c1_leaves() -> None:
    """KIP-54, example 1: "preserving 5 of the previous assignments (unlike the round robin assignor ... only 3)"."""
    topics = Topics({"t0": 2, "t1": 2, "t2": 2, "t3": 2})
    everybody = dict.fromkeys(("C0", "C1", "C2"), "t0 t1 t2 t3")
    first = STICKY.assign(topics, _rejoin(everybody, {}))
    assert _sorted(first) == _as_written(C0="t0p0,t1p1,t3p0", C1="t0p1,t2p0,t3p1", C2="t1p0,t2p1")
    assert _sorted(ROUND_ROBIN.assign(topics, _rejoin(everybody, {}))) == _sorted(first)

    left = _rejoin({"C0": everybody["C0"], "C2": everybody["C2"]}, first)
    sticky, round_robin = STICKY.assign(topics, left), ROUND_ROBIN.assign(topics, left)

    assert _preserved(first, sticky) == 5
    assert [len(partitions) for partitions in sticky.values()] == [4, 4]
    assert _preserved(first, round_robin) == 3
    assert _sorted(round_robin) == _as_written(C0="t0p0,t1p0,t2p0,t3p0", C2="t0p1,t1p1,t2p1,t3p1")


def test_example_2_mixed_subscriptions_end_more_balanced_and_keep_everything() -> None:
    """KIP-54, example 2: sticky gives 1, 2 and 3 partitions where round robin gives 1, 1 and 4; then it preserves 5."""
    topics = Topics({"t0": 1, "t1": 2, "t2": 3})
    subscriptions = {"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"}
    first = STICKY.assign(topics, _rejoin(subscriptions, {}))
    round_robin = ROUND_ROBIN.assign(topics, _rejoin(subscriptions, {}))
    assert _sorted(first) == _as_written(C0="t0p0", C1="t1p0,t1p1", C2="t2p0,t2p1,t2p2")
    assert _sorted(round_robin) == _as_written(C0="t0p0", C1="t1p0", C2="t1p1,t2p0,t2p1,t2p2")
    assert balance_score(map(len, first.values())) < balance_score(map(len, round_robin.values()))

    left = _rejoin({"C1": "t0 t1", "C2": "t0 t1 t2"}, first)
    second = STICKY.assign(topics, left)

    assert _sorted(second) == _as_written(C1="t0p0,t1p0,t1p1", C2="t2p0,t2p1,t2p2")
    assert _preserved(first, second) == 5
    assert _preserved(round_robin, ROUND_ROBIN.assign(topics, left)) == 3


def test_example_3_one_partition_moves_to_the_new_member() -> None:
    """KIP-54, example 3: "producing something like this (preserving 3 partition assignments)"."""
    topics = Topics({"t0": 2, "t1": 2})
    first = STICKY.assign(topics, _rejoin(dict.fromkeys(("C0", "C1"), "t0 t1"), {}))
    assert _sorted(first) == _as_written(C0="t0p0,t1p0", C1="t0p1,t1p1")

    second = STICKY.assign(topics, _rejoin(dict.fromkeys(("C0", "C1", "C2"), "t0 t1"), first))

    assert _preserved(first, second) == 3
    assert sorted(len(partitions) for partitions in second.values()) == [1, 1, 2]


def test_a_balanced_assignment_is_left_alone() -> None:
    """KIP-54: "topic partitions stay with their previously assigned consumers as much as possible"."""
    topics = Topics({"t0": 3, "t1": 2})
    subscriptions = {"C0": "t0", "C1": "t0 t1", "C2": "t1"}
    first = STICKY.assign(topics, _rejoin(subscriptions, {}))

    assert _sorted(STICKY.assign(topics, _rejoin(subscriptions, first))) == _sorted(first)


def test_the_balance_score_is_the_sum_of_differences_over_all_pairs() -> None:
    """KIP-54: "the sum of assigned partitions size difference of all consumer pairs", 0 when all have the same."""
    assert balance_score([3, 3, 3]) == 0
    assert balance_score([1, 2, 4]) == 1 + 3 + 2
    assert balance_score([]) == 0


@pytest.mark.parametrize(
    ("assignment", "balanced"),
    [
        ({"A": "t0p0,t0p1", "B": "t0p2"}, True),
        ({"A": "t0p0,t0p1,t0p2", "B": ""}, False),
        ({"A": "t1p0,t1p1,t1p2", "B": ""}, True),
    ],
)
def test_balanced_means_no_partition_improves_the_score_elsewhere(assignment: dict[str, str], balanced: bool) -> None:
    """KIP-54: differ by at most one, or "none of the topic partitions assigned to A can be assigned to B"."""
    members = {"A": Subscriber(("t0", "t1")), "B": Subscriber(("t0",))}

    assert is_balanced(members, _as_written(**assignment)) is balanced


def test_sticky_first_preserves_everything_and_fair_nothing() -> None:
    """KIP-54, alternatives yet to be considered: fairest sticky, and fairness only."""
    topics = Topics({"t0": 6})
    before = {"C0": _partitions("t0p0,t0p1,t0p2,t0p3,t0p5")}
    members = _rejoin({"C0": "t0", "C1": "t0"}, before)

    sticky_first, sticky, fair = (one.assign(topics, members) for one in (STICKY_FIRST, STICKY, FAIR))

    assert _sorted(sticky_first) == _as_written(C0="t0p0,t0p1,t0p2,t0p3,t0p5", C1="t0p4")
    assert moved(before, sticky) == 2
    assert _sorted(fair) == _as_written(C0="t0p0,t0p2,t0p4", C1="t0p1,t0p3,t0p5")


def test_a_member_back_from_a_missed_rebalance_does_not_take_what_others_own_by_now() -> None:
    """KIP-341 (KAFKA-7026): the generation in the user data decides; without it one partition has two members."""
    topics = Topics({"t0": 4})
    members = {
        "C0": _rejoin({"C0": "t0"}, {"C0": _partitions("t0p0,t0p1,t0p2,t0p3")}, generation=1)["C0"],
        "C1": _rejoin({"C1": "t0"}, {"C1": _partitions("t0p0,t0p1")}, generation=2)["C1"],
    }
    assert _sorted(STICKY.assign(topics, members)) == _as_written(C0="t0p2,t0p3", C1="t0p0,t0p1")

    old = {
        member: Subscriber(
            one.topics,
            user_data=STICKY_WITHOUT_GENERATION.user_data(Memory(decode_sticky(one.user_data).partitions, 1)),
        )
        for member, one in members.items()
    }
    broken = STICKY_WITHOUT_GENERATION.assign(topics, old)
    with pytest.raises(InvalidAssignment, match="gets it too"):
        check("sticky", topics, old, broken, cooperative=False)
    assert decode_sticky(old["C0"].user_data).generation is None
