"""Faults of the metadata store as plans do them: each has exactly its effect, counts only when it hits, and heals."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from kemu.emulator import facts
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions import (
    Crash,
    ExpiredSession,
    FrozenSession,
    Heal,
    Hold,
    LateWatches,
    LostStoreAnswer,
    StoreElection,
)
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.replay import replay
from kemu.emulator.runner import Run, RunResult, run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.random_faults import random_faults
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.nodes import CONTROLLER, broker_path, partition_of_state
from kemu.protocol.notes.replication import (
    BecameController,
    BrokerFenced,
    BrokerRegistered,
    BrokersChanged,
    ControllerResigned,
    IsrChanged,
    NodeWritten,
    SessionEnded,
    StoreFaultHit,
    StoreTookOver,
)
from tests.emulator.engine.toys import Watcher

S = 1_000_000
SESSION = 6 * S
GROUP = GroupSpec(topics=("orders",), members=2)


def scenario(*plan: Entry, seconds: int = 45) -> Scenario:
    """Two partitions on each of three brokers, short sessions and lags, no group."""
    config = {"replica.fetch.backoff.ms": 200}
    return Scenario(
        name="store",
        duration_us=seconds * S,
        brokers=BrokersSpec(
            replication=ReplicationSpec(session_us=SESSION, lag_us=4 * S, isr_path="store", config=config),
            config={"offsets.topic.num.partitions": 1},
        ),
        topics={"orders": TopicSpec(partitions=2, records_per_s=40)},
        producers={"request.timeout.ms": 2_000},
        checks=ChecksSpec(stable_within_us=60 * S),
        plan=plan,
    )


class Watched:
    """A run with all checkers, which holds; every fact of it."""

    def __init__(self, *plan: Entry, seed: int = 1, seconds: int = 45) -> None:
        self.watcher = Watcher()
        self.result: RunResult = run(
            scenario(*plan, seconds=seconds), seed=seed, loop="bare", observers=(self.watcher,)
        )
        assert self.result.verdict == "holds", (self.result.broke, self.result.violations[:3])
        self.fired = [fault.fired for fault in self.result.faults]

    def seen(self, kind: type, actor: str = "") -> list[tuple[float, Any]]:
        """(second, fact) of those that this actor ("" = anyone) reported."""
        return [
            (seen.at_us / S, seen.fact)
            for seen in self.watcher.facts
            if type(seen.fact) is kind and actor in ("", seen.actor)
        ]

    def applied(self) -> list[str]:
        return [fact.text for _, fact in self.seen(facts.FaultApplied)]


def controller(seed: int = 1) -> str:
    """Who controls at the start."""
    run_ = Run(scenario(), seed=seed, loop="bare")
    run_.run_with(lambda world, end_us: run_plain(world, S))
    return run_.cluster.resolve("controller")


# --- lost answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False])
def test_a_leader_whose_answer_was_lost_finds_out_what_became_of_its_write(applied: bool) -> None:
    """KAFKA-1382: b2 leaves the ISR once, whether the write that says so was applied or not, and comes back."""
    watched = Watched(
        At(8 * S, Hold(sender="b2", api="Fetch", for_us=8 * S)),
        At(9 * S, LostStoreAnswer(host="b0", applied=applied)),
        seconds=40,
    )

    ((hit_s, hit),) = watched.seen(StoreFaultHit)
    assert (hit.fault, hit.client, hit.number) == ("LoseStoreAnswer", "b0", 1)
    writes = [
        at_s
        for at_s, fact in watched.seen(NodeWritten)
        if fact.client == "b0" and partition_of_state(fact.path) and at_s > 9
    ]
    at_once = [at_s for at_s in writes if at_s <= hit_s]
    assert bool(at_once) == applied, "applied: the store has it although nobody was told"
    assert writes, "and if it was not, it is written when the leader is back"
    shrinks = [fact for at_s, fact in watched.seen(IsrChanged, "b0") if fact.why == "shrink" and 2 not in fact.isr]
    assert shrinks
    assert watched.fired == [watched.fired[0], 1]


def test_an_election_whose_answer_was_lost_is_won_all_the_same() -> None:
    """The write succeeded: /controller names this broker, with the epoch that it wrote."""
    first = controller()
    others = [host for host in ("b0", "b1", "b2") if host != first]
    watched = Watched(
        At(10 * S, Crash(host=first, for_us=20 * S)),
        *(At(11 * S, LostStoreAnswer(host=host, part="controller")) for host in others),
    )

    epochs = [fact.controller_epoch for _, fact in watched.seen(BecameController)]
    assert epochs == list(range(1, len(epochs) + 1))
    assert sum(watched.fired[1:]) >= 1


def test_an_answer_that_is_never_asked_for_is_not_lost() -> None:
    """The thousandth write does not come; the fault is over when all is healed, and says that it never hit."""
    watched = Watched(At(10 * S, LostStoreAnswer(host="b0", nth=1_000)), At(20 * S, Heal()))

    assert watched.fired == [0, 1]
    assert [fact.kind for _, fact in watched.seen(facts.FaultEnded)] == ["lose-store-answer"]
    assert watched.seen(StoreFaultHit) == []


def test_a_loss_that_was_healed_hits_nothing_afterwards() -> None:
    """Heal takes it back before b0 has anything to write."""
    watched = Watched(
        At(6 * S, LostStoreAnswer(host="b0")),
        At(7 * S, Heal()),
        At(8 * S, Hold(sender="b2", api="Fetch", for_us=8 * S)),
        seconds=40,
    )

    assert watched.fired[0] == 0
    assert [fact for _, fact in watched.seen(IsrChanged, "b0") if fact.why == "shrink"]


# --- frozen sessions -----------------------------------------------------------------------------------------------


def test_a_controller_whose_session_is_frozen_is_a_zombie_until_it_is_heard_again() -> None:
    """Its session expires, another is elected; it learns so only afterwards, and registers again."""
    watched = Watched(At(10 * S, FrozenSession(host="controller", for_us=15 * S)))

    (_, first), (second_s, second), *_ = watched.seen(BecameController)
    zombie = f"b{first.broker_id}/controller"
    assert watched.fired == [1]
    ((ended_s, ended),) = watched.seen(SessionEnded)
    assert (ended.client, ended.why) == (zombie, "expired")
    assert 10 + SESSION * 2 / 3 / S <= ended_s <= second_s <= 10 + SESSION / S + 1
    assert second.broker_id != first.broker_id
    ((resigned_s, _),) = watched.seen(ControllerResigned)
    assert 25 <= resigned_s < 26, "not before it is heard again"
    assert [at_s for at_s, _ in watched.seen(BrokerRegistered, zombie) if at_s > 25]


def test_a_session_frozen_for_less_than_its_timeout_goes_on() -> None:
    """Nobody noticed; what was said meanwhile is heard."""
    watched = Watched(At(10 * S, FrozenSession(host="b1", for_us=3 * S)))

    assert watched.fired == [1]
    assert watched.seen(SessionEnded) == []
    assert [fact.kind for _, fact in watched.seen(facts.FaultEnded)] == ["freeze-session"]


def test_a_frozen_session_thaws_when_all_is_healed() -> None:
    """Without "for" it lasts until then."""
    watched = Watched(At(10 * S, FrozenSession(host="b1")), At(30 * S, Heal()))

    ((fenced_s, _),) = watched.seen(BrokerFenced)
    assert 30 <= fenced_s < 31


# --- watches -------------------------------------------------------------------------------------------------------


def noticed_s(*plan: Entry) -> float:
    """When the controller noticed that a broker it does not run on is gone."""
    watched = Watched(*plan)
    dead = [at_s for at_s, fact in watched.seen(BrokersChanged) if fact.dead]
    return dead[0]


def test_a_controller_whose_watches_are_late_notices_late() -> None:
    """By as much, and nothing else: the session of the dead broker ended at the same time."""
    other = "b1" if controller() != "b1" else "b2"
    crash = At(10 * S, Crash(host=other, for_us=15 * S))

    late = noticed_s(crash, At(10 * S, LateWatches(host="controller", for_us=S)))

    assert late == pytest.approx(noticed_s(crash) + 1, abs=0.02)


def test_a_late_watch_is_told_when_all_is_healed() -> None:
    """Without "for" it is kept back until then (or until the connection is given up)."""
    other = "b1" if controller() != "b1" else "b2"
    crash = At(10 * S, Crash(host=other, for_us=25 * S))
    ended_s = noticed_s(crash)

    healed_s = ended_s + 1.5
    assert noticed_s(crash, At(10 * S, LateWatches(host="controller")), At(int(healed_s * S), Heal())) == pytest.approx(
        healed_s, abs=0.02
    )


def test_a_watch_that_never_fires_is_not_late() -> None:
    """Only the controller watches anything that changes here."""
    other = "b1" if controller() != "b1" else "b2"
    watched = Watched(At(10 * S, LateWatches(host=other, for_us=2 * S)))

    assert watched.fired == [0]


# --- expiry --------------------------------------------------------------------------------------------------------


def test_an_expired_broker_learns_so_and_registers_again() -> None:
    """Its registration goes at once; a new epoch follows as soon as it has spoken to the store."""
    watched = Watched(At(10 * S, ExpiredSession(host="b1")))

    path = broker_path(1)
    written = [(fact.what, at_s) for at_s, fact in watched.seen(NodeWritten) if fact.path == path]
    assert [what for what, _ in written] == ["created", "deleted", "created"]
    assert written[1][1] == 10
    assert watched.fired == [1]
    assert watched.seen(facts.FaultEnded) == []


def test_a_registration_that_lingers_is_replaced_by_its_owner() -> None:
    """KAFKA-7165, fixed: nobody waits for the old node to go; when its time is over, the new one stays."""
    watched = Watched(At(10 * S, ExpiredSession(host="b1", linger_us=8 * S)))

    path = broker_path(1)
    written = [(fact.what, fact.client, at_s) for at_s, fact in watched.seen(NodeWritten) if fact.path == path]
    assert [(what, client) for what, client, _ in written[1:]] == [
        ("deleted", "b1/controller"),
        ("created", "b1/controller"),
    ]
    assert 10 < written[1][2] < 13
    assert [fact.kind for _, fact in watched.seen(facts.FaultEnded)] == ["expire-session"]


@pytest.mark.parametrize("healed", [False, True])
def test_an_office_that_lingers_is_nobodys_until_it_goes(healed: bool) -> None:
    """The expired controller's /controller stays for its time, or until all is healed: then there is an election."""
    plan = [At(10 * S, ExpiredSession(host="controller", linger_us=8 * S))]
    watched = Watched(*plan, *([At(14 * S, Heal())] if healed else []))

    gone = [at_s for at_s, fact in watched.seen(NodeWritten) if fact.path == CONTROLLER and fact.what == "deleted"]
    assert gone[0] == pytest.approx(14 if healed else 18, abs=0.01)
    assert [at_s for at_s, _ in watched.seen(BecameController)][1] > gone[0]


