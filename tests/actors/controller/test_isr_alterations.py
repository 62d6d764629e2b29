"""AlterIsr at the controller: each of Kafka's answers, its writes and its metadata requests.

Mirrors Kafka's ControllerIntegrationTest (testAlterPartition*, 3.4).
"""

from typing import Any

import pytest
from attrs import evolve

from kemu.actors.controller.dispatch import Task
from kemu.actors.controller.elections import Strategy
from kemu.actors.controller.phases import PartitionPhase
from kemu.actors.controller.rules import RULES
from kemu.actors.machine import Caller
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import AlterIsr, AlterIsrReply, NewIsr, UpdateMetadata
from kemu.protocol.nodes import PartitionState
from kemu.protocol.notes.replication import IsrWriteRefused
from tests.actors.controller.controller_bench import EPOCH, ControllerBench

AT = ("t", 0)
LEADER_EPOCH = 5


def bench(**rules: Any) -> ControllerBench:
    """Brokers 0 to 2; broker 1 leads t-0 of (1, 2, 0), with 0 removed from the ISR; the state is 3 versions old."""
    made = ControllerBench(0, 1, 2, rules=evolve(RULES, **rules))
    made.topic("t", (1, 2, 0))
    made.led(AT, 1, (1, 2), leader_epoch=LEADER_EPOCH)
    return made


def asked(
    made: ControllerBench, *rows: tuple[tuple[str, int], dict[str, Any]], broker_epoch: int = 101, version: int = 2
) -> AlterIsrReply:
    known = made.context.leadership[AT].zk_version
    partitions = []
    for (topic, number), changes in rows:
        given = {"leader_epoch": LEADER_EPOCH, "new_isr": (1, 2, 0), "current_isr_version": known, **changes}
        partitions.append(NewIsr(topic_name=topic, partition_index=number, **given))
    request = AlterIsr(broker_id=1, broker_epoch=broker_epoch, partitions=tuple(partitions))
    part = made.controller.isr_alterations
    made.controller._task = Task(made.controller._registration, (request,), Caller("b1", 1, 1, version))
    return made.do(part.alter(request))


def test_an_isr_is_written_under_the_same_leader_epoch_and_everybody_is_told():
    """processAlterPartition: leader and leader epoch stay, the controller epoch is the new one, UpdateMetadata to
    all.
    """
    made = bench()
    before = made.context.leadership[AT].zk_version

    reply = asked(made, (AT, {}))

    (row,) = reply.partitions
    assert (row.error_code, row.leader_id, row.leader_epoch) == (ErrorCode.NONE, 1, LEADER_EPOCH)
    assert (row.isr, row.current_isr_version) == ((1, 2, 0), before + 1)
    assert made.state(AT) == PartitionState(1, LEADER_EPOCH, (1, 2, 0), EPOCH)
    assert {broker: rows[AT].isr for broker, rows in made.metadata().items()} == dict.fromkeys((0, 1, 2), (1, 2, 0))
    assert all(isinstance(request, UpdateMetadata) for _, request in made.sent)


@pytest.mark.parametrize(("broker_epoch", "error"), [(100, ErrorCode.STALE_BROKER_EPOCH), (101, ErrorCode.NONE)])
def test_a_request_of_another_life_is_refused_as_a_whole(broker_epoch: int, error: ErrorCode):
    """testAlterPartitionErrorsStaleBrokerEpoch."""
    made = bench()

    assert asked(made, (AT, {}), broker_epoch=broker_epoch).error_code is error
    assert made.state(AT).isr == ((1, 2, 0) if error is ErrorCode.NONE else (1, 2))


