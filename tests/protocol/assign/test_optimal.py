"""The ``optimal`` assignors against exhaustive search, against certificates, and on KIP-54's own examples."""

from random import Random
from time import perf_counter

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.assign.base import Assignment, Memory, Subscriber, Topics
from kemu.protocol.assign.optimal import OPTIMAL, OPTIMAL_COOPERATIVE, optimal_moves_bound
from kemu.protocol.assign.search.flow import Dealing
from kemu.protocol.assign.search.levels import levels
from kemu.protocol.names import MemberId
from tests.protocol.assign.certificate import (
    Flaw,
    assert_valid,
    best_by_exhaustion,
    certify,
    moves,
    pairwise_score,
    previous_owners,
    random_group,
)

Group = tuple[Topics, dict[MemberId, Subscriber]]
ENUMERABLE = 20_000
"""The most assignments an exhaustive search may have to try."""


def small_groups(seed: int, count: int) -> list[Group]:
    """Groups small enough to try every assignment of."""
    random = Random(seed)
    found: list[Group] = []
    while len(found) < count:
        topics, members = random_group(random, 4, 4, 4, subscribed=random.choice([0.3, 0.6, 1.0]), claimed=0.8)
        choices = 1
        for topic, partitions in topics.partitions.items():
            choices *= max(sum(topic in one.topics for one in members.values()), 1) ** partitions
        if choices <= ENUMERABLE:
            found.append((topics, members))
    return found


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """Any group of up to 6 topics and 7 members, with any claims, also of what does not exist."""
    names = [f"t{n}" for n in range(draw(st.integers(1, 6)))]
    topics = Topics({name: draw(st.integers(0, 6)) for name in names})
    claims = st.lists(st.tuples(st.sampled_from([*names, "gone"]), st.integers(0, 6)), unique=True, max_size=12)
    subscriber = st.builds(
        Subscriber,
        topics=st.lists(st.sampled_from([*names, "gone"]), unique=True).map(tuple),
        owned=claims.map(tuple),
        generation=st.integers(-1, 3),
    )
    members = draw(st.lists(subscriber, min_size=1, max_size=7))
    return topics, {f"m{n}": one for n, one in enumerate(members)}


def owning(members: dict[MemberId, Subscriber], assignment: Assignment, generation: int) -> dict[MemberId, Subscriber]:
    """The same members after they got this assignment."""
    return {
        member: evolve(one, owned=tuple(assignment[member]), generation=generation) for member, one in members.items()
    }


def test_score_and_moves_equal_those_of_an_exhaustive_search():
    """KIP-54: balance first, then stickiness; here both are the best there is."""
    seen_moves = 0
    for topics, members in small_groups(seed=1, count=700):
        assignment = OPTIMAL.assign(topics, members)

        assert_valid(topics, members, assignment)
        found = (pairwise_score(assignment), moves(topics, members, assignment))
        assert found == best_by_exhaustion(topics, members), (topics, members)
        seen_moves += found[1] > 0

    assert seen_moves > 100, "the cases must be ones in which something has to move"


@pytest.mark.soak
def test_score_and_moves_equal_those_of_an_exhaustive_search_in_many_more_cases():
    """The same claim over 20,000 groups."""
    for topics, members in small_groups(seed=2, count=20_000):
        assignment = OPTIMAL.assign(topics, members)
        found = (pairwise_score(assignment), moves(topics, members, assignment))
        assert found == best_by_exhaustion(topics, members), (topics, members)


@given(groups())
def test_any_assignment_is_valid_and_certified(group):
    """No improving cycle exists in the residual network: see ``certify``."""
    topics, members = group

    assignment = OPTIMAL.assign(topics, members)

    assert_valid(topics, members, assignment)
    assert certify(topics, members, assignment) is None
    assert optimal_moves_bound(topics, members) == moves(topics, members, assignment)