# --- the store itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [StoreElection(), StoreElection(for_us=4 * S), Crash(host="zk", for_us=30 * S)])
def test_nobody_expires_who_comes_back_to_the_store_in_time(away: Action) -> None:
    """``SessionTrackerImpl``: a new leader gives every session its whole timeout, however long the store was away."""
    watched = Watched(At(10 * S, away), seconds=60)

    assert watched.fired == [1]
    ((back_s, took_over),) = watched.seen(StoreTookOver)
    ended_s = watched.seen(facts.FaultEnded)[0][0]
    assert (took_over.sessions, back_s) == (3, ended_s)
    assert watched.seen(SessionEnded) == []
    assert len(watched.seen(BecameController)) == 1
    assert watched.seen(BrokersChanged)[1:] == []


def test_who_dies_while_the_store_is_away_is_missed_a_timeout_after_it_is_back() -> None:
    """Nothing expires, nothing is elected and no ISR changes without the store; then all of it does."""
    watched = Watched(
        At(10 * S, Crash(host="zk", mode="process", for_us=25 * S)),
        At(15 * S, Crash(host="b1", for_us=40 * S)),
        seconds=80,
    )

    away_s, back_s = 10, watched.seen(StoreTookOver)[0][0]
    assert [at_s for at_s, _ in watched.seen(NodeWritten) if away_s < at_s < back_s] == []
    ((gone_s, ended),) = watched.seen(SessionEnded)
    assert ended.client == "b1/controller"
    assert back_s + SESSION / S <= gone_s <= back_s + SESSION / S + 2, "the store's tick is 2 s"
    shrinks = [at_s for at_s, fact in watched.seen(IsrChanged) if 1 not in fact.isr]
    assert shrinks
    assert shrinks[0] >= back_s


