"""ISR changes that the controller decides: one request in flight, the meaning of each answer, both results counted.

Mirrors Kafka's AlterPartitionManagerTest and PartitionTest (3.4); KIP-497.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kemu.actors.machine import LinkDown
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import AlterIsr
from kemu.protocol.notes.replication import IsrChanged, IsrChangeFailed, IsrChangePending
from kemu.protocol.replication import IsrPath
from tests.actors.broker.replica_world import CONTROLLER_ID, Bench
from tests.examples import examples

S = 1_000_000
STEP_US = 100_000


def shrinking() -> Bench:
    """b2 has failed, and b0 has just asked the controller for the ISR without it."""
    bench = Bench(isr_path=IsrPath.CONTROLLER)
    bench.elect(0, (0, 1, 2))
    bench.settle(S)
    bench.crash("b2")
    bench.produce("b0")
    while not bench.asked:
        bench.settle(STEP_US)
    return bench


def outcomes(bench: Bench) -> list[ErrorCode]:
    return [row.error for _, reply in bench.replies if hasattr(reply, "batches") for row in reply.batches]


def noted(bench: Bench, kind: type) -> list[tuple[int, ...]]:
    return [fact.isr for _, fact in bench.notes if isinstance(fact, kind)]


def test_a_leader_asks_with_its_epochs_and_the_version_it_knows():
    """AlterIsrRequest.json: the broker's id and epoch, and the version of the state."""
    bench = shrinking()

    request = bench.alter()

    (row,) = request.partitions
    assert (request.broker_id, request.broker_epoch) == (0, 11)
    assert (row.leader_epoch, row.new_isr, row.current_isr_version) == (0, (0, 1), 1)
    assert noted(bench, IsrChanged) == [(0, 1)]
    assert bench.replica("b0").in_sync.zk_version == 2


def test_until_the_controller_answers_nothing_counts_without_the_one_that_goes():
    """PartitionTest.testIsrExpansion and shrink: PendingShrinkIsr's maximal ISR is the one before it."""
    bench = shrinking()
    bench.settle(8 * S)

    assert bench.replica("b0").in_sync.proposed == (0, 1)
    assert outcomes(bench) == [], "b2 may still be in the ISR"
    assert len(bench.asked) == 1, "one at a time"
    bench.alter()
    assert outcomes(bench) == [ErrorCode.NONE]


@pytest.mark.parametrize("error", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_a_change_that_is_given_up_leaves_the_isr_and_may_be_asked_for_again(error: ErrorCode):
    """Partition.handleAlterPartitionError: back to the last committed ISR."""
    bench = shrinking()

    bench.alter(row_error=error)

    assert noted(bench, IsrChangeFailed) == [(0, 1)]
    assert bench.replica("b0").in_sync.proposed is None
    bench.settle(6 * S)
    assert len(bench.asked) == 1


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_where_the_controller_knows_better_the_leader_waits_for_its_word(error: ErrorCode):
    """Partition.handleAlterPartitionError: the change stays pending, and both results still count."""
    bench = shrinking()

    bench.alter(row_error=error)
    bench.settle(12 * S)

    assert noted(bench, IsrChangePending) == [(0, 1)]
    assert not bench.asked
    assert bench.replica("b0").in_sync.maximal == (0, 1, 2)
    bench.elect(0, (0, 1))
    assert bench.replica("b0").in_sync.proposed is None
    assert bench.replica("b0").in_sync.members == (0, 1)


def test_another_error_is_tried_again_at_once():
    """Partition.handleAlterPartitionError: any other error."""
    bench = shrinking()

    bench.alter(row_error=ErrorCode.UNKNOWN_SERVER_ERROR)

    assert len(bench.asked) == 1
    bench.alter()
    assert noted(bench, IsrChanged) == [(0, 1)]


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER])
def test_a_request_refused_as_a_whole_is_sent_again_a_moment_later(error: ErrorCode):
    """AlterPartitionManagerTest.testTopLevelError (50 ms); BrokerToControllerChannelManager (a new check at 100 ms)."""
    bench = shrinking()

    bench.alter(error)

    assert not bench.asked
    bench.settle(2 * STEP_US)
    assert len(bench.asked) == 1


