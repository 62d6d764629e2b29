"""A load that differs between partitions: shares of the rate, and records from before the run."""

from collections import Counter
from collections.abc import Mapping

import attrs
import pytest

from kemu.emulator.facts import RunEnded, Seen
from kemu.emulator.plan.actions import Crash
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.protocol.notes.groups import RecordsAcknowledged

BROKERS: Mapping[str, BrokersSpec] = {
    "arranged": BrokersSpec(count=3),
    "replicated": BrokersSpec(count=3, replication=ReplicationSpec(factor=3, min_isr=2)),
}
BACKLOG = (4_000, 0, 70)


class Acknowledged:
    """Counts acknowledged records by partition."""

    def __init__(self) -> None:
        self.records: Counter[int] = Counter()

    def wants(self, kind: type) -> bool:
        return kind in (RecordsAcknowledged, RunEnded)

    def see(self, seen: Seen) -> None:
        if isinstance(seen.fact, RecordsAcknowledged):
            self.records[seen.fact.partition] += seen.fact.count


def scenario(brokers: BrokersSpec, topic: TopicSpec) -> Scenario:
    return Scenario(
        name="load",
        duration_us="20s",
        draws="calm",
        brokers=brokers,
        topics={"t": topic},
        groups={"g": GroupSpec(topics=("t",), members=2)},
    )


@pytest.mark.parametrize("brokers", BROKERS)
def test_a_group_reads_the_backlog_of_each_partition_once(brokers: str) -> None:
    """The group has no commit, so it starts at the earliest record (auto.offset.reset, the default of kemu)."""
    topic = TopicSpec(partitions=3, records_per_s=0, initial_records_each=BACKLOG)

    result = run(scenario(BROKERS[brokers], topic), seed=1, loop="bare")

    assert result.verdict == "holds"
    assert (result.figures.records.acknowledged, result.figures.records.processed) == (0, sum(BACKLOG))


@pytest.mark.parametrize("brokers", BROKERS)
def test_the_records_of_a_run_follow_the_shares(brokers: str) -> None:
    """Partition 1 has no share, so it gets no record."""
    topic = TopicSpec(partitions=3, records_per_s=200, shares=(19, 0, 1))
    seen = Acknowledged()

    result = run(scenario(BROKERS[brokers], topic), seed=1, loop="bare", observers=(seen,))

    assert result.verdict == "holds"
    assert seen.records.keys() == {0, 2}
    assert seen.records[2] == pytest.approx(seen.records[0] / 19, abs=1)
    assert seen.records.total() == result.figures.records.acknowledged


def test_a_broker_may_crash_over_a_backlog() -> None:
    """The checkers of replicas and ISRs know the records of each partition from before the run."""
    topic = TopicSpec(partitions=3, records_per_s=10, shares=(8, 1, 1), initial_records_each=BACKLOG)
    crashed = scenario(BROKERS["replicated"], topic)
    plan = (At("8s", Crash(host="b0", for_us=4_000_000)),)

    result = run(attrs.evolve(crashed, plan=plan), seed=3, loop="bare")

    assert result.verdict == "holds"
    assert result.figures.records.processed >= sum(BACKLOG)
