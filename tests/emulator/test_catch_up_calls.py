"""KIP-333's poll(), beginningOffsets() and endOffsets(): by the log, and literally as the page has them."""

from collections.abc import Mapping, Sequence

import pytest

import kemu
from kemu.actors.consumer.application import Calls, PollLoop
from kemu.actors.consumer.partition import Returned
from kemu.protocol.names import TopicPartition

AT = ("events", 0)


class Asking(PollLoop):
    """Counts the records of each poll; asks for both ends of the log after the first records of each process."""

    lives: list["Asking"]

    def __init__(self, config: kemu.ConsumerConfig) -> None:
        super().__init__(config)
        self.sizes: list[int] = []
        self.answers: list[int | None] = []
        self.calls: Calls
        self.lives.append(self)

    def started(self, calls: Calls) -> None:
        self.calls = calls
        super().started(calls)

    def polled(self, records: Sequence[Returned]) -> None:
        self.sizes.append(sum(each.last - each.first for each in records))
        if self.calls.child_consumer_is_alive() and not self.answers and sum(self.sizes) > 2_000:
            self.held = records
            self.calls.beginning_offsets((AT,), self._began)
        else:
            super().polled(records)

    def _began(self, answers: Mapping[TopicPartition, int | None]) -> None:
        self.answers.append(answers[AT])
        self.calls.end_offsets((AT,), self._ended)

    def _ended(self, answers: Mapping[TopicPartition, int | None]) -> None:
        self.answers.append(answers[AT])
        super().polled(self.held)


@pytest.mark.parametrize(("calls", "largest"), [("log", 10), ("page", 20)])
def test_the_pages_poll_returns_twice_as_many_and_its_ends_are_what_was_returned(calls: str, largest: int) -> None:
    """KIP-333: "twice as many records could be returned"; "the earliest/latest offsets that they have processed"."""
    Asking.lives = []
    config = {"enable.parallel.rebalance": True, "emulated.parallel.rebalance.calls": calls, "max.poll.records": 10}
    scenario = kemu.Scenario(
        name="two consumers",
        draws="calm",
        duration_us="60s",
        producers={"emulated.batch.interval.ms": 500},
        topics={"events": kemu.TopicSpec(partitions=1, records_per_s=100)},
        groups={
            "g": kemu.GroupSpec(
                topics="events",
                members=1,
                static=True,
                config={**config, "emulated.process.us.per.record": 3_000, "auto.commit.interval.ms": 1_000},
            )
        },
        plan=(kemu.At("20s", kemu.Crash(host="c1", for_us=kemu.duration_us("6s"))),),
    )
    outcome = kemu.run(scenario, seed=1, profile="kip-333", applications={"c1": Asking})

    assert outcome.verdict == "holds", outcome.violations
    _, second = Asking.lives
    beginning, end = second.answers
    assert beginning is not None and end is not None
    assert max(second.sizes) == largest
    if calls == "log":
        assert beginning == 0 and end % 50 == 0, "the end of a whole batch"
    else:
        assert 0 < beginning < 2_000 < end, "the range began at the commit before the crash"