@given(groups(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(group, random):
    """The one law: the same members and topics, in any order, give the same lists."""
    topics, members = group

    def shuffled(items):
        return random.sample(list(items), len(list(items)))

    other_topics = Topics(dict(shuffled(topics.partitions.items())))
    other_members = {
        member: evolve(one, topics=tuple(shuffled(one.topics)), owned=tuple(shuffled(one.owned)))
        for member, one in shuffled(members.items())
    }

    for assignor in (OPTIMAL, OPTIMAL_COOPERATIVE):
        assert assignor.assign(topics, members) == assignor.assign(other_topics, other_members)


@given(groups())
def test_assigning_again_moves_nothing(group):
    """An optimal assignment that everybody owns stays as it is."""
    topics, members = group
    first = OPTIMAL.assign(topics, members)

    assert OPTIMAL.assign(topics, owning(members, first, generation=9)) == first


@given(groups())
def test_the_cooperative_one_never_gives_what_another_member_claims(group):
    """KIP-429: a partition is revoked in one rebalance and assigned in the next."""
    topics, members = group
    owners = previous_owners(topics, members)

    first_pass = OPTIMAL_COOPERATIVE.assign(topics, members)

    for member, held in first_pass.items():
        for partition in held:
            others = [other for other, one in members.items() if other != member and partition in one.owned]
            assert not others or owners.get(partition) == member


@given(groups())
def test_the_cooperative_one_settles_in_one_follow_up_at_the_same_score_and_moves(group):
    """The follow-up completes the plan: nobody gives up anything twice."""
    topics, members = group

    first_pass = OPTIMAL_COOPERATIVE.assign(topics, members)
    settled = OPTIMAL_COOPERATIVE.assign(topics, owning(members, first_pass, generation=9))

    assert_valid(topics, members, settled)
    assert all(set(first_pass[member]) <= set(settled[member]) for member in members)
    assert pairwise_score(settled) == pairwise_score(OPTIMAL.assign(topics, members))
    assert moves(topics, members, settled) == optimal_moves_bound(topics, members)


@pytest.mark.parametrize(
    ("topics", "partitions", "members", "subscribed"),
    [(30, 33, 50, 0.05), (30, 33, 50, 0.5), (12, 40, 60, 0.15), (150, 3, 40, 0.03)],
)
def test_a_mid_size_group_is_certified_through_a_chain_of_rebalances(topics, partitions, members, subscribed):
    """Members leave and join and change their subscriptions; each assignment is the next one's claims."""
    random = Random(f"{topics} {members} {subscribed}")
    counts = {f"t{n:03}": random.randint(1, 2 * partitions) for n in range(topics)}

    def newcomer() -> Subscriber:
        return Subscriber(tuple(topic for topic in counts if random.random() < subscribed))

    group = {f"m{n:03}": newcomer() for n in range(members)}
    for generation in range(1, 5):
        assignment = OPTIMAL.assign(Topics(counts), group)

        assert_valid(Topics(counts), group, assignment)
        assert certify(Topics(counts), group, assignment) is None
        assert optimal_moves_bound(Topics(counts), group) == moves(Topics(counts), group, assignment)

        group = owning(group, assignment, generation)
        for member in random.sample(sorted(group), members // 10):
            del group[member]
        for member in random.sample(sorted(group), members // 10):
            group[member] = evolve(group[member], topics=newcomer().topics)
        group[f"n{generation}"] = newcomer()


def test_the_certificate_finds_what_is_wrong():
    """The judge itself: an unbalanced assignment, and a balanced one that moves two partitions for nothing."""
    topics = Topics({"t": 4})
    members = {
        "a": Subscriber(("t",), (("t", 0), ("t", 1)), 1),
        "b": Subscriber(("t",), (("t", 2), ("t", 3)), 1),
    }

    unbalanced: Assignment = {"a": [("t", 0), ("t", 1), ("t", 2)], "b": [("t", 3)]}
    swapped: Assignment = {"a": [("t", 2), ("t", 3)], "b": [("t", 0), ("t", 1)]}

    assert isinstance(flaw := certify(topics, members, unbalanced), Flaw)
    assert flaw.squares < 0
    assert certify(topics, members, OPTIMAL.assign(topics, members)) is None
    assert moves(topics, members, swapped) == 4
    other = Topics({"s": 1, "t": 1})
    crossed = {"a": Subscriber(("s", "t"), (("s", 0),), 1), "b": Subscriber(("s", "t"), (("t", 0),), 1)}
    flaw = certify(other, crossed, {"a": [("t", 0)], "b": [("s", 0)]})
    assert flaw == Flaw(squares=0, moves=-2)


KIP_54_EXAMPLES = {
    "1: C1 of three leaves": (
        {f"t{n}": 2 for n in range(4)},
        {
            "C0": Subscriber(("t0", "t1", "t2", "t3"), (("t0", 0), ("t1", 1), ("t3", 0)), 1),
            "C2": Subscriber(("t0", "t1", "t2", "t3"), (("t1", 0), ("t2", 1)), 1),
        },
        (0, 0),
    ),
    "2: C0 of three leaves": (
        {"t0": 1, "t1": 2, "t2": 3},
        {
            "C1": Subscriber(("t0", "t1"), (("t1", 0), ("t1", 1)), 1),
            "C2": Subscriber(("t0", "t1", "t2"), (("t2", 0), ("t2", 1), ("t2", 2)), 1),
        },
        (0, 0),
    ),
    "3: C2 joins two": (
        {"t0": 2, "t1": 2},
        {
            "C0": Subscriber(("t0", "t1"), (("t0", 0), ("t1", 0)), 1),
            "C1": Subscriber(("t0", "t1"), (("t0", 1), ("t1", 1)), 1),
            "C2": Subscriber(("t0", "t1")),
        },
        (2, 1),
    ),
}


@pytest.mark.parametrize("example", KIP_54_EXAMPLES)
def test_the_examples_of_the_page_keep_what_the_page_keeps(example):
    """KIP-54, Examples 1 to 3: 5, 5 and 3 partitions preserved, at the balance of the page's tables."""
    counts, members, expected = KIP_54_EXAMPLES[example]
    topics = Topics(counts)

    assignment = OPTIMAL.assign(topics, members)

    assert (pairwise_score(assignment), moves(topics, members, assignment)) == expected


def test_a_chain_of_three_moves_is_found_where_no_single_move_helps():
    """Balance can be a path away: a must pass to b, b to c, c to d, because neighbours alone share topics."""
    topics = Topics({"ab": 3, "bc": 2, "cd": 1})
    members = {
        "a": Subscriber(("ab",), (("ab", 0), ("ab", 1), ("ab", 2)), 1),
        "b": Subscriber(("ab", "bc"), (("bc", 0), ("bc", 1)), 1),
        "c": Subscriber(("bc", "cd"), (("cd", 0),), 1),
        "d": Subscriber(("cd",)),
    }

    assignment = OPTIMAL.assign(topics, members)

    assert [len(assignment[member]) for member in "abcd"] == [2, 2, 1, 1]
    assert certify(topics, members, assignment) is None


def test_of_two_balanced_ways_the_one_with_fewer_moves_is_taken():
    """The choice includes which member holds one more: one that already does."""
    topics = Topics({"t": 5})
    members = {
        "a": Subscriber(("t",), (("t", 0), ("t", 1)), 1),
        "b": Subscriber(("t",), (("t", 2), ("t", 3), ("t", 4)), 1),
    }

    assert OPTIMAL.assign(topics, members) == {
        "a": [("t", 0), ("t", 1)],
        "b": [("t", 2), ("t", 3), ("t", 4)],
    }


def test_previous_owners_come_from_the_user_data_of_eager_members():
    """They own nothing when they join; V1 carries the generation, and the older claim loses (KIP-341)."""
    topics = Topics({"t": 2})
    stale = OPTIMAL.user_data(Memory((("t", 0), ("t", 1)), generation=3))
    fresh = OPTIMAL.user_data(Memory((("t", 0),), generation=4))
    members = {"a": Subscriber(("t",), user_data=stale), "b": Subscriber(("t",), user_data=fresh)}

    assert OPTIMAL.user_data(None) is None
    assert OPTIMAL.assign(topics, members) == {"a": [("t", 1)], "b": [("t", 0)]}
    assert optimal_moves_bound(topics, members) == 0


def test_an_older_subscription_gets_its_generation_from_the_cooperative_user_data():
    """KIP-792: subscriptions before v2 have no generation of their own."""
    topics = Topics({"t": 2})
    old = {generation: OPTIMAL_COOPERATIVE.user_data(Memory(generation=generation)) for generation in (6, 7)}
    both = (("t", 0), ("t", 1))
    members = {
        "a": Subscriber(("t",), both, user_data=old[6]),
        "b": Subscriber(("t",), (("t", 0),), user_data=old[7]),
    }

    assert OPTIMAL_COOPERATIVE.assign(topics, members) == {"a": [("t", 1)], "b": [("t", 0)]}


def test_partitions_without_a_subscriber_stay_out_and_members_without_topics_get_nothing():
    """Every member is a key of the answer."""
    topics = Topics({"t": 2, "nobody": 3, "empty": 0})
    members = {"a": Subscriber(("t", "empty", "unknown")), "b": Subscriber(())}

    assert OPTIMAL.assign(topics, members) == {"a": [("t", 0), ("t", 1)], "b": []}
    assert OPTIMAL.assign(topics, {}) == {}


def test_every_member_and_topic_is_in_one_level():
    """Members that only a full topic feeds sit above those that share a thin one."""
    # Topic 0 (10 partitions) for members 0 and 1; topic 1 (2 partitions) for members 1, 2 and 3.
    found = levels([10, 2], [0b0011, 0b1110], {0: 0b0001, 1: 0b0010, 2: 0b1100})

    by_members = {level.members: level for level in found}
    assert sorted(by_members) == [0b0011, 0b1100]
    assert by_members[0b0011].topics == (0,)
    assert by_members[0b0011].floor in (4, 5)
    assert by_members[0b1100].topics == (1,)
    assert by_members[0b1100].floor in (0, 1)


def test_the_longest_price_path_stays_within_the_stated_bound():
    """A row of members, each sharing a topic with the next, where one partition has to be passed along all of them."""
    size = 120
    amounts = [1] * size
    subscribers = [1 << member | 1 << (member + 1) for member in range(size)]
    owned = [{member: 1} for member in range(size)]
    amounts[0] += 1

    dealing = Dealing(size + 1, (1 << size + 1) - 1, amounts, subscribers, owned, [1] * (size + 1), extras=0)
    dealing.settle()

    assert dealing.sink_potential == size == sum(len(given) for given in dealing.given)
    assert not any(dealing.room)


def test_a_dealing_that_cannot_be_finished_is_our_own_mistake():
    """The engine asserts what its caller must have checked, instead of running on."""
    dealing = Dealing(2, 0b11, [3], [0b01], [{}], [1, 2], extras=0)

    with pytest.raises(AssertionError, match="no feasible flow"):
        dealing.settle()


@pytest.mark.parametrize("subscribed", [0.05, 0.2, 0.5])
def test_a_thousand_partitions_on_fifty_members_take_well_under_a_second(subscribed):
    """Mixed subscriptions, fresh and after members left; the limit is far above what it takes, a few milliseconds."""
    random = Random(f"{subscribed}")
    topics = Topics({f"t{n:02}": random.randint(20, 50) for n in range(30)})
    members = {
        f"m{n:02}": Subscriber(tuple(topic for topic in topics.partitions if random.random() < subscribed))
        for n in range(50)
    }

    started = perf_counter()
    assignment = OPTIMAL.assign(topics, members)
    rest = dict(list(owning(members, assignment, generation=1).items())[5:])
    OPTIMAL.assign(topics, rest)
    seconds = perf_counter() - started

    assert sum(topics.partitions.values()) > 900
    assert seconds < 0.5