def test_a_controller_that_dies_with_the_store_is_followed_by_another() -> None:
    """Its node goes with its session; those who watched it have set their watches again."""
    first = controller()
    watched = Watched(At(10 * S, StoreElection(for_us=3 * S)), At(11 * S, Crash(host=first, for_us=40 * S)), seconds=70)

    second_s = [at_s for at_s, _ in watched.seen(BecameController)][1]
    assert 13 + SESSION / S <= second_s <= 13 + SESSION / S + 2.5


def test_a_broker_starts_while_the_store_is_away_and_registers_when_it_is_back() -> None:
    """It waits for the store as one that a supervisor starts again and again does."""
    watched = Watched(
        At(10 * S, Crash(host="b1", mode="process", for_us=2 * S)),
        At(11 * S, Crash(host="zk", for_us=20 * S)),
        seconds=80,
    )

    back_s = watched.seen(StoreTookOver)[0][0]
    registered_s, _ = watched.seen(BrokerRegistered, "b1/controller")[-1]
    assert registered_s > back_s


# --- all of them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action",
    [
        LostStoreAnswer(host="b1"),
        FrozenSession(host="b1", for_us=S),
        LateWatches(host="b1", for_us=S),
        ExpiredSession(host="b1"),
    ],
    ids=lambda action: type(action).__name__,
)
def test_nothing_hits_a_broker_that_does_not_run(action: Action) -> None:
    """Its session has expired long ago: the fault counts nothing."""
    watched = Watched(At(5 * S, Crash(host="b1", for_us=25 * S)), At(20 * S, action), At(28 * S, Heal()))

    assert watched.fired[1] == 0
    assert watched.seen(StoreFaultHit) == []


