"""``subscribe(Pattern)``: every member matches the names of all topics by itself, at each metadata refresh."""

import pytest

from kemu.actors.consumer.application import IllegalState
from kemu.actors.consumer.reasons import METADATA_CHANGED, NOT_SUBSCRIBED, SUBSCRIPTION_CHANGED
from kemu.protocol.commands import Subscribe, Unsubscribe
from kemu.protocol.messages.data import Metadata
from kemu.protocol.messages.group import JoinGroup, LeaveGroup
from kemu.protocol.messages.member import decode_subscription
from kemu.protocol.topic_pattern import TopicPattern
from tests.actors.consumer.consumer_harness import Harness

SECOND = 1_000_000
TOPICS = {"orders-eu": 2, "orders-us": 1, "my-orders-eu": 1, "other": 3, "__consumer_offsets": 5}


def matching(pattern: str = "orders-.*", topics: dict[str, int] | None = None, **config: object) -> Harness:
    """A member of such a subscription, in its group."""
    return Harness(dict(TOPICS if topics is None else topics), subscribe=(), pattern=pattern, **config).stable()  # type: ignore[arg-type]


def joined_with(harness: Harness) -> list[tuple[str, ...]]:
    """The subscriptions of its JoinGroups that carry its id."""
    joins = [each for each in harness.requests(JoinGroup) if each.member_id]
    return [decode_subscription(each.protocols[0].metadata).topics for each in joins]


def reasons(harness: Harness) -> list[str | None]:
    return [each.reason for each in harness.requests(JoinGroup)]


def test_a_member_asks_for_all_topics_and_joins_with_those_whose_whole_names_match() -> None:
    """ConsumerMetadata.newMetadataRequestBuilder: allTopics; SubscriptionState.matchesSubscribedPattern: matches()."""
    harness = matching()

    assert {each.topics for each in harness.requests(Metadata)} == {None}
    assert joined_with(harness) == [("orders-eu", "orders-us")]
    assert sorted(harness.consumer.positions.owned()) == [("orders-eu", 0), ("orders-eu", 1), ("orders-us", 0)]


def test_topics_of_the_brokers_themselves_are_left_out_unless_they_are_asked_for() -> None:
    """exclude.internal.topics, true by default (ConsumerMetadata.retainTopic)."""
    assert joined_with(matching(".*")) == [("my-orders-eu", "orders-eu", "orders-us", "other")]
    assert "__consumer_offsets" in joined_with(matching(".*", exclude_internal_topics=False))[0]


def test_a_member_whose_pattern_matches_nothing_is_in_the_group_and_waits() -> None:
    """SubscriptionType.AUTO_PATTERN is an assignment by the group, whatever is in it (hasAutoAssignedPartitions)."""
    harness = matching("nothing-.*")

    assert joined_with(harness) == [()]
    assert harness.consumer.positions.owned() == ()


def test_a_leader_that_hears_of_a_new_topic_rebalances() -> None:
    """updatePatternSubscription at the refresh after metadata.max.age.ms; the snapshot is compared first."""
    harness = matching(metadata_max_age_ms=60_000)
    harness.forget()
    harness.cluster.topics["orders-asia"] = 1
    harness.run(50 * SECOND)
    assert harness.requests(JoinGroup) == []
    harness.run(15 * SECOND)

    assert joined_with(harness) == [("orders-asia", "orders-eu", "orders-us")]
    assert reasons(harness) == [METADATA_CHANGED]
    assert ("orders-asia", 0) in harness.consumer.positions.owned()


def test_any_member_that_hears_of_a_new_topic_rebalances_the_group() -> None:
    """rejoinNeededOrPending: joinedSubscription is another; nobody has to be the leader for that."""
    harness = Harness(dict(TOPICS), subscribe=(), pattern="orders-.*", metadata_max_age_ms=60_000)
    harness.cluster.leader, harness.cluster.given = "other", (("orders-eu", 0),)
    harness.stable().forget()
    harness.cluster.topics["orders-asia"] = 1
    harness.run(65 * SECOND)

    assert joined_with(harness) == [("orders-asia", "orders-eu", "orders-us")]
    assert reasons(harness) == [SUBSCRIPTION_CHANGED]