@pytest.mark.parametrize(
    ("at", "changes", "error"),
    [
        (("nope", 0), {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (AT, {"leader_epoch": LEADER_EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        (AT, {"current_isr_version": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (AT, {"new_isr": (1, 2, 7)}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_what_is_wrong_with_one_partition_is_in_its_row(at: tuple[str, int], changes: dict[str, Any], error: ErrorCode):
    """testAlterPartitionErrors: nothing is written, all brokers get the controller's state of the partition."""
    made = bench()

    reply = asked(made, (at, changes))

    assert reply.error_code is ErrorCode.NONE
    assert [row.error_code for row in reply.partitions] == [error]
    assert made.state(AT).isr == (1, 2)
    told = [row.isr for _, request in made.sent for row in request.partition_states]
    assert len(made.sent) == 3 and told == ([(1, 2)] * 3 if at == AT else [])


@pytest.mark.parametrize("changes", [{"leader_epoch": LEADER_EPOCH + 1}, {"current_isr_version": 99}])
def test_a_leader_that_knows_more_has_heard_of_a_newer_controller(changes: dict[str, int]):
    """KAFKA-13957's answer since 3.3: NOT_CONTROLLER, so that the leader looks for the other controller."""
    made = bench()

    assert asked(made, (AT, changes)).error_code is ErrorCode.NOT_CONTROLLER


def test_what_is_so_already_is_answered_and_not_written_again():
    """testIdempotentAlterPartition: the first answer was lost."""
    made = bench()
    asked(made, (AT, {}))
    version = made.context.leadership[AT].zk_version
    made.sent.clear()

    (row,) = asked(made, (AT, {"current_isr_version": version - 1})).partitions

    assert (row.error_code, row.current_isr_version) == (ErrorCode.NONE, version)
    assert made.context.leadership[AT].zk_version == version
    assert {rows[AT].isr for rows in made.metadata().values()} == {(1, 2, 0)}


@pytest.mark.parametrize(
    ("version", "error"), [(1, ErrorCode.OPERATION_NOT_ATTEMPTED), (2, ErrorCode.INELIGIBLE_REPLICA)]
)
def test_a_broker_in_controlled_shutdown_does_not_come_back(version: int, error: ErrorCode):
    """testAlterPartitionRequestWithIneligibleReplica*, KAFKA-14140; version 2 introduced the error."""
    made = bench()
    made.context.shutting_down[0] = None

    (row,) = asked(made, (AT, {}), version=version).partitions
    assert row.error_code is error


def test_before_kafka_14140_it_did():
    """The past bug: the controller does not check the brokers of an ISR."""
    made = bench(isrs_of_serving_only=False)
    made.context.shutting_down[0] = None

    (row,) = asked(made, (AT, {})).partitions
    assert (row.error_code, row.isr) == (ErrorCode.NONE, (1, 2, 0))


def test_a_state_that_somebody_wrote_meanwhile_is_not_overwritten():
    """testAlterPartitionInvalidVersion at the store: the controller's state is outdated."""
    made = bench()
    made.write_state(AT, PartitionState(1, LEADER_EPOCH, (1,), EPOCH))

    (row,) = asked(made, (AT, {})).partitions
    assert row.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert made.state(AT).isr == (1,)


def test_a_write_whose_answer_was_lost_stays_unknown_until_an_election():
    """Kafka 2.7 to 3.9: retryRequestsUntilConnected conflicts with its own version; only written states are read
    again.
    """
    made = bench()
    before = made.context.leadership[AT]
    made.write_state(AT, PartitionState(1, LEADER_EPOCH, (1, 2, 0), EPOCH))

    for _ in range(2):
        (row,) = asked(made, (AT, {"current_isr_version": before.zk_version})).partitions
        assert row.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert made.context.leadership[AT] == before
    assert {rows[AT].isr for rows in made.metadata().values()} == {(1, 2)}, "told as the controller knows it"
    assert {(fact.isr, fact.known_isr, fact.zk_version) for fact in made.notes(IsrWriteRefused)} == {
        ((1, 2, 0), (1, 2), before.zk_version)
    }

    made.do(made.controller.partitions.move([AT], PartitionPhase.ONLINE, Strategy.PREFERRED))
    assert made.context.leadership[AT].state == PartitionState(1, LEADER_EPOCH + 1, (1, 2, 0), EPOCH)
