"""Clean ends: how long they took, and what they left undone (``emulator.metrics.closing``)."""

import pytest

from kemu.emulator.metrics.figures import ClosingFigures, plain
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import scenario_from_toml, with_actions
from kemu.tools.report.run_report import costs_of
from kemu.tools.report.story import span_text

GROUP = """
duration = "60s"
draws.set = "life"
draws.close.notice = "700ms"
topics.orders = { partitions = 4, rate = "40/s" }
groups.g = { topics = ["orders"], members = 2, config = { auto.commit.interval.ms = 60000 } }
"""
BROKERS = """
duration = "40s"
brokers.count = 3
brokers.replication = { factor = %d, session = "6s" }
topics.orders = { partitions = 6 }
"""


def closed(text: str, *actions: str) -> tuple[RunResult, ClosingFigures]:
    """The one host that is closed."""
    result = run(with_actions(scenario_from_toml(text), actions), seed=1, loop="bare")
    (one,) = result.figures.closings
    return result, one


def test_a_member_that_closes_in_order_leaves_nothing_undone() -> None:
    """KafkaConsumer.close commits before it leaves; the order was noticed after 700 ms."""
    result, one = closed(GROUP, "close-host host=c1 at=20s")

    assert (one.host, one.still_led, one.uncommitted) == ("c1", 0, 0)
    assert one.took_us >= 700_000
    assert one.ended_us == 20_000_000 + one.took_us
    assert plain(result.figures)["closings"][0]["took_us"] == one.took_us
    assert f"  closed: c1 in {span_text(one.took_us)}" in list(costs_of(result.figures))


def test_a_member_that_closes_out_of_reach_gives_up_what_it_could_not_commit() -> None:
    """close() waits 30 s for its commit; what c1 processed since the start is processed again by the other."""
    result, one = closed(GROUP, "close-host host=c1 at=20s", "isolate host=c1 at=19500ms for=35s")

    assert one.took_us > 30_000_000
    assert 300 < one.uncommitted <= result.figures.reprocessed
    said = f"    c1 gave up partitions with {one.uncommitted:,} records processed and not committed"
    assert said in list(costs_of(result.figures))


@pytest.mark.parametrize(
    ("failures", "backoffs", "still_leads"),
    [
        (("duplicate api=ControlledShutdown sender=b1",), 1, False),
        (("error-reply api=ControlledShutdown sender=b1 error=NOT_CONTROLLER",), 1, False),
        (
            tuple(f"error-reply api=ControlledShutdown sender=b1 nth={n} error=NOT_CONTROLLER" for n in (1, 2, 3)),
            2,
            True,
        ),
    ],
    ids=["lost", "refused", "refused each time"],
)
def test_a_broker_whose_controlled_shutdown_fails_tries_again_and_ends_in_the_end(
    failures: tuple[str, ...], backoffs: int, still_leads: bool
) -> None:
    """KafkaServer.controlledShutdown: controlled.shutdown.max.retries tries, retry.backoff.ms between them; without an
    answer that says it is done the broker "proceeds to do an unclean shutdown".
    """
    result, one = closed(BROKERS % 3, *(f"{each} at=15s" for each in failures), "close-host host=b1 at=20s")

    assert [fault.fired for fault in result.faults[:-1]] == [1] * len(failures)
    assert backoffs * 5_000_000 <= one.took_us < backoffs * 5_000_000 + 4_000_000
    assert (one.still_led > 0) is still_leads


def test_a_broker_that_closes_hands_on_what_others_can_lead_and_no_more() -> None:
    """Controlled shutdown moves partitions that have another replica (KafkaController.doControlledShutdown)."""
    _, handed_on = closed(BROKERS % 3, "close-host host=b1 at=20s")
    result, alone = closed(BROKERS % 1, "close-host host=b1 at=20s")

    assert handed_on.still_led == 0
    assert alone.still_led > 0
    assert f"    b1 ended as leader of {alone.still_led} partitions" in list(costs_of(result.figures))