@pytest.mark.parametrize("action", [LostStoreAnswer(host="b1"), ExpiredSession(host="b1")])
def test_without_a_store_such_a_fault_is_refused(action: Action) -> None:
    """Before it runs, in Python as in a file; the message says what to add."""
    with pytest.raises(ScenarioError, match=r"needs brokers that replicate: add \[brokers.replication\]"):
        attrs.evolve(scenario(At(5 * S, action), seconds=10), brokers=BrokersSpec())


def test_both_loops_agree_and_the_trace_replays(tmp_path: Path) -> None:
    """Faults of the store are events of the store like any other."""
    plan = (
        At(8 * S, Hold(sender="b2", api="Fetch", for_us=8 * S)),
        At(9 * S, LostStoreAnswer(host="b0", applied=False)),
        At(10 * S, FrozenSession(host="controller", for_us=10 * S)),
        At(22 * S, LateWatches(host="controller", for_us=S)),
        At(25 * S, ExpiredSession(host="b1", linger_us=3 * S)),
        At(26 * S, StoreElection()),
        At(35 * S, Crash(host="zk", for_us=5 * S)),
    )
    path = tmp_path / "store.kemu"
    results = [run(scenario(*plan), seed=2, loop=loop, trace=path) for loop in ("trio", "bare")]

    assert results[0].digest == results[1].digest
    assert replay(read_trace(path)).difference is None


def test_the_swarm_draws_them_where_brokers_replicate_and_only_there() -> None:
    """And no move of a coordinator, which only the cluster without elections can do."""
    grouped = attrs.evolve(scenario(), groups={"g": GROUP})
    drawn = {type(entry.action).__name__ for seed in range(200) for entry in random_faults(grouped, seed, 4)}
    plain = attrs.evolve(grouped, brokers=BrokersSpec())
    drawn_without = {type(entry.action).__name__ for seed in range(200) for entry in random_faults(plain, seed, 4)}

    ours = {"LostStoreAnswer", "FrozenSession", "LateWatches", "ExpiredSession", "ElectPreferredLeaders"}
    ours |= {"StoreElection"}
    assert ours <= drawn
    assert not ours & drawn_without
    assert "MoveCoordinator" not in drawn
    assert {"MoveCoordinator", "KillCoordinator"} <= drawn_without
    assert "KillCoordinator" in drawn