def test_a_topic_that_does_not_match_disturbs_nobody() -> None:
    """Topics that are not retained are in no snapshot."""
    harness = matching(metadata_max_age_ms=60_000)
    harness.forget()
    harness.cluster.topics.update({"another": 4, "my-orders-asia": 1})
    harness.run(65 * SECOND)

    assert harness.requests(Metadata)
    assert harness.requests(JoinGroup) == []


def test_a_topic_that_is_deleted_is_not_subscribed_to_any_more() -> None:
    """The set of matching topics is made anew from each answer."""
    harness = matching(metadata_max_age_ms=60_000)
    harness.forget()
    del harness.cluster.topics["orders-us"]
    harness.run(65 * SECOND)

    assert joined_with(harness) == [("orders-eu",)]


def test_metadata_is_asked_for_again_before_a_member_joins() -> None:
    """ConsumerCoordinator.poll: one refresh before a join saves the rebalance after it (KAFKA-3149)."""
    harness = matching()
    harness.run(SECOND).forget()
    harness.cluster.topics["orders-asia"] = 1
    harness.rejoin_now()
    harness.run(SECOND)

    assert joined_with(harness)[0] == ("orders-asia", "orders-eu", "orders-us")
    assert harness.requests(Metadata)[0].topics is None


def test_what_a_leader_knew_first_is_taken_and_counts_as_subscribed() -> None:
    """maybeUpdateJoinedSubscription: a matching topic in the assignment is obeyed, and no reason to join again."""
    harness = Harness(dict(TOPICS), subscribe=(), pattern="orders-.*")
    harness.cluster.leader, harness.cluster.given = "other", (("orders-asia", 0),)
    harness.stable()

    assert harness.consumer.subscription.topics == ("orders-asia", "orders-eu", "orders-us")
    assert harness.consumer.positions.owned() == (("orders-asia", 0),)
    assert len(joined_with(harness)) == 1


def test_what_does_not_match_is_not_taken() -> None:
    """checkAssignmentMatchedSubscription: the pattern decides, and the member joins again."""
    harness = Harness(dict(TOPICS), subscribe=(), pattern="orders-.*")
    harness.cluster.leader, harness.cluster.given = "other", (("other", 0),)
    harness.run(20 * SECOND)

    assert harness.consumer.positions.owned() == ()
    assert NOT_SUBSCRIBED in reasons(harness)


def test_an_application_goes_from_topics_to_a_pattern_and_back_and_leaves() -> None:
    """subscribe() replaces what was subscribed to before, whichever of the two it is."""
    harness = Harness(dict(TOPICS), subscribe=("other",)).stable()
    harness.tell(Subscribe(topics=(), pattern="orders-e."))
    harness.run(5 * SECOND)
    harness.tell(Subscribe(topics=("other",)))
    harness.run(5 * SECOND)
    assert joined_with(harness) == [("other",), ("orders-eu",), ("other",)]

    harness.tell(Subscribe(topics=(), pattern="nothing"))
    harness.run(5 * SECOND)
    harness.tell(Unsubscribe())
    harness.run(SECOND)
    assert len(harness.requests(LeaveGroup)) == 1
    harness.forget()
    harness.cluster.topics["nothing"] = 1
    harness.run(400 * SECOND)
    assert harness.requests(JoinGroup) == []


def test_a_pattern_and_partitions_by_hand_exclude_each_other() -> None:
    """SubscriptionState.setSubscriptionType."""
    harness = matching("nothing-.*")
    with pytest.raises(IllegalState):
        harness.consumer.thread.assign((("other", 0),))
    by_hand = Harness(dict(TOPICS), subscribe=())
    by_hand.consumer.thread.assign((("other", 0),))
    with pytest.raises(IllegalState):
        by_hand.consumer.thread.subscribe_to_pattern("other")


def test_what_is_no_expression_says_where_it_goes_wrong() -> None:
    """A user's mistake gets a clear error."""
    with pytest.raises(ValueError, match=r"'orders\(' is not a regular expression: missing \), .*position 6"):
        TopicPattern("orders(")
    with pytest.raises(ValueError, match="is not a regular expression: maximum recursion depth exceeded"):
        TopicPattern("(" * 3000 + ")" * 3000)
