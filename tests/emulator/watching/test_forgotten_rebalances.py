"""What a generation withheld and nobody gives out any more: whose member came back, and until when."""

from types import SimpleNamespace
from typing import Any

import pytest

from kemu.actors.machine import Received, Send
from kemu.emulator.facts import Seen, received, sent
from kemu.emulator.watching.forgotten_rebalances import ForgottenRebalances
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import BrokerMetadata, MetadataReply, PartitionMetadata, TopicMetadata
from kemu.protocol.messages.group import JoinGroup, JoinProtocol
from kemu.protocol.messages.member import Subscription, encode_subscription
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import AssignmentReceived

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
U0 = ("u", 0)


class Watched:
    """Members of g, and what each owns in its present life."""

    def __init__(self) -> None:
        self.holdings: dict[str, Any] = {}
        self.rebalances = ForgottenRebalances(self.holdings)

    def owns(self, actor: str, *partitions: TopicPartition, life: int = 1) -> None:
        self.holdings[actor] = SimpleNamespace(life=life, owned=dict.fromkeys(partitions))

    def takes(
        self, actor: str, member_id: str, *partitions: TopicPartition, generation: int = 2, life: int = 1
    ) -> None:
        fact = AssignmentReceived(group="g", member_id=member_id, generation=generation, partitions=partitions)
        self.rebalances.on[AssignmentReceived](Seen(0, 0, actor, life, fact), fact)

    def joins(self, actor: str, *topics: str) -> None:
        """Send a JoinGroup with these topics; its client knows that u has one partition."""
        row = PartitionMetadata(error=ErrorCode.NONE, partition=0, leader=0, replicas=(0,), isr=(0,))
        known = TopicMetadata(error=ErrorCode.NONE, topic="u", partitions=(row,))
        answer = Received(
            "b1", 1, 1, 0, MetadataReply(brokers=(BrokerMetadata(node_id=1, host="b1"),), topics=(known,))
        )
        self.rebalances.on[received(MetadataReply)](Seen(0, 0, actor, 1, answer), answer)
        protocol = JoinProtocol(name="range", metadata=encode_subscription(Subscription(topics)))
        request = JoinGroup(group="g", session_timeout_ms=1, protocol_type="consumer", protocols=(protocol,))
        join = Send("b0/coordinator", 0, 2, 5, request)
        self.rebalances.on[sent(JoinGroup)](Seen(0, 0, actor, 1, join), join)

    def forgotten(self, generation: int = 2) -> dict[TopicPartition, str]:
        return dict(self.rebalances.of("g", generation))


@pytest.fixture
def watched() -> Watched:
    """c1 owned all, and gives t-2 up for c2."""
    told = Watched()
    told.owns("c1", T0, T1, T2)
    told.takes("c1", "c1-1", T0, T1)
    told.takes("c2", "c2-1")
    return told


@pytest.mark.parametrize("life", [1, 2])
def test_who_comes_back_under_another_id_does_not_ask_for_what_it_gave_up(watched: Watched, life: int) -> None:
    """Started again, or without the member id that it had."""
    watched.owns("c1")
    watched.takes("c1", "c1-2", T0, T1, life=life)

    assert watched.forgotten() == {T2: "c1"}
    assert watched.forgotten(1) == {}, "of that generation alone"


def test_who_still_has_its_id_asks(watched: Watched) -> None:
    """It is answered the same once more (a SyncGroup that was sent twice); its request is on the way, until it dies."""
    watched.owns("c1", T0, T1)
    watched.takes("c1", "c1-1", T0, T1)
    assert watched.forgotten() == {}

    watched.takes("c1", "c1-2", T0, T1, life=2)
    assert watched.forgotten() == {T2: "c1"}


def test_another_member_that_comes_back_forgets_nothing(watched: Watched) -> None:
    watched.takes("c2", "c2-2")

    assert watched.forgotten() == {}


def test_the_next_generation_gives_all_out(watched: Watched) -> None:
    watched.takes("c1", "c1-2", T0, T1, life=2)
    watched.takes("c1", "c1-2", T0, T1, generation=3, life=2)

    assert (watched.forgotten(), watched.forgotten(3)) == ({}, {})


def test_what_is_in_somebodys_assignment_is_not_lost(watched: Watched) -> None:
    """A coordinator that has another assignment under the same number: what counts is what members took."""
    watched.takes("c1", "c1-2", T0, T1, life=2)
    watched.takes("c2", "c2-2", T2, life=2)

    assert watched.forgotten() == {}


def test_what_a_former_life_owned_was_not_given_up(watched: Watched) -> None:
    """c1 died with it; its next life owns nothing when it takes it."""
    watched.takes("c1", "c1-2", T0, generation=3, life=2)
    watched.takes("c1", "c1-3", T0, generation=3, life=3)

    assert watched.forgotten(3) == {}


@pytest.mark.parametrize(
    ("others", "again", "member_id", "nobodys"),
    [
        (("t",), ("t", "u"), "c1-2", {U0: "c1"}),
        (("t",), ("t", "u"), "c1-1", {}),  # with its id, the coordinator begins a rebalance
        (("t", "u"), ("t", "u"), "c1-2", {}),  # the leader assigned the topic
        (("t",), ("t",), "c1-2", {}),
    ],
)
def test_topics_to_which_a_replaced_static_member_subscribes_alone_are_nobodys(
    others: tuple[str, ...], again: tuple[str, ...], member_id: str, nobodys: dict[TopicPartition, str]
) -> None:
    """GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin 3.9 (kafka-3.9 operated, seed 227)."""
    watched = Watched()
    watched.joins("c1", "t")
    watched.joins("c2", *others)
    watched.takes("c1", "c1-1", T0)
    watched.takes("c2", "c2-1", T1)

    watched.joins("c1", *again)
    watched.takes("c1", member_id, T0)

    assert watched.forgotten() == nobodys