def test_a_leader_that_is_cut_off_from_the_controller_cannot_shrink_its_isr():
    """KIP-497: leaders could do this alone while they wrote to ZooKeeper."""
    bench = shrinking()
    for _ in range(10):
        bench.asked.clear()
        bench.step("b0", LinkDown(f"b{CONTROLLER_ID}/controller"))
        bench.settle(3 * S)

    assert bench.replica("b0").in_sync.members == (0, 1, 2)
    assert outcomes(bench) == []
    bench.alter()
    assert outcomes(bench) == [ErrorCode.NONE]


def test_an_answer_to_a_former_epoch_changes_nothing():
    """PartitionTest.testAlterIsrNewLeaderElected: the state was replaced while the answer was on its way."""
    bench = shrinking()
    name, event = bench.asked[0]
    bench.elect(0, (0, 1, 2))
    before = bench.version

    request = bench.alter()

    assert isinstance(request, AlterIsr) and event.message == request and name == "b0"
    assert noted(bench, IsrChanged) == []
    assert bench.replica("b0").in_sync.zk_version == before


ACTIONS = st.lists(
    st.sampled_from(
        [
            ("answer", ErrorCode.NONE),
            ("lose the answer", ErrorCode.NONE),
            ("refuse", ErrorCode.NOT_CONTROLLER),
            ("refuse", ErrorCode.STALE_BROKER_EPOCH),
            ("refuse a row", ErrorCode.FENCED_LEADER_EPOCH),
            ("refuse a row", ErrorCode.INVALID_UPDATE_VERSION),
            ("refuse a row", ErrorCode.INELIGIBLE_REPLICA),
            ("refuse a row", ErrorCode.UNKNOWN_SERVER_ERROR),
            ("elect", ErrorCode.NONE),
            ("return", ErrorCode.NONE),
            ("crash", ErrorCode.NONE),
            ("wait", ErrorCode.NONE),
        ]
    ),
    max_size=14,
)


TIMES_OUT_S = 30
"""``controller.socket.timeout.ms``: a request without an answer for so long is abandoned."""


@settings(max_examples=examples(40), deadline=None)
@given(ACTIONS)
def test_whatever_is_answered_the_leader_counts_everybody_who_may_be_in_the_isr(actions: list[tuple[str, ErrorCode]]):
    """One request in flight: answers, lost answers, refusals, elections and followers in any order."""
    bench = shrinking()
    waited_s = 0
    for what, error in actions:
        if what == "elect":
            bench.elect(0, bench.isr)
        elif what == "return" and "b2" not in bench.brokers:
            bench.start("b2")
            bench.tell_state("b2")
        elif what == "crash" and "b2" in bench.brokers:
            bench.crash("b2")
        elif what == "wait":
            bench.settle(6 * S)
            waited_s += 6
            if waited_s >= TIMES_OUT_S and len(bench.asked) > 1:
                bench.asked.popleft()  # its connection is closed, and it is asked for once more
        elif bench.asked and what == "lose the answer":
            name, event = bench.asked[0]
            if event.message.partitions[0].current_isr_version == bench.version:
                bench.version += 1
                bench.isr = event.message.partitions[0].new_isr
            bench.asked.popleft()
            bench.step(name, LinkDown(f"b{CONTROLLER_ID}/controller"))
        elif bench.asked and what == "refuse":
            bench.alter(error)
        elif bench.asked and what == "refuse a row":
            # The controller answers an already executed change before it checks the ISR's members
            # (tryProcessAlterPartition).
            done = bench.asked[0][1].message.partitions[0].new_isr == bench.isr
            bench.alter(row_error=ErrorCode.NONE if done and error is ErrorCode.INELIGIBLE_REPLICA else error)
        elif bench.asked and what == "answer":
            row = bench.asked[0][1].message.partitions[0]
            known = row.leader_epoch == bench.epoch and row.current_isr_version == bench.version
            bench.alter(
                row_error=ErrorCode.NONE if known or row.new_isr == bench.isr else ErrorCode.FENCED_LEADER_EPOCH
            )
        bench.settle(STEP_US)

        in_sync = bench.replica("b0").in_sync
        assert set(bench.isr) <= set(in_sync.maximal)
        assert len(bench.asked) <= 1
