"""ISR changes and their session in the store: lost answers, expiry, announcements.

Mirrors Kafka's PartitionTest (shrink and expand), ZooKeeperClientTest (session and read timeouts).
"""

import pytest

from kemu.protocol.messages.local import BrokerSession
from kemu.protocol.messages.store import OpenSession, StoreOpKind, StoreOps
from kemu.protocol.notes.replication import IsrChanged
from tests.actors.broker.replica_world import BROKER_EPOCH, Bench

S = 1_000_000
STEP_US = 100_000
RECONNECT_US = 500_000


def shrinking(session_timeout_ms: int = 18_000) -> Bench:
    """b2 has failed, and b0 has just sent the ISR without it to the store, which has not answered yet."""
    bench = Bench(session_timeout_ms=session_timeout_ms)
    bench.elect(0, (0, 1, 2))
    bench.settle(S)
    bench.auto_store = False
    bench.crash("b2")
    bench.produce("b0")
    while not bench.held:
        bench.settle(STEP_US)
    return bench


def changes(bench: Bench) -> list[tuple[int, ...]]:
    return [fact.isr for _, fact in bench.notes if isinstance(fact, IsrChanged)]


@pytest.mark.parametrize("session_timeout_ms", [6_000, 18_000])
def test_a_lost_answer_costs_two_thirds_of_the_session_timeout_since_the_store_was_last_heard(session_timeout_ms: int):
    """ZooKeeper's ClientCnxn: the read timeout is two thirds of the negotiated session timeout; a ping each third."""
    bench = shrinking(session_timeout_ms)
    bench.store_is_silent = True
    lost_us = bench.now_us
    bench.carry_out(*bench.held.pop(), answered=False)
    bench.settle(20 * S)

    again_us = min(at_us for name, at_us, event in bench.unanswered if name == "b0" and _opens(event))
    waited_us = again_us - lost_us - RECONNECT_US
    third_us = session_timeout_ms * 1_000 // 3
    assert third_us - 2 * STEP_US <= waited_us <= 2 * third_us


def test_a_change_whose_answer_was_lost_is_found_to_be_done():
    """KAFKA-1382: the repeated write is refused for its version; the node has the leader's own write."""
    bench = shrinking()
    bench.store_is_silent = True
    bench.carry_out(*bench.held.pop(), answered=False)
    bench.settle(13 * S)
    assert changes(bench) == []

    bench.store_is_silent, bench.auto_store = False, True
    bench.settle(14 * S)

    assert changes(bench) == [(0, 1)]
    assert bench.replica("b0").in_sync.zk_version == bench.version


def test_what_a_session_left_undecided_is_tried_again_under_the_next():
    """KafkaZkClient.retryRequestsUntilConnected: a write waits for the new session."""
    bench = shrinking()
    bench.ask("b0", BrokerSession(session_id=0, broker_epoch=BROKER_EPOCH + 1), 0, sender="b0/controller")
    bench.ask("b0", BrokerSession(session_id=77, broker_epoch=BROKER_EPOCH + 5), 0, sender="b0/controller")

    first, second = [event.message for _, event in bench.held]
    assert first.transactions == second.transactions
    assert (first.session_id, second.session_id) == (1, 77)
    bench.carry_out(*bench.held[1])
    assert changes(bench) == [(0, 1)]


def test_a_change_is_not_tried_again_by_one_who_leads_no_more():
    """Partition.updateIsr applies to the leader epoch of the decision."""
    bench = shrinking()
    bench.elect(1, (0, 1))
    bench.held.clear()
    bench.ask("b0", BrokerSession(session_id=77, broker_epoch=BROKER_EPOCH + 5), 0, sender="b0/controller")

    assert bench.held == []


def test_an_announcement_that_a_session_took_along_is_made_again():
    """ZkIsrManager.propagateIsrChanges."""
    bench = shrinking()
    bench.carry_out(*bench.held.pop())
    while not bench.held:
        bench.settle(STEP_US)
    assert _creates(bench) == 1
    bench.settle(10 * S)
    bench.ask("b0", BrokerSession(session_id=77, broker_epoch=BROKER_EPOCH + 5), 0, sender="b0/controller")
    bench.settle(20 * S)

    assert _creates(bench) == 2


def test_what_changes_while_an_announcement_is_on_its_way_is_announced_after_it():
    """ReplicaManager.maybePropagateIsrChanges 2.6 checks every 2.5 s, whatever it found the last time."""
    bench = shrinking()
    bench.carry_out(*bench.held.pop())
    while not bench.held:
        bench.settle(STEP_US)
    (announcement,) = bench.held
    bench.settle(5 * S)
    bench.crash("b1")
    bench.produce("b0")
    while len(bench.held) < 2:
        bench.settle(STEP_US)
    change = bench.held.pop()
    bench.held.clear()
    bench.carry_out(*change)
    bench.carry_out(*announcement)
    assert (changes(bench), _creates(bench)) == ([(0, 1), (0,)], 0)

    bench.settle(10 * S)
    assert _creates(bench) == 1


def _opens(event) -> bool:
    return isinstance(event.message, OpenSession)


def _creates(bench: Bench) -> int:
    messages = [event.message for _, event in bench.held if isinstance(event.message, StoreOps)]
    return sum(message.transactions[0].ops[0].kind is StoreOpKind.CREATE for message in messages)
