"""The sticky assignors as Kafka had them before 3.8, list by list as Kafka 3.4.1's own classes give them.

tests/data/sticky-3.4.1.json: chains of groups in which members come and go and topics grow. Each step's lists are what
kafka-clients 3.4.1's StickyAssignor and CooperativeStickyAssignor made of the lists of the step before.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kemu.protocol.assign.base import Memory, Subscriber, Topics
from kemu.protocol.assign.cooperative import COOPERATIVE_STICKY, COOPERATIVE_STICKY_3_7
from kemu.protocol.assign.sticky import STICKY, STICKY_3_0, STICKY_3_4, STICKY_3_7
from kemu.protocol.assign.user_data import decode_sticky, encode_sticky
from kemu.protocol.names import TopicPartition
from kemu.protocol.profiles import PROFILES

CHAINS = json.loads((Path(__file__).parents[2] / "data" / "sticky-3.4.1.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("chain", CHAINS, ids=[f"{row['assignor']}-{number}" for number, row in enumerate(CHAINS)])
def test_every_list_is_the_one_that_kafka_3_4_1_gives(chain: dict[str, Any]) -> None:
    """AbstractStickyAssignor.constrainedAssign (3.4.1): owned partitions are kept in the order they are named in."""
    for step in chain["steps"]:
        topics = step["partitions_per_topic"]
        assignor = PROFILES["kafka-3.4"].assignors[chain["assignor"]]
        members = {
            member: _subscriber(chain["assignor"], tuple(sorted(topics)), owned)
            for member, owned in step["members"].items()
        }

        decided = assignor.assign(Topics(topics), members)

        assert decided == {member: _pairs(partitions) for member, partitions in step["assignment"].items()}


def test_a_newcomer_gets_all_of_one_topic_before_3_8_and_some_of_each_since() -> None:
    """KAFKA-16277, as recorded with 3.4.1: what is named last goes, and members name topic after topic."""
    topics = Topics({"t": 4, "u": 4})
    first: tuple[TopicPartition, ...] = (("t", 0), ("t", 1), ("t", 2), ("t", 3))
    second: tuple[TopicPartition, ...] = (("u", 0), ("u", 1), ("u", 2), ("u", 3))
    both = {"a": Subscriber(("t", "u"), first + second, 1), "b": Subscriber(("t", "u"))}
    assert COOPERATIVE_STICKY_3_7.share(topics, both).assignment["b"] == list(second)
    assert COOPERATIVE_STICKY.share(topics, both).assignment["b"] == [("t", 2), ("t", 3), ("u", 2), ("u", 3)]


@pytest.mark.parametrize("release", ["kafka-2.4", "kafka-3.4", "kafka-3.9"])
def test_what_went_one_way_is_what_comes_back(release: str) -> None:
    """PartitionMovements.getTheActualPartitionToBeMoved: b gives t-1 to a, as a has fewer; when b has fewer, it is that
    one which comes back and no other of its topic. As kafka-clients 2.4.1, 3.4.1 and 3.9.1 were asked; 2.4's lists are
    in another order.
    """
    owned = {
        "a": ((("t", 0), ("t", 2), ("t", 3)), ("t",)),
        "b": ((("t", 1), ("u", 0), ("u", 1), ("u", 2), ("u", 3)), ("t", "u")),
    }
    assignor = PROFILES[release].assignors["sticky"]
    members = {
        name: Subscriber(topics, user_data=assignor.user_data(Memory(had, 1))) for name, (had, topics) in owned.items()
    }
    members |= {name: Subscriber(("u",), user_data=assignor.user_data(None)) for name in "cde"}

    decided = assignor.assign(Topics({"t": 4, "u": 4}), members)

    assert {name: sorted(given) for name, given in decided.items()} == {
        "a": [("t", 0), ("t", 2), ("t", 3)],
        "b": [("t", 1), ("u", 3)],
        "c": [("u", 0)],
        "d": [("u", 1)],
        "e": [("u", 2)],
    }


def test_sticky_keeps_what_its_user_data_names_first() -> None:
    """StickyAssignor (3.4.1) writes its last assignment as it was listed; as recorded: [0, 3, 6, 9, 1, 7]."""
    listed: tuple[TopicPartition, ...] = tuple(("t", number) for number in (3, 2, 1, 0))
    members = {"a": Subscriber(("t",), user_data=STICKY.user_data(Memory(listed, 1))), "b": Subscriber(("t",))}

    assert STICKY_3_7.assign(Topics({"t": 4}), members) == {"a": [("t", 3), ("t", 2)], "b": [("t", 0), ("t", 1)]}
    assert STICKY.assign(Topics({"t": 4}), members) == {"a": [("t", 0), ("t", 1)], "b": [("t", 2), ("t", 3)]}


def test_user_data_names_topics_as_a_hash_map_lists_them() -> None:
    """CollectionUtils.groupPartitionsByTopic makes a HashMap; numbers stay as listed."""
    data = decode_sticky(encode_sticky([("b", 1), ("a", 2), ("b", 0), ("a", 1)], 3))

    assert data.partitions == (("a", 2), ("a", 1), ("b", 1), ("b", 0))


def test_releases_before_3_8_have_the_assignors_of_before() -> None:
    """KAFKA-16277 came with 3.8 (and 3.7.1), racks with 3.5 (KIP-881), claims of any generation after 3.1."""
    assert PROFILES["kafka-3.0"].assignors["sticky"] is STICKY_3_0
    assert PROFILES["kafka-3.4"].assignors["sticky"] is STICKY_3_4
    assert PROFILES["kafka-3.7"].assignors["sticky"] is STICKY_3_7
    assert PROFILES["kafka-4.0"].assignors["sticky"] is STICKY


def _pairs(raw: list[list[Any]]) -> list[TopicPartition]:
    return [(topic, number) for topic, number in raw]


def _subscriber(assignor: str, topics: tuple[str, ...], told: dict[str, Any]) -> Subscriber:
    owned, generation = tuple(_pairs(told["owned"])), told["generation"]
    if assignor == "sticky":
        memory = Memory(owned, generation) if generation >= 0 else None
        return Subscriber(topics, user_data=STICKY_3_7.user_data(memory))
    return Subscriber(topics, tuple(sorted(owned)), generation)
