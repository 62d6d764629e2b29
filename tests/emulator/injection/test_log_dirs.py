"""A log directory that fails while a whole cluster runs: who is hit, who takes over, and when all is well again."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from kemu.emulator import facts
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions import (
    Crash,
    DeleteTopic,
    FailedLogDir,
    PartitionsReassignment,
    Restart,
)
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.replay import replay
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.brokers import BrokerSpec, BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.notes.replication import (
    IsrChanged,
    LeaderElectedForPartition,
    LogDirFailed,
    ReassignmentFinished,
    TopicDeleted,
    TopicDeletionHalted,
)
from tests.emulator.engine.toys import Watcher

S = 1_000_000
ON_B0 = ("0 1 2", "0 1 2", "1 2 0", "2 0 1")


def scenario(*plan: Entry, log_dirs: int = 2, seconds: int = 50) -> Scenario:
    """Three brokers, one topic of four partitions: b0 leads the first two; __consumer_offsets has one."""
    return Scenario(
        name="log-dirs",
        duration_us=seconds * S,
        brokers=BrokersSpec(
            log_dirs=log_dirs,
            replication=ReplicationSpec(session_us=6 * S, lag_us=4 * S),
            config={"offsets.topic.num.partitions": 1},
        ),
        topics={"t": TopicSpec(partitions=4, records_per_s=20, assignment=ON_B0)},
        producers={"request.timeout.ms": 2_000},
        checks=ChecksSpec(stable_within_us=60 * S),
        plan=plan,
    )


class Watched:
    """A run with all checkers, which holds; its facts."""

    def __init__(self, *plan: Entry, log_dirs: int = 2, seconds: int = 50) -> None:
        self.watcher = Watcher()
        self.result: RunResult = run(
            scenario(*plan, log_dirs=log_dirs, seconds=seconds), seed=1, loop="bare", observers=(self.watcher,)
        )
        assert self.result.verdict == "holds", (self.result.broke, self.result.violations[:3])

    def seen(self, kind: type) -> list[tuple[float, Any]]:
        """(second, fact)."""
        return [(seen.at_us / S, seen.fact) for seen in self.watcher.facts if type(seen.fact) is kind]


def test_half_of_a_broker_goes_on_and_is_whole_when_it_was_started_again() -> None:
    """KIP-112: others lead what lay there, it leaves those ISRs alone; a restart with the directory repaired heals."""
    watched = Watched(At(10 * S, FailedLogDir(host="b0", for_us=20 * S)))

    ((failed_s, failed),) = watched.seen(LogDirFailed)
    assert failed_s == 10
    there = {at for at in failed.partitions if at[0] == "t"}
    assert 0 < len(there) < 4
    moved = {
        (fact.topic, fact.partition)
        for at_s, fact in watched.seen(LeaderElectedForPartition)
        if 10 < at_s < 11 and fact.leader != 0 and fact.topic == "t"
    }
    assert moved == there & {("t", 0), ("t", 1)}
    out = {
        (fact.topic, fact.partition)
        for at_s, fact in watched.seen(IsrChanged)
        if 10 < at_s < 29 and 0 not in fact.isr and fact.topic == "t"
    }
    assert out | moved == there
    downs = [at_s for at_s, fact in watched.seen(facts.HostDown) if fact.host == "b0" and at_s < 50]
    assert downs == [30], "the process is started again, no sooner"


def test_a_broker_without_a_log_directory_dies_and_cannot_start() -> None:
    """LogManager: Exit.halt when all log dirs have failed, also at the start."""
    watched = Watched(
        At(10 * S, FailedLogDir(host="b1", for_us=25 * S)), At(15 * S, Restart(host="b1")), log_dirs=1, seconds=60
    )

    downs = [at_s for at_s, fact in watched.seen(facts.HostDown) if fact.host == "b1" and at_s < 60]
    starts = [at_s for at_s, fact in watched.seen(facts.HostStarted) if fact.host == "b1"]
    assert downs[0] == 10
    assert starts[1] == downs[1], "it ends as it begins"
    assert starts[2] >= 35
    assert len(downs) == 2


def test_a_restart_does_not_repair_and_new_disks_do() -> None:
    """What the directory held is offline until its fault is over; empty disks are others."""
    crashed = Watched(At(10 * S, FailedLogDir(host="b0")), At(20 * S, Crash(host="b0", mode="process", for_us=S)))
    replaced = Watched(At(10 * S, FailedLogDir(host="b0")), At(20 * S, Restart(host="b0", keep_disk=False)))

    first, again = (fact for at_s, fact in crashed.seen(LogDirFailed) if at_s < 50)
    assert set(again.partitions) == set(first.partitions)
    assert len(replaced.seen(LogDirFailed)) == 1


def test_a_deletion_waits_for_a_replica_whose_directory_failed() -> None:
    """onReplicasBecomeOffline: no replica is deleted that is offline; the topic waits until its broker starts again."""
    watched = Watched(At(10 * S, FailedLogDir(host="b0", for_us=15 * S)), At(12 * S, DeleteTopic(topic="t")))

    assert watched.seen(TopicDeletionHalted)[0][1].why == "replicas on b0 cannot be deleted"
    ((deleted_s, _),) = watched.seen(TopicDeleted)
    assert deleted_s > 25


def test_a_reassignment_ends_when_its_targets_directory_is_repaired() -> None:
    """A replica that is offline is not in sync: the step waits for it."""
    watched = Watched(
        At(10 * S, FailedLogDir(host="b0", for_us=20 * S)),
        At(12 * S, PartitionsReassignment(topic="t", assignment=("0: 0 2", "1: 0 2", "2: 0 1", "3: 0 2"))),
        seconds=60,
    )

    ended = {fact.partition: at_s for at_s, fact in watched.seen(ReassignmentFinished)}
    failed = {number for topic, number in watched.seen(LogDirFailed)[0][1].partitions if topic == "t"}
    assert {number for number, at_s in ended.items() if at_s > 30} == failed
    assert set(ended) == {0, 1, 2, 3}


def test_a_directory_fails_once() -> None:
    """The second time has no effect, and says so."""
    watched = Watched(At(10 * S, FailedLogDir(host="b0", for_us=20 * S)), At(12 * S, FailedLogDir(host="b0")))

    assert watched.result.faults[0].fired == 1
    texts = [fact.text for _, fact in watched.seen(facts.FaultApplied)]
    assert texts[1] == "log directory 0 of b0 fails until healed: no effect, log directory 0 of b0 has failed already"


@pytest.mark.parametrize(
    "brokers", [{"log_dirs": 2}, {"overrides": {"b1": BrokerSpec(log_dirs=2)}}], ids=["all", "one"]
)
def test_several_directories_need_brokers_that_replicate(brokers: dict[str, Any]) -> None:
    """Without replication nothing would take over."""
    with pytest.raises(ScenarioError, match=r"log_dirs: needs brokers that replicate: add \[brokers.replication\]"):
        BrokersSpec(**brokers)


@pytest.mark.parametrize("action", [FailedLogDir(host="b1", log_dir=2), FailedLogDir(host="controller", log_dir=2)])
def test_a_directory_that_no_broker_has_is_refused(action: Action) -> None:
    """Before anything runs."""
    with pytest.raises(ScenarioError, match=r"log_dir: .* has 2, counted from 0: see log_dirs of \[brokers\]"):
        attrs.evolve(scenario(), plan=(At(S, action),))


def test_both_loops_agree_and_the_trace_replays(tmp_path: Path) -> None:
    """What a broker is told of its disks is in the trace."""
    plan = (At(10 * S, FailedLogDir(host="b0", for_us=8 * S)), At(12 * S, Crash(host="b0", for_us=S)))
    path = tmp_path / "dirs.kemu"
    results = [run(scenario(*plan, seconds=25), seed=2, loop=loop, trace=path) for loop in ("trio", "bare")]

    assert results[0].digest == results[1].digest
    assert replay(read_trace(path)).difference is None
