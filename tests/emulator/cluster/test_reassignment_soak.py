"""A few seeds of ``tests.soak_reassignment``: controllers and brokers die in the midst of steps."""

import pytest

from kemu.emulator.findings import EPOCH_OF_ANOTHER_TOPIC, LEFT_OVER_LOG, LOG_OF_ANOTHER_TOPIC
from kemu.emulator.runner import run
from tests.soak_reassignment import PRESETS, drawn, one_seed

FOUND = (
    ("reassign-target-dies", 55, True, "a group whose log was lost resets on a partition that lost everything"),
    ("reassign-limits-lowered", 27, True, "an order to delete waits for a broker whose old registration ends"),
    ("reassign-limits-lowered", 48, True, "an old LeaderAndIsr arrives after the partition was moved away"),
    ("move-to-new-brokers", 31, False, "a broker is registered, and the controller has not heard of it"),
    ("brokers-join-under-load", 57, False, "a partition that is blocked leaves its place to another"),
    ("brokers-join-under-load", 236, False, "a group stays with a coordinator that was never told to stop"),
    ("brokers-join-under-load", 285, False, "a controller's last write arrives after it has died"),
    ("delete-while-reassigning", 172, False, "a log that was left over keeps its broker out of a topic created again"),
    ("delete-while-reassigning", 140, False, "records are back that were lost, and their batches come again"),
    ("delete-while-reassigning", 186, False, "a log that was left over is in the ISR of a topic created again"),
    ("delete-while-reassigning", 436, False, "a log that was left over keeps its broker out, another one stands still"),
    ("delete-while-reassigning", 15, True, "a log that was left over is taken for that of a topic created again"),
)
"""Seeds that were once not as they should be, whether as the preset is, and what a checker did not know of Kafka.

They were found when a new controller was ready at once, and are run so (``AT_ONCE``).
"""

AT_ONCE = ("draws.controller.start=0us",)

FOUND_SINCE = (
    ("delete-while-reassigning", 59, False, "a broker leads the log of a deleted topic, and producers do not know it"),
    ("brokers-join-under-load", 285, False, "a broker is back before the new controller that takes it for dead"),
    ("brokers-join-under-load", 5, False, "who was taken for dead is deleted later, when the step is over"),
    ("reassign-target-dies", 68, False, "a new controller takes longer to get ready than it may be silent"),
    ("brokers-join-under-load", 89, False, "a leader has one answer, and waits for that of a controller that died"),
    ("brokers-join-under-load", 216, False, "a step that was queued begins as it was chosen, with the ISR of before"),
    ("reassign-controller-dies", 118, False, "a reassignment waits because too few replicas are in sync"),
)
"""The same of today's scenarios."""

NAMED = {
    ("brokers-join-under-load", 236): (LEFT_OVER_LOG,),
    ("brokers-join-under-load", 285): (LEFT_OVER_LOG,),
    ("delete-while-reassigning", 436): (LOG_OF_ANOTHER_TOPIC, LEFT_OVER_LOG),
}
"""What of them does not get well again, for Kafka's own reasons: the verdict names it."""


@pytest.mark.parametrize("name", PRESETS)
def test_partitions_arrive_or_wait_for_a_named_reason_whoever_dies_mid_step(name: str) -> None:
    """No orphan replica, no committed record lost (all checkers), nothing forgotten on its way."""
    verdict, wrong = one_seed(name, 1)
    assert wrong == "", f"{name}: {verdict}: {wrong}"


@pytest.mark.parametrize(("name", "seed", "as_it_is", "why"), FOUND, ids=[each[-1] for each in FOUND])
def test_what_a_sweep_has_found_stays_well(name: str, seed: int, as_it_is: bool, why: str) -> None:
    """Once a run that was not as it should be, always a test."""
    verdict, wrong = one_seed(name, seed, as_it_is=as_it_is, settings=AT_ONCE)
    stays = NAMED.get((name, seed), ())
    assert all(why in verdict for why in stays), f"{name}, seed {seed}: {verdict}"
    assert wrong == "", f"{name}, seed {seed}: {verdict}: {wrong}: was it once more that {why}?"


@pytest.mark.parametrize(("name", "seed", "as_it_is", "why"), FOUND_SINCE, ids=[each[-1] for each in FOUND_SINCE])
def test_what_a_sweep_has_found_since_controllers_take_their_time(
    name: str, seed: int, as_it_is: bool, why: str
) -> None:
    """A new controller works with what it read some seconds ago, and has said nothing until then."""
    verdict, wrong = one_seed(name, seed, as_it_is=as_it_is)
    assert wrong == "", f"{name}, seed {seed}: {verdict}: {wrong}: was it once more that {why}?"


def test_before_topic_ids_a_broker_heeds_no_older_epoch_of_a_topic_created_again() -> None:
    """The same run in Kafka 2.6: nothing tells the two topics apart but leader epochs, which begin anew."""
    scenario = drawn("delete-while-reassigning", 172, as_it_is=False, settings=AT_ONCE)
    result = run(scenario, seed=172, profile="kafka-2.6", loop="bare")

    assert result.verdict == "holds", result.reason
    assert EPOCH_OF_ANOTHER_TOPIC in [each.why for each in result.unmended]


@pytest.mark.parametrize(
    ("seed", "settings"),
    [(101, AT_ONCE), (111, ()), (59, AT_ONCE)],
    ids=["a leader asks for who was dropped", "a controller finds who was dropped", "a left-over log follows"],
)
def test_what_a_sweep_has_found_in_kafka_2_6(seed: int, settings: tuple[str, ...]) -> None:
    """Controllers died between a partition's list and its ISR; a log of a deleted topic is one of the new topic."""
    scenario = drawn("delete-while-reassigning", seed, as_it_is=False, settings=settings)
    result = run(scenario, seed=seed, profile="kafka-2.6", loop="bare")

    assert result.verdict == "holds", result.reason


@pytest.mark.soak
@pytest.mark.parametrize("name", PRESETS)
def test_the_same_for_three_hundred_seeds(name: str) -> None:
    """``python -m tests.soak_reassignment`` goes on from any seed."""
    assert [seed for seed in range(1, 301) if one_seed(name, seed)[1]] == []
