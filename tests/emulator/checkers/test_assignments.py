"""What assignors promise of their assignments: told by hand, and of what Kafka's assignors do of many drawn groups."""

from random import Random

import pytest
from attrs import evolve

from kemu.emulator.checkers.assignments import COOPERATIVE, PROMISING, RACKS_COUNT, broken_promises
from kemu.protocol.assign.base import Memory, Subscriber, Topics
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import BrokerMetadata, MetadataReply, PartitionMetadata, TopicMetadata
from kemu.protocol.messages.member import Assignment, Subscription, encode_assignment, encode_subscription
from kemu.protocol.profiles import PROFILES

RACKS = ("north", "south", "east")


def _metadata(replicas):
    """Topic -> per partition the brokers that have it; broker n stands in rack n."""
    brokers = tuple(BrokerMetadata(node_id=node, host=f"b{node}", rack=RACKS[node]) for node in range(3))
    topics = tuple(
        TopicMetadata(
            error=ErrorCode.NONE,
            topic=topic,
            partitions=tuple(
                PartitionMetadata(error=ErrorCode.NONE, partition=n, leader=at[0], replicas=at, isr=at)
                for n, at in enumerate(rows)
            ),
        )
        for topic, rows in replicas.items()
    )
    return MetadataReply(brokers=brokers, topics=topics)


def _kinds(assignor, wanted, given, replicas):
    """``wanted``: member -> its Subscription; ``given``: member -> "topic number" words, one a partition."""
    rows = {member: encode_subscription(each, version=3) for member, each in wanted.items()}
    sent = {
        member: encode_assignment(Assignment(tuple((word[0], int(word[1:])) for word in words.split())))
        for member, words in given.items()
    }
    topics = {topic: len(rows) for topic, rows in replicas.items()}
    return [kind for kind, _ in broken_promises(assignor, rows, sent, topics, _metadata(replicas), RACKS_COUNT)]


A, B = Subscription(("a", "b")), Subscription(("a",))
TWO = {"a": [(0,), (1,)], "b": [(0,), (1,)]}


@pytest.mark.parametrize(
    ("assignor", "given", "kinds"),
    [
        ("range", {"m1": "a0 b0", "m2": "a1 b1"}, []),
        ("range", {"m1": "a0 b1", "m2": "a1 b0"}, ["not-ranged"]),
        ("range", {"m1": "a0 b0", "m2": "a1"}, ["left-out"]),
        ("roundrobin", {"m1": "a0 b1", "m2": "a1 b0"}, []),
        ("roundrobin", {"m1": "a0", "m2": "a1"}, ["left-out", "left-out"]),
    ],
)
def test_all_is_given_and_range_cuts_topics_alike(assignor, given, kinds):
    assert _kinds(assignor, {"m1": A, "m2": A}, given, TWO) == kinds


def test_a_block_of_range_has_no_gap():
    given = {"m1": "a0 a2", "m2": "a1 a3"}

    assert _kinds("range", {"m1": B, "m2": B}, given, {"a": [(0,)] * 4}) == ["not-ranged", "not-ranged"]


@pytest.mark.parametrize(
    ("given", "kinds"),
    [({"m1": "b0 b1", "m2": "a0 a1"}, []), ({"m1": "a0 a1 b0 b1", "m2": ""}, ["unbalanced"])],
)
def test_a_sticky_assignor_levels_what_unlike_subscriptions_let_it(given, kinds):
    assert _kinds("sticky", {"m1": A, "m2": B}, given, TWO) == kinds


@pytest.mark.parametrize("assignor", ["range", "sticky"])
@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({"m1": "a0 a1", "m2": "a2 a3"}, []),
        ({"m1": "a2 a3", "m2": "a0 a1"}, ["off-rack"] * 8),
        ({"m1": "a0 a2", "m2": "a1 a3"}, ["off-rack", "off-rack"]),
    ],
)
def test_members_are_given_what_is_on_their_racks(assignor, given, kinds):
    wanted = {"m1": evolve(B, rack="north"), "m2": evolve(B, rack="south")}
    found = _kinds(assignor, wanted, given, {"a": [(0,), (0,), (1,), (1,)]})

    assert [kind for kind in found if kind != "not-ranged"] == kinds


def test_a_partition_on_nobodys_rack_may_go_to_anybody():
    wanted = {"m1": evolve(B, rack="north"), "m2": evolve(B, rack="south")}

    assert _kinds("range", wanted, {"m1": "a0 a1", "m2": "a2 a3"}, {"a": [(2,), (0,), (2,), (1,)]}) == []


@pytest.mark.parametrize("assignor", PROMISING)
@pytest.mark.parametrize("profile", ["kafka-2.4", "kafka-2.8", "kafka-3.0", "kafka-3.4", "kafka-3.7", "kafka-4.0"])
def test_the_assignors_of_each_release_keep_their_promises(profile, assignor):
    """Members come and go, topics grow; what one leader assigned is what the next one is told."""
    chance = Random(f"{profile} {assignor}")
    for _ in range(12):
        _members_come_and_go(chance, profile, assignor)


def _members_come_and_go(chance, profile, name):
    assignor, alike = PROFILES[profile].assignors[name], chance.random() < 0.5
    replicas = {
        topic: [_somewhere(chance) for _ in range(chance.randint(1, 6))] for topic in "abc"[: chance.randint(1, 3)]
    }
    racks = chance.random() < 0.5

    def comes(number):
        topics = tuple(replicas) if alike else tuple(chance.sample(list(replicas), chance.randint(1, len(replicas))))
        return Subscriber(topics, rack=RACKS[number % 3] if racks else None)

    members = {f"m{number}": comes(number) for number in range(chance.randint(1, 4))}
    owned = dict.fromkeys(members, ())
    for generation in range(4):
        topics = {topic: len(rows) for topic, rows in replicas.items()}
        on = {topic: tuple(tuple(RACKS[node] for node in row) for row in rows) for topic, rows in replicas.items()}
        told = {
            member: evolve(
                each,
                owned=owned[member] if name in COOPERATIVE else (),
                generation=generation if owned[member] and name in COOPERATIVE else -1,
                user_data=assignor.user_data(Memory(owned[member], generation) if owned[member] else None),
            )
            for member, each in members.items()
        }
        given = assignor.assign(Topics(topics, on if racks else None), told)
        rows = {
            member: encode_subscription(
                Subscription(each.topics, each.user_data, each.owned, each.generation, each.rack), version=3
            )
            for member, each in told.items()
        }
        sent = {member: encode_assignment(Assignment(tuple(own))) for member, own in given.items()}

        release = PROFILES[profile].release
        assert list(broken_promises(name, rows, sent, topics, _metadata(replicas), release)) == []
        owned = {member: tuple(own) for member, own in given.items()}
        if len(members) > 1 and chance.random() < 0.4:
            del members[chance.choice(list(members))]
        else:
            members[f"n{generation}"] = comes(chance.randint(0, 2))
            owned[f"n{generation}"] = ()
        if chance.random() < 0.3:
            replicas[next(iter(replicas))].append(_somewhere(chance))


def _somewhere(chance):
    return tuple(chance.sample(range(3), chance.randint(1, 2)))
