"""What an operator saw: who holds which partition, and the form it is kept in."""

import pytest

from lab.conformance.course import (
    Course,
    ExchangesSeen,
    HeldPartitions,
    RebalanceSeen,
    course_from_json,
    course_to_json,
)

COURSE = Course(
    plan="p",
    until_ms=60_000,
    rebalances=(
        RebalanceSeen(1, ("c1", "c2"), "c2", "joined", 500, 6_500, 6_520, {"c1": {"orders": (0, 1)}, "c2": {}}),
        RebalanceSeen(2, ("c1",), "c1", "", None, 9_000, None, {}),
    ),
    downtime_ms={"orders-0": ((7_000, 9_000), (10_000, 10_500)), "orders-1": ()},
    errors={"JoinGroup MEMBER_ID_REQUIRED": 2},
    requests={"JoinGroup": 5},
    source="made up",
    timeline=((0, "start c1"),),
    took_effect=((120, "joins c1"),),
    windows_ms=(1_600,),
    loads_ms=((170, 28),),
    exchanges={"c1 coordinator": (("JoinGroup 1", 1), ("Heartbeat", 7))},
)


def test_a_partition_is_down_from_its_revocation_until_the_next_member_has_it() -> None:
    """ConsumerRebalanceListener: onPartitionsRevoked, then onPartitionsAssigned at its next owner."""
    held = HeldPartitions()
    held.assigned(1_000, "c1", ["orders-0", "orders-1"])
    held.revoked(5_000, "c1", ["orders-0"])
    held.assigned(7_000, "c2", ["orders-0"])

    assert held.spans_ms(9_000) == {"orders-0": ((5_000, 7_000),), "orders-1": ()}


def test_what_two_members_hold_is_down_when_both_have_let_go() -> None:
    """A member that was replaced and does not know it yet goes on with what it has."""
    held = HeldPartitions()
    held.assigned(1_000, "c1", ["orders-0"])
    held.assigned(2_000, "c2", ["orders-0"])
    held.revoked(3_000, "c1", ["orders-0"])
    held.ended(4_000, "c2")

    assert held.spans_ms(10_000) == {"orders-0": ((4_000, 10_000),)}


def test_a_process_that_stands_still_holds_nothing_until_it_goes_on() -> None:
    """SIGSTOP and SIGCONT; what it is told to give up when it goes on stays down."""
    held = HeldPartitions()
    held.assigned(1_000, "c1", ["orders-0", "orders-1"])
    held.paused(2_000, "c1")
    held.resumed(5_000, "c1")
    held.revoked(5_100, "c1", ["orders-1"])

    assert held.spans_ms(6_000) == {"orders-0": ((2_000, 5_000),), "orders-1": ((2_000, 5_000), (5_100, 6_000))}


def test_partitions_stand_in_the_order_of_their_numbers() -> None:
    """Ten comes after nine."""
    held = HeldPartitions()
    held.assigned(0, "c1", ["b-10", "b-9", "a-11"])

    assert list(held.spans_ms(1)) == ["a-11", "b-9", "b-10"]


def test_downtime_is_summed_over_partitions_and_the_longest_is_one_span() -> None:
    """Partition-milliseconds, and milliseconds."""
    assert COURSE.downtime_sum_ms == 2_500
    assert COURSE.downtime_longest_ms == 2_000


def test_a_rebalance_takes_from_preparing_to_stable() -> None:
    """And has no duration when one of the two was not seen."""
    assert [seen.took_ms for seen in COURSE.rebalances] == [6_020, None]


def test_a_course_comes_back_from_its_text() -> None:
    """Whatever is in it."""
    assert course_from_json(course_to_json(COURSE)) == COURSE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Expecting value"),
        ("[]", "is no JSON object"),
        ("{}", "required field missing"),
        ('{"plan": "p", "extra": 1}', "extra fields found"),
        (course_to_json(COURSE)[:100], "Unterminated string|Expecting"),
    ],
)
def test_a_damaged_text_is_refused(text: str, says: str) -> None:
    """One error that says what is wrong."""
    with pytest.raises(ValueError, match=says):
        course_from_json(text)


def test_what_is_periodic_is_counted_between_what_is_not() -> None:
    """Sorted by name: their order among one another is chance. Two connections, each with an order of its own."""
    seen = ExchangesSeen()
    for api, error in (
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "MEMBER_ID_REQUIRED"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("OffsetCommit", ""),
        ("Heartbeat", ""),
        ("Heartbeat", ""),
        ("Heartbeat", "REBALANCE_IN_PROGRESS"),
        ("Heartbeat", "REBALANCE_IN_PROGRESS"),
        ("OffsetCommit", "FENCED_INSTANCE_ID"),
    ):
        seen.answered("c1", api, error)
    seen.answered("c1", "JoinGroup", "", generation=3)
    seen.answered("c2", "Heartbeat", "")

    assert seen.all() == {
        "c1 brokers": (("FindCoordinator COORDINATOR_NOT_AVAILABLE", 2),),
        "c1 coordinator": (
            ("JoinGroup MEMBER_ID_REQUIRED", 1),
            ("Heartbeat", 2),
            ("OffsetCommit", 1),
            ("Heartbeat REBALANCE_IN_PROGRESS", 2),
            ("OffsetCommit FENCED_INSTANCE_ID", 1),
            ("JoinGroup 3", 1),
        ),
        "c2 coordinator": (("Heartbeat", 1),),
    }
