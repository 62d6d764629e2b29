"""The draws of runs: which are made, that each has a stream of its own, and what they do to a cluster."""

import re
from collections.abc import Callable
from functools import partial
from operator import eq
from pathlib import Path
from statistics import mean, pstdev
from uuid import UUID

import pytest

from kemu.emulator.chance import Seeded, Stream
from kemu.emulator.cluster.member_draws import work_shares
from kemu.emulator.draws import Drawn, DrawSet
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.facts import HostClosed, HostDown, HostStarted, Seen, WarmUpEnded
from kemu.emulator.replay import replay
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_actions, with_values
from kemu.emulator.scenario.scenario import DEFAULT_DRAWS, Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import BrokenRow, PacketRow, StepRow, read_trace
from kemu.protocol.draws import DrawName
from kemu.protocol.nodes import read_topic_id
from kemu.protocol.notes.groups import (
    CallbackReturned,
    GroupBecame,
    GroupLoaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberBecame,
    MemberFailed,
    OffsetCommitted,
    PartitionsAssigned,
    Processed,
    RecordsAppended,
)
from kemu.protocol.notes.replication import (
    BecameController,
    BecameLeader,
    ControllerReady,
    ControllerResigned,
    IsrChanged,
    LeaderElectedForPartition,
    LogStartMoved,
    MetadataCached,
    NodeWritten,
    SessionEnded,
    SessionOpened,
)
from kemu.protocol.notes.streams import InstanceStarted

S = 1_000_000

GROUP_OF_SIX = """
duration = "75s"
draws = "life"

[topics.orders]
partitions = 12
rate = "12/s"

[groups.g]
topics = ["orders"]
members = 6
"""
THREE_BROKERS = """
duration = "75s"
draws = "life"

[brokers.replication]
session = "6s"

[brokers.config]
"offsets.topic.num.partitions" = 3

[topics.orders]
partitions = 3
rate = "6/s"
"""


class Remembering(Seeded):
    """Knows which streams were asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[str] = []

    def stream(self, purpose: str) -> Stream:
        self.asked.append(purpose)
        return super().stream(purpose)


class Watching:
    """Keeps all facts of some types."""

    def __init__(self, *kinds: type) -> None:
        self.kinds = kinds
        self.seen: list[Seen] = []

    def wants(self, kind: type) -> bool:
        return kind in self.kinds

    def see(self, seen: Seen) -> None:
        self.seen.append(seen)


def driven(scenario: Scenario, seed: int, *kinds: type, choices: Seeded | None = None) -> list[Seen]:
    watching = Watching(*kinds)
    one = Run(scenario, seed=seed, loop="bare", checkers=[], observers=(watching,), choices=choices)
    assert not one.run_with(run_plain)
    return watching.seen


# --- scenarios -----------------------------------------------------------------------------------------------------


def test_the_set_is_written_into_every_trace_also_when_it_is_the_default() -> None:
    """A trace's header repeats the scenario; a later default changes no old run."""
    assert scenario_from_toml(GROUP_OF_SIX).to_dict()["draws"] == "life"
    assert load_scenario("steady-group").to_dict()["draws"] == DEFAULT_DRAWS


def test_a_set_and_single_draws_are_chosen_by_one_key() -> None:
    """As ``--set draws=calm`` or as a table; bare dotted keys are as good as quoted ones."""
    text = GROUP_OF_SIX.replace('draws = "life"\n', "")
    scenario = scenario_from_toml(text + '[draws]\nset = "calm"\npoll.work = "uniform 1s 2s"\n')
    assert scenario.draws == DrawSet("calm", (("poll.work", "uniform 1s 2s"),))
    assert with_values(scenario_from_toml(GROUP_OF_SIX), ["draws=calm"]).draws == DrawSet("calm")
    set_twice = with_values(scenario_from_toml(GROUP_OF_SIX), ["draws.poll.work=2s", "draws=calm"])
    assert set_twice.draws == DrawSet("calm", (("poll.work", "2s"),))


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("draws=clam", '"clam" is no set of draws'),
        ("draws.poll.wrk=2s", "poll.wrk: is no draw; did you mean"),
        ("draws.identity=2s", 'must be "uuid" or "readable"'),
        ("draws.poll.work=40%", "is a time"),
        ("draws.down.time=2s", "is a share"),
        ("draws.poll.work=often", "is not a duration"),
    ],
)
def test_a_wrong_draw_is_told_with_its_key(setting: str, why: str) -> None:
    """Bad input: one clear error."""
    with pytest.raises(ScenarioError, match=why):
        with_values(scenario_from_toml(GROUP_OF_SIX), [setting])


def test_calm_draws_nothing_of_the_table() -> None:
    """So that its rhythm is exact: what is left to chance is what ever was."""
    asked = Remembering(3)
    driven(with_values(load_scenario("rolling-broker-restart"), ["draws=calm", "duration=2m"]), 3, choices=asked)
    assert not [purpose for purpose in asked.asked if purpose.startswith("draw/")]


def test_each_draw_has_a_stream_of_its_own_and_another_draw_moves_nothing() -> None:
    """Streams are named by draw and owner."""

    def spans(also: bool) -> list[int]:
        drawn = Drawn(Seeded(1), DrawSet("life"), "c1/life 1")
        found = []
        for _ in range(20):
            if also:
                drawn.us(DrawName.CALLBACK_REVOKED, 0)
            found.append(drawn.us(DrawName.POLL_WORK, 0))
        return found

    assert spans(True) == spans(False)


def test_a_run_with_draws_replays_exactly(tmp_path: Path) -> None:
    """Machines draw from the seed that the header names."""
    scenario = with_actions(scenario_from_toml(GROUP_OF_SIX), ["crash host=c2 for=5s at=30s jitter=3s"])
    first = run(scenario, seed=5, loop="bare", trace=tmp_path / "one.trace")
    assert first.digest == run(scenario, seed=5, loop="bare").digest
    assert replay(read_trace(tmp_path / "one.trace")).difference is None


def test_members_of_one_process_have_half_of_their_hand_overs_in_common() -> None:
    """``TOGETHER``: the computer is busy for all of them. Others have draws of their own, and the times stay alike."""

    def spans(owner: str, process: str) -> list[int]:
        drawn = Drawn(Seeded(1), DrawSet("life"), owner, process=process)
        return [drawn.us(DrawName.HAND_OVER, 0, at_us=moment * S) for moment in range(2_000)]

    one, two = spans("c1/life 1", "g"), spans("c2/life 1", "g")
    alone = spans("c1/life 1", ""), spans("c2/life 1", "")

    assert 0.2 < sum(map(eq, one, two)) / 2_000 < 0.3, "each of the two takes the common draw in half of the cases"
    assert sum(map(eq, *alone)) < 20
    assert mean(one) == pytest.approx(mean(alone[0]), rel=0.1)


# --- identities ----------------------------------------------------------------------------------------------------

UUID_END = re.compile("-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


ONLY_IDS = ("draws=calm", "draws.identity=uuid")


def member_ids(scenario: Scenario, seed: int) -> list[str]:
    quick = with_values(scenario, ["duration=20s"])
    return [seen.fact.member_id for seen in driven(quick, seed, MemberAdded)]


def test_member_ids_end_in_a_uuid_of_the_seed_and_are_short_in_calm() -> None:
    """``GroupMetadata.generateMemberId`` (3.4): client id or instance id, hyphen, random UUID."""
    life = scenario_from_toml(GROUP_OF_SIX)
    first = member_ids(life, 1)

    assert len({*first}) == 6 and all(UUID_END.search(each) for each in first)
    assert first == member_ids(life, 1)
    assert not {*first} & {*member_ids(life, 2)}
    assert sorted(each[2:] for each in member_ids(with_values(life, ["draws=calm"]), 1)) == [
        f"-b0.1-{number}" for number in range(1, 7)
    ]


@pytest.mark.parametrize(("draws", "is_uuid"), [("life", True), ("calm", False)])
def test_topic_ids_are_uuids_and_short_in_calm(draws: str, is_uuid: bool) -> None:
    """Topics of the scenario and a topic that a controller creates (``AdminZkClient``, 3.4)."""
    text = "[topics.orders]\npartitions = 2\n[brokers]\ncount = 2\n[brokers.replication]\nfactor = 2\n"
    quick = with_values(scenario_from_toml(text), [f"draws={draws}", "duration=8s"])
    scenario = with_actions(quick, ["create-topic topic=payments partitions=1 replication_factor=2 at=3s"])
    written = [seen.fact for seen in driven(scenario, 1, NodeWritten) if seen.fact.path.startswith("/brokers/topics/")]
    ids = [read_topic_id(fact.data) for fact in written if fact.path.count("/") == 3 and fact.what != "deleted"]

    assert len({*ids}) == len(ids) >= 2
    assert [bool(UUID_END.search(f"-{each}")) for each in ids] == [is_uuid] * len(ids)
    assert max(map(len, ids)) <= (36 if is_uuid else 20)


def test_identities_are_a_draw_of_their_own() -> None:
    """A scenario may draw the ids alone, or all but the ids. Ids move no other draw."""
    life = scenario_from_toml(GROUP_OF_SIX)
    readable = with_values(life, ["draws.identity=readable"])

    assert all(UUID_END.search(each) for each in member_ids(with_values(life, ONLY_IDS), 1))
    assert [each.partition("-")[0] for each in member_ids(readable, 1)] == [
        each.partition("-")[0] for each in member_ids(life, 1)
    ]
    assert not any(UUID_END.search(each) for each in member_ids(readable, 1))


def test_the_next_leader_follows_from_the_ids() -> None:
    """``GroupMetadata.remove``: the first member of a hash map leads next, so any member of the others may."""
    scenario = with_actions(
        with_values(scenario_from_toml(GROUP_OF_SIX), [*ONLY_IDS, "duration=40s", "rate=0/s"]),
        ["close-host host=c1 at=20s"],
    )
    led = [
        [seen.fact.leader.partition("-")[0] for seen in driven(scenario, seed, JoinPhaseCompleted)][-1]
        for seed in range(1, 13)
    ]

    assert "c1" not in led
    assert len({*led}) >= 3


def test_a_streams_process_keeps_its_uuid_over_restarts_since_2_6() -> None:
    """KAFKA-10716: since 2.6 the id is in the state directory; before, each process draws another."""
    scenario = with_actions(
        with_values(load_scenario("streams-scale-up"), ["duration=60s", "draws=life"]), ["crash host=c1 at=30s for=5s"]
    )
    for profile, ids in (("kafka-3.4", 1), ("kafka-2.4", 2)):
        started = driven(with_values(scenario, [f"profile={profile}"]), 1, InstanceStarted)
        of_c1 = {seen.fact.process for seen in started if seen.fact.instance == "c1"}
        assert len(of_c1) == ids
        assert all(UUID(each).version == 4 for each in of_c1)


# --- what single draws do ------------------------------------------------------------------------------------------


def test_members_start_over_two_seconds_and_added_ones_too() -> None:
    """Ten consumers started at once join one after the other."""
    scenario = with_actions(scenario_from_toml(GROUP_OF_SIX), ["add-members group=g count=10 at=30s"])
    starts = [
        seen.at_us for seen in driven(scenario, 1, HostStarted) if seen.fact.host in {f"c{n}" for n in range(7, 17)}
    ]
    assert len(starts) == 10
    assert all(0.2 * S <= at_us - 30 * S <= 2 * S for at_us in starts)
    assert max(starts) - min(starts) > 0.8 * S


def test_a_rolling_restart_is_down_from_the_end_of_the_process() -> None:
    """A member that closes for long is not down for a moment only; how long it took is reported."""
    scenario = with_values(
        with_actions(scenario_from_toml(GROUP_OF_SIX), ["rolling-restart group=g every=20s down=4s at=20s"]),
        ["draws.callback.revoked=6s", "draws.member.start=1s"],
    )
    facts = [seen for seen in driven(scenario, 2, HostClosed, HostDown, HostStarted) if seen.fact.host == "c1"]
    closed = next(seen.fact for seen in facts if isinstance(seen.fact, HostClosed))
    down = next(seen.at_us for seen in facts if isinstance(seen.fact, HostDown))
    up = next(seen.at_us for seen in facts if isinstance(seen.fact, HostStarted) and seen.fact.life == 2)
    assert closed.took_us >= 6 * S
    assert 0.9 * 4 * S + 1 * S <= up - down <= 1.3 * 4 * S + 1 * S


def test_a_line_s_jitter_is_drawn_and_without_it_at_is_exact() -> None:
    """A plan's ``at`` stays exactly as written."""
    scenario = with_actions(
        scenario_from_toml(GROUP_OF_SIX), ["crash host=c1 at=30s", "crash host=c2 at=30s jitter=3s"]
    )
    downs = [{s.fact.host: s.at_us for s in driven(scenario, seed, HostDown)} for seed in range(1, 4)]
    assert {down["c1"] for down in downs} == {30 * S}
    assert all(30 * S <= down["c2"] <= 33 * S for down in downs) and len({down["c2"] for down in downs}) == 3


def test_a_poll_s_work_is_scaled_to_the_load_that_fits() -> None:
    """Members work 30 to 50 percent of their time by default; what is written is not scaled."""
    few = work_shares(scenario_from_toml(GROUP_OF_SIX), "g")
    many = work_shares(with_values(scenario_from_toml(GROUP_OF_SIX), ["rate=6000/s"]), "g")
    assert many[DrawName.POLL_WORK] < few[DrawName.POLL_WORK] <= 1_000_000
    assert many[DrawName.RECORD_WORK] == 300_000, "a thousand records a second of 0.3 ms each: 30 % of the time"
    assert DrawName.RECORD_WORK not in few


def test_settings_of_a_member_go_before_draws() -> None:
    """``emulated.on.revoked.ms`` says what the callback takes."""
    scenario = with_values(scenario_from_toml(GROUP_OF_SIX), ["emulated.on.revoked.ms=0"])
    asked = Remembering(1)
    driven(with_actions(scenario, ["close-host host=c1 at=30s"]), 1, choices=asked)
    assert not [purpose for purpose in asked.asked if purpose.startswith("draw/callback.revoked/")]
    assert [purpose for purpose in asked.asked if purpose.startswith("draw/callback.assigned/")]


def test_members_resumed_at_one_moment_rejoin_in_different_orders() -> None:
    """Three members lose their sessions in a pause of 20 s and rejoin as new members, each when its threads run."""
    scenario = with_actions(
        with_values(
            scenario_from_toml(GROUP_OF_SIX),
            ["draws=calm", "draws.thread.wake=uniform 0s 5ms", "rate=0/s", "duration=45s", "session.timeout.ms=10s"],
        ),
        [f"pause host=c{number} for=20s at=20s" for number in (1, 2, 3)],
    )
    orders = set()
    for seed in range(1, 9):
        added = [seen.fact.client_id for seen in driven(scenario, seed, MemberAdded)]
        orders.add(tuple(added[6:]))
        assert sorted(added[6:]) == ["c1", "c2", "c3"]

    assert len(orders) >= 3


# --- phases --------------------------------------------------------------------------------------------------------


QUIET_GROUP = (
    "rate=0/s",
    "fetch.max.wait.ms=30000",
    "auto.commit.interval.ms=30000",
    "emulated.poll.timeout.ms=5000",
)
"""No records, and so few fetches that seeds by the hundred take seconds: heartbeats are what there is to see."""
QUIET_BROKERS = ("rate=0/s", "replica.fetch.wait.max.ms=5000")
NO_WORK = (
    "draws.poll.work=0s",
    "draws.record.work=0s",
    "draws.callback.revoked=0s",
    "draws.callback.assigned=0s",
    "draws.hand.over=0s",
    "draws.follower.sync=0s",
    "draws.close.notice=0s",
)
"""What is left of a rebalance is how members learn of it."""
REMOVALS_US = [60 * S + S // 2 * step for step in range(6)]
CRASHES_US = [60 * S + 380_000 * step for step in range(6)]


def until_stable_s(settings: tuple[str, ...], removed_at_us: int, seed: int) -> float:
    """How long after the removal of one of six the group is Stable again."""
    at = f"{removed_at_us // 1000}ms"
    scenario = with_actions(scenario_from_toml(GROUP_OF_SIX), [f"remove-members group=g at={at}"])
    seen = driven(with_values(scenario, [*settings, *NO_WORK]), seed, GroupBecame)
    return (next(s.at_us for s in seen if s.at_us > removed_at_us and s.fact.new == "Stable") - removed_at_us) / S


def without_leader_s(settings: tuple[str, ...], crashed_at_us: int, seed: int) -> float:
    """How long after a broker's crash the first of its partitions has another leader; what a new controller takes until
    it elects (``controller.start``) is left out.
    """
    at = f"{crashed_at_us // 1000}ms"
    scenario = with_actions(scenario_from_toml(THREE_BROKERS), [f"crash host=b2 at={at}"])
    seen = driven(with_values(scenario, [*settings, "draws.controller.start=0s"]), seed, BecameLeader)
    return (next(s.at_us for s in seen if s.at_us > crashed_at_us) - crashed_at_us) / S


def agree(measured: Callable[[int, int], float], moments_us: list[int], seeds: range, within: float) -> list[float]:
    """The means over seeds agree; all that was measured."""
    found = {at_us: [measured(at_us, seed) for seed in seeds] for at_us in moments_us}
    means = [mean(values) for values in found.values()]
    assert max(means) - min(means) <= within * mean(means), means
    return [value for values in found.values() for value in values]


def largest_of_five(s: float) -> float:
    """How often the last of five heartbeats, each at a uniform phase of 3 s, comes within so many seconds."""
    return min(max(s / 3, 0.0), 1.0) ** 5


def session_and_grid(s: float) -> float:
    """How often a session of 6 s is over so soon: the last ping was up to 2 s ago, the next point of the grid is up to
    2 s away, both uniform; so the whole is a triangle from 4 to 8 s.
    """
    if s < 6:
        return max(s - 4, 0.0) ** 2 / 8
    return 1 - max(8 - s, 0.0) ** 2 / 8


def farthest(values: list[float], share: Callable[[float], float]) -> float:
    """How far the share of values up to any point is from what it should be at most (Kolmogorov and Smirnov)."""
    ordered = sorted(values)
    steps = [(place / len(ordered), share(value)) for place, value in enumerate(ordered)]
    return max(max(abs(below - should), abs(below + 1 / len(ordered) - should)) for below, should in steps)


FARTHEST = 0.126
"""Of 240 draws of a distribution one set in a thousand is farther from it."""


@pytest.mark.parametrize(
    "settings", [QUIET_GROUP, pytest.param((), marks=pytest.mark.soak, id="with-records")], ids=["quiet", None]
)
def test_when_a_member_is_removed_does_not_matter_and_the_wait_is_that_of_uniform_phases(
    settings: tuple[str, ...],
) -> None:
    """One of six is removed at 60.0, 60.5 ... 62.5 s, over 40 seeds: the five others learn of it with their next
    heartbeat (AbstractCoordinator), so the wait is the largest of five uniform phases of heartbeat.interval.ms.
    """
    values = agree(partial(until_stable_s, settings), REMOVALS_US, range(1, 41), within=0.25)

    assert mean(values) == pytest.approx(2.5, abs=0.15)
    assert pstdev(values) == pytest.approx(3 * (5 / 252) ** 0.5, rel=0.2)
    assert farthest(values, largest_of_five) < FARTHEST


@pytest.mark.parametrize(
    "settings", [QUIET_BROKERS, pytest.param((), marks=pytest.mark.soak, id="with-records")], ids=["quiet", None]
)
def test_when_a_broker_crashes_does_not_matter_and_the_wait_is_that_of_uniform_phases(
    settings: tuple[str, ...],
) -> None:
    """A broker loses power at 60.0, 60.38 ... 61.9 s, over 40 seeds: its session of 6 s ends on ZooKeeper's grid of
    2 s (ExpiryQueue), counted from its last ping.
    """
    values = agree(partial(without_leader_s, settings), CRASHES_US, range(1, 41), within=0.25)

    assert mean(values) == pytest.approx(6.0, abs=0.3)
    assert pstdev(values) == pytest.approx((2 / 3) ** 0.5, rel=0.2)
    assert farthest(values, session_and_grid) < FARTHEST


def test_sessions_that_a_store_gave_up_while_it_was_out_of_reach_do_not_revive() -> None:
    """20 s out of reach with a session of 6 s; the sessions end, and others lead when it is back."""
    scenario = with_actions(scenario_from_toml(THREE_BROKERS), ["isolate host=zk at=40s for=20s"])
    seen = driven(scenario, 1, SessionEnded, SessionOpened, BecameLeader)
    ended = [s.at_us for s in seen if isinstance(s.fact, SessionEnded) and s.fact.why == "expired"]
    opened = [s.at_us for s in seen if isinstance(s.fact, SessionOpened) and s.at_us > 60 * S]
    assert len(ended) == 3 and all(44 * S <= at_us <= 48.5 * S for at_us in ended)
    assert len(opened) == 3 and max(opened) - min(opened) > 0.02 * S
    assert any(isinstance(s.fact, BecameLeader) for s in seen if s.at_us > 60 * S)


def test_a_broker_takes_time_to_start_and_more_to_recover_its_logs() -> None:
    """From the order to start to the first event; a clean end spares the recovery."""
    scenario = with_values(
        scenario_from_toml(THREE_BROKERS),
        ["draws.broker.start=3s", "draws.broker.recovery=10s", "draws.down.time=100%"],
    )
    crashed = with_actions(scenario, ["crash host=b1 mode=process at=30s for=10s"])
    up_us = next(s.at_us for s in driven(crashed, 1, HostStarted) if s.fact.host == "b1" and s.fact.life == 2)
    assert up_us > 43.5 * S
    closed = with_actions(scenario, ["close-host host=b1 at=30s", "start-host host=b1 at=40s"])
    up_us = next(s.at_us for s in driven(closed, 1, HostStarted) if s.fact.host == "b1" and s.fact.life == 2)
    assert up_us == 43 * S


def test_a_new_controller_is_busy_twice_first_until_it_says_who_lives_then_until_it_elects() -> None:
    """KafkaController.onControllerFailover; the first controller of a run was elected long ago."""
    scenario = with_values(scenario_from_toml(THREE_BROKERS), ["draws=calm"])
    crash = "crash host=b0 mode=process at=30s for=60s"
    kinds = (BecameController, MetadataCached, LeaderElectedForPartition, ControllerReady)

    def moments(*draws: str) -> tuple[int, list[int]]:
        """How long the first controller took; after the crash, when what was said first, since the next was elected."""
        seen = driven(with_actions(with_values(scenario, draws), [crash]), 1, *kinds)
        one, two = [each.at_us for each in seen if isinstance(each.fact, BecameController)]
        ready = next(each.at_us for each in seen if isinstance(each.fact, ControllerReady))
        later = [each for each in seen if each.at_us > two]
        return ready - one, [next(s.at_us for s in later if isinstance(s.fact, kind)) - two for kind in kinds[1:]]

    first, calm = moments()
    same, drawn = moments("draws.controller.start=2s")
    assert same == first
    assert [us - was for us, was in zip(drawn, calm, strict=True)] == pytest.approx([2 * S, 4 * S, 4 * S], abs=5_000)


def test_a_controller_whose_session_ends_while_it_takes_over_lays_the_office_down() -> None:
    """Kafka's Expire event preempts what the controller's thread is about to do next."""
    actions = ["crash host=b0 mode=process at=30s for=60s", "isolate host=b2 at=38s for=12s"]
    values = ["draws=calm", "draws.controller.start=30s", "duration=150s"]
    scenario = with_actions(with_values(scenario_from_toml(THREE_BROKERS), values), actions)
    seen = driven(scenario, 1, BecameController, ControllerReady, ControllerResigned)[2:]

    assert [(type(s.fact), s.fact.broker_id, s.fact.controller_epoch) for s in seen] == [
        (BecameController, 2, 2),
        (BecameController, 1, 3),
        (ControllerResigned, 2, 2),
        (ControllerReady, 1, 3),
    ]


# --- one broker comes back -----------------------------------------------------------------------------------------

ONE_BROKER = """
duration = "60s"
draws = "calm"
profile = "kafka-3.4"

[brokers]
count = 1

[topics.orders]
partitions = 6
rate = "12/s"

[groups.g]
topics = ["orders"]
members = 3

[[plan]]
at = "20s"
do = "close-host"
host = "b0"

[[plan]]
at = "30s"
do = "start-host"
host = "b0"
"""


def rebalances_after(scenario: Scenario, at_us: int) -> list[str]:
    """Why the group prepared for a rebalance from then on."""
    seen = driven(scenario, 1, GroupBecame)
    return [one.fact.why for one in seen if one.fact.new == "PreparingRebalance" and one.at_us > at_us]


def test_a_single_broker_that_comes_back_knows_nothing_for_a_while_and_its_groups_rebalance() -> None:
    """As recorded with 3.4.1: topics vanish and return, so the leader joins again. Not in 4.0 (``BrokerServer``)."""
    scenario = scenario_from_toml(ONE_BROKER)
    back = with_values(scenario, ["draws.broker.window=3s"])

    assert rebalances_after(scenario, 20 * S) == []
    assert len(rebalances_after(back, 33 * S)) == 1
    assert len(rebalances_after(back, 20 * S)) == 1
    assert rebalances_after(with_values(back, ["profile=kafka-4.0"]), 20 * S) == []


def test_a_single_broker_loads_its_groups_before_it_knows_its_topics() -> None:
    """As recorded: the controller sends UpdateMetadata after LeaderAndIsr (``ControllerBrokerRequestBatch``, 3.4.1)."""
    scenario = with_values(scenario_from_toml(ONE_BROKER), ["draws.broker.window=3s"])
    early = with_values(scenario, ["draws.broker.leads=800ms"])

    def loaded_us(run: Scenario) -> int:
        return [one.at_us for one in driven(run, 1, GroupLoaded)][-1]

    assert loaded_us(scenario) - loaded_us(early) == 800_000


def test_a_broker_that_comes_back_to_others_is_told_at_once() -> None:
    """With another broker there is a controller already."""
    scenario = with_values(scenario_from_toml(ONE_BROKER), ["brokers.count=3", "draws.broker.window=3s"])
    without = with_values(scenario_from_toml(ONE_BROKER), ["brokers.count=3"])

    assert rebalances_after(scenario, 20 * S) == rebalances_after(without, 20 * S)


def test_a_write_of_a_group_takes_what_is_drawn_unless_a_setting_says_so() -> None:
    """``emulated.append.us`` goes before the draw of the set; a draw that is written goes before both."""

    def stable_after_join_us(*settings: str) -> int:
        scenario = with_values(scenario_from_toml(ONE_BROKER), list(settings))
        seen = [one for one in driven(scenario, 1, GroupBecame) if one.at_us < 19 * S]
        moments = {one.fact.new: one.at_us for one in seen}
        return moments["Stable"] - moments["CompletingRebalance"]

    calm = stable_after_join_us()
    assert stable_after_join_us("draws.offsets.append=200ms") - calm == 200_000 - 500
    assert stable_after_join_us("draws.offsets.append=200ms", "brokers.config.emulated.append.us=90000") > 190_000
    assert stable_after_join_us("brokers.config.emulated.append.us=90000") - calm == 90_000 - 500


# --- members of one process, and of one instance -------------------------------------------------------------------


def test_members_of_one_process_are_cold_only_when_they_start_with_it() -> None:
    """``one_process``: who joins or comes back later has ``hand.over`` alone."""
    scenario = with_actions(
        scenario_from_toml(GROUP_OF_SIX.replace("members = 6", "members = 2\none_process = true")),
        ["add-members group=g at=30s", "rolling-restart group=g every=10s down=2s at=45s"],
    )
    asked = Remembering(1)
    driven(scenario, 1, choices=asked)
    cold = sorted({purpose.split("/", 2)[2] for purpose in asked.asked if purpose.startswith("draw/first.join/")})
    assert cold == ["c1/life 1", "c2/life 1", "g/moment 6"], "the last: the part that members of a process share"


TWENTY = (
    GROUP_OF_SIX.replace("members = 6", 'members = 20\none_process = true\nstart = "1s"').replace("75s", "20s")
    + '[draws]\nset = "calm"\nidentity = "uuid"\n'
).replace('draws = "life"\n', "")


def entered(*settings: str, seed: int = 1) -> list[tuple[str, int]]:
    """(client, time) of the members of a new process of twenty, in the order of their second JoinGroups."""
    seen = driven(with_values(scenario_from_toml(TWENTY), list(settings)), seed, MemberAdded)
    return [(one.fact.client_id, one.at_us) for one in seen]


def test_no_member_of_a_new_process_enters_before_the_classes_are_loaded_and_then_any_of_them_is_first() -> None:
    """As recorded with 3.4.1: six of twenty members waited, and the fifth of them led. 19 others start on two cores."""
    loaded, turns = "draws.first.id=40ms", "draws.first.turn=uniform 0s 10ms"
    starts_us = 1 * S

    assert entered()[0][1] < starts_us + 100_000
    assert {at_us - starts_us for _, at_us in entered(loaded)} <= set(range(380_000, 390_000))
    assert len({entered(loaded, turns, seed=seed)[0][0] for seed in range(1, 7)}) > 2


def test_a_replay_of_one_member_knows_when_the_process_of_its_group_began(tmp_path: Path) -> None:
    scenario = with_values(scenario_from_toml(TWENTY), ["draws.first.id=300ms", "groups.g.start_spread=200ms"])
    run(scenario, seed=1, loop="bare", trace=tmp_path / "one.trace")
    for member in ("c1", "c7"):
        alone = replay(read_trace(tmp_path / "one.trace"), actor=member)
        assert alone.steps and alone.difference is None


def test_the_timer_of_a_join_phase_is_late_by_the_drawn_time() -> None:
    """The initial delay is extended once, so it has two timers."""

    def joined_us(*settings: str) -> int:
        scenario = with_values(scenario_from_toml(TWENTY), ["draws.identity=readable", *settings])
        return driven(scenario, 1, JoinPhaseCompleted)[0].at_us

    assert joined_us("draws.group.timer=50ms") - joined_us() == 100_000


def test_the_load_of_a_moment_multiplies_what_a_machine_takes_for_ten_seconds() -> None:
    def spans(name: DrawName) -> list[int]:
        settings = (("machine.moment", "uniform 100% 300%"), (name.value, "1s"))
        drawn = Drawn(Seeded(1), DrawSet("calm", settings), "c1/life 1")
        return [drawn.us(name, 0, at_us=second * S) for second in range(30)]

    for name in (DrawName.HAND_OVER, DrawName.FOLLOWER_SYNC, DrawName.REJOIN_NOTICE):
        of = spans(name)
        assert [len(set(of[start : start + 10])) for start in (0, 10, 20)] == [1, 1, 1]
        assert len(set(of)) == 3 and S <= min(of) < max(of) <= 3 * S
        assert of == spans(DrawName.HAND_OVER), "one load of the machine for all draws"
    assert set(spans(DrawName.FIRST_JOIN)) == set(spans(DrawName.HEARTBEAT_WAIT)) == {S}


def test_a_machine_is_as_busy_for_all_of_a_run_and_members_of_one_process_share_it() -> None:
    """As recorded with 3.4.1: the mean hand-over of a recording was 0.44 to 3.8 times that of all."""

    def joined_after_ms(*settings: str) -> list[float]:
        text = ONE_BROKER[: ONE_BROKER.index("[[plan]]")]
        scenario = with_values(scenario_from_toml(text), ["draws.hand.over=10ms", *settings])
        seen = driven(scenario, 1, GroupBecame)
        moments = {one.fact.new: one.at_us for one in seen}
        return [(moments["Stable"] - moments["CompletingRebalance"]) / 1_000]

    (usual,), (busy,) = joined_after_ms(), joined_after_ms("draws.machine.busy=380%")
    assert 26 <= busy - usual <= 30, "one hand-over lies between the answer to the leader's join and its SyncGroup"

    text = GROUP_OF_SIX.replace("members = 6", "members = 6\none_process = true")
    asked = Remembering(1)
    driven(scenario_from_toml(text), 1, choices=asked)
    machines = [purpose.removeprefix("draw/machine.busy/") for purpose in asked.asked if "machine.busy" in purpose]
    assert machines == ["b0", "b1", "b2", "g"], "three brokers and the group's process"
    asked = Remembering(1)
    driven(scenario_from_toml(GROUP_OF_SIX), 1, choices=asked)
    assert len([purpose for purpose in asked.asked if "machine.busy" in purpose]) == 3 + 6


COOPERATIVE = (
    ONE_BROKER[: ONE_BROKER.index("[[plan]]")]
    .replace("partitions = 6", "partitions = 12")
    .replace("members = 3", 'members = 3\nassignors = ["cooperative-sticky"]')
)


def grown(*settings: str) -> tuple[int, list[str], list[str]]:
    """A fourth member joins three, each of which has a partition to give up: how many generations, why the group
    prepared for them, and who was told to come back when it asked for its assignment.
    """
    scenario = with_actions(scenario_from_toml(COOPERATIVE), ["add-members group=g at=20s"])
    seen = driven(with_values(scenario, list(settings)), 1, GroupBecame, JoinPhaseCompleted, MemberBecame)
    later = [one for one in seen if one.at_us > 20 * S]
    generations = [one.fact.generation for one in later if type(one.fact) is JoinPhaseCompleted]
    reasons = [one.fact.why for one in later if type(one.fact) is GroupBecame and one.fact.new == "PreparingRebalance"]
    refused = [
        one.actor
        for one in later
        if type(one.fact) is MemberBecame
        and one.fact.old == "COMPLETING_REBALANCE"
        and "RebalanceInProgress" in one.fact.why
    ]
    return len(generations), [reason.rpartition("client reason: ")[2] for reason in reasons], refused


REVOKED = "need to revoke partitions and re-join"


def test_a_leader_that_revokes_joins_again_before_slow_followers_sync_and_they_revoke_a_generation_later() -> None:
    """As in a live run of 3.4.1: the leader's next JoinGroup came 3 ms after its SyncGroup, before another's SyncGroup,
    which was answered REBALANCE_IN_PROGRESS (``GroupCoordinator.doSyncGroup``), and one more generation was needed.
    """
    at_once, slow = grown(), grown("draws.follower.sync=40ms")

    new = "rebalance failed due to MemberIdRequiredException"
    assert at_once == (2, [new, REVOKED], [])
    assert slow == (3, [new, REVOKED, REVOKED], ["c2", "c1", "c4"])


def test_a_follower_on_a_busy_machine_syncs_later() -> None:
    """``machine.busy``: what is drawn as 1 ms takes 40 there, so that the race above comes out."""
    assert not grown("draws.follower.sync=1ms")[2]
    assert grown("draws.follower.sync=1ms", "draws.machine.busy=4000%")[2]


def test_a_busy_machine_appends_commits_more_slowly() -> None:
    """As recorded with 3.4.1: medians of OffsetCommits were 0.57 to 1.7 times the usual, and varied less than loads."""

    def commits_after_us(*settings: str) -> list[int]:
        draws = ["draws.offsets.append=10ms", "duration=20s", *settings]
        return [seen.at_us for seen in alone(GROUP_OF_SIX, draws, [], OffsetCommitted)]

    usual, busy = commits_after_us(), commits_after_us("draws.machine.busy=400%")
    assert busy[0] - usual[0] == 2 * 10_000, "the generation's record, then the commit's"


def test_a_second_process_with_the_same_instance_id_fences_the_first() -> None:
    """KIP-345, as recorded with 3.4.1: the new one has the old one's partitions at once, without a rebalance."""
    text = ONE_BROKER[: ONE_BROKER.index("[[plan]]")].replace("members = 3", "members = 4\nstatic = true")
    scenario = with_actions(
        scenario_from_toml(text + '[groups.g.overrides.c4]\ninstance = "c2"\nstart_later = true\n'),
        ["start-host host=c4 at=25s"],
    )
    seen = driven(scenario, 1, GroupBecame, MemberFailed, PartitionsAssigned)
    failed = [one for one in seen if isinstance(one.fact, MemberFailed)]
    assigned = {one.actor: one.fact.owned for one in seen if isinstance(one.fact, PartitionsAssigned)}

    assert [(one.actor, one.fact.error.name) for one in failed] == [("c2", "FENCED_INSTANCE_ID")]
    assert 25 * S < failed[0].at_us < 31 * S, "with its next commit or heartbeat"
    assert assigned["c4"] == assigned["c2"]
    assert len([one for one in seen if isinstance(one.fact, GroupBecame) and one.fact.new == "PreparingRebalance"]) == 1


# --- one draw alone, everything else exact ---------------------------------------------------------------------------


def alone(text: str, draws: list[str], plan: list[str], *kinds: type) -> list[Seen]:
    """What is seen of a calm run with these draws alone."""
    scenario = with_actions(with_values(scenario_from_toml(text), ["draws=calm", *draws]), plan)
    return driven(scenario, 1, *kinds)


def test_a_poll_s_and_a_record_s_work_take_as_long_as_drawn() -> None:
    """poll.work once a poll, record.work for each record."""
    seen = alone(GROUP_OF_SIX, ["draws.poll.work=40ms", "draws.record.work=7ms", "duration=20s"], [], Processed)
    took = {(s.at_us - s.fact.started_us, s.fact.last - s.fact.first) for s in seen}
    assert took and {us - count * 7_000 for us, count in took} <= {0, 40_000}, "of a poll the first partition's part"
    assert any(us == 47_000 for us, _ in took)


def test_callbacks_take_as_long_as_drawn_each_by_its_own_row() -> None:
    """A member that stands still for longer than its session loses what it had; the others revoke and are assigned."""
    seen = alone(
        GROUP_OF_SIX.replace("members = 6", "members = 6\nconfig.session.timeout.ms = 6000"),
        ["draws.callback.revoked=150ms", "draws.callback.assigned=250ms", "draws.callback.lost=350ms"],
        ["pause host=c2 for=15s at=20s"],
        CallbackReturned,
    )
    assert {(s.fact.callback, s.fact.took_us) for s in seen} == {
        ("onPartitionsRevoked", 150_000),
        ("onPartitionsAssigned", 250_000),
        ("onPartitionsLost", 350_000),
    }


def test_a_producer_begins_at_its_phase() -> None:
    """Of emulated.batch.interval.ms, after its metadata."""
    early, late = (
        alone(GROUP_OF_SIX, [f"draws.producer.phase={share}", "duration=5s", *SLOW_BATCHES], [], RecordsAppended)
        for share in ("20%", "70%")
    )
    assert (late[0].at_us - early[0].at_us) / S == pytest.approx(0.5, abs=0.01)


CUT = "kill-coordinator group=g at=30s"
SLOW_BATCHES = ("emulated.batch.interval.ms=1000",)


def test_a_plan_s_lines_come_later_by_the_jitter_of_all() -> None:
    """Without ``jitter`` on the line."""
    seen = alone(GROUP_OF_SIX, ["draws.plan.jitter=2s"], ["crash host=c1 at=30s"], HostDown)
    assert [s.at_us for s in seen] == [32 * S]


def test_a_host_is_down_for_the_share_that_is_drawn() -> None:
    """Of what the plan says."""
    seen = alone(GROUP_OF_SIX, ["draws.down.time=150%"], ["crash host=c1 for=10s at=30s"], HostStarted)
    assert [s.at_us for s in seen if s.fact.life == 2] == [45 * S]


def test_a_broker_s_end_takes_as_long_as_drawn_after_its_controlled_shutdown() -> None:
    """Its logs are flushed and closed."""
    quick, slow = (
        next(
            s.at_us for s in alone(THREE_BROKERS, [f"draws.broker.stop={us}"], ["close-host host=b1 at=30s"], HostDown)
        )
        for us in ("200ms", "1s")
    )
    assert slow - quick == 800_000


def test_a_silent_broker_is_given_up_earlier_by_the_age_of_its_last_beat() -> None:
    """broker.heartbeat.interval.ms: without replication the emulator arranges who leads next."""
    fresh, old = (
        next(s.at_us for s in alone(GROUP_OF_SIX, [f"draws.broker.beat={age}"], [CUT], GroupLoaded) if s.at_us > 30 * S)
        for age in ("0s", "2s")
    )
    assert fresh - old == 2 * S


def test_sessions_end_on_the_store_s_grid_and_the_grid_where_it_is_drawn() -> None:
    """ZooKeeper's tickTime; the grid begins when the store did."""
    for share, begins_us in (("0%", 0), ("25%", 500_000)):
        draws = ["draws.store.tick=2s", f"draws.store.grid.phase={share}"]
        ended = alone(THREE_BROKERS, draws, ["crash host=b2 at=30s"], SessionEnded)
        assert [s.at_us % (2 * S) for s in ended[:1]] == [begins_us]


def test_the_store_is_pinged_at_the_phase_that_is_drawn() -> None:
    """A third of 6 s is 2 s: half of it later, half of it later given up."""
    at_us = [
        alone(THREE_BROKERS, [f"draws.store.ping.phase={share}"], ["crash host=b2 at=60s"], SessionEnded)[0].at_us
        for share in ("10%", "60%")
    ]
    assert (at_us[1] - at_us[0]) % (2 * S) == pytest.approx(1 * S, abs=20_000)


def test_packets_take_as_long_as_drawn() -> None:
    """All of them: what a broker is asked and answers takes twice that, so a group forms later by it."""
    quick, slow = (
        next(
            s.at_us
            for s in alone(GROUP_OF_SIX, [f"draws.network.latency={us}"], [], GroupBecame)
            if s.fact.new == "Stable"
        )
        for us in ("1ms", "101ms")
    )
    assert (slow - quick) % 100_000 == 0 and slow - quick >= 600_000


def test_a_heartbeat_is_late_by_the_drawn_time() -> None:
    """Beats of 4 s: the last beat of a dead member was earlier."""
    text = GROUP_OF_SIX.replace("members = 6", "members = 6\nconfig.session.timeout.ms = 10000")
    exact, late = (
        [
            s.at_us
            for s in alone(text, [f"draws.heartbeat.wait={wait}"], ["crash host=c2 at=41s"], GroupBecame)
            if s.fact.new == "PreparingRebalance"
        ][1]
        for wait in ("0s", "1s")
    )
    stable_us = 6 * S
    assert (exact - stable_us) // S == 3 * 11 + 10, "the last beat before 41 s is the eleventh"
    assert (late - stable_us) // S == 4 * 8 + 10, "the eighth"


def test_members_commit_at_the_phase_that_is_drawn() -> None:
    """Of auto.commit.interval.ms, once the group has settled."""
    early, late = (
        alone(GROUP_OF_SIX, [f"draws.commit.phase={share}", "duration=20s"], [], OffsetCommitted)[0].at_us
        for share in ("10%", "60%")
    )
    assert (late - early) / S == pytest.approx(2.5, abs=0.01)
    assert len(alone(GROUP_OF_SIX, ["draws.commit.phase=10%", "duration=10s"], [], WarmUpEnded)) == 1
    assert not alone(GROUP_OF_SIX, ["duration=10s"], [], WarmUpEnded)


def test_leaders_look_who_fell_behind_at_the_phase_that_is_drawn() -> None:
    """Of half of replica.lag.time.max.ms: here 2.5 s."""
    text = THREE_BROKERS.replace('session = "6s"', 'session = "6s"\nlag = "5s"')
    early, late = (
        next(
            s.at_us
            for s in alone(text, [f"draws.isr.check.phase={share}"], ["split side=b2 other=b0,b1 at=40s"], IsrChanged)
            if s.at_us > 40 * S
        )
        for share in ("10%", "60%")
    )
    assert (late - early) / S == pytest.approx(1.25, abs=0.01)


def test_brokers_delete_what_has_expired_at_the_phase_that_is_drawn() -> None:
    """Of log.retention.check.interval.ms: here 5 s."""
    text = """
        duration = "40s"
        [brokers.config]
        "log.retention.check.interval.ms" = 5000
        [topics.events]
        partitions = 1
        rate = "2/s"
        retention = "20s"
        segment = "5s"
    """
    early, late = (
        alone(text, [f"draws.retention.check.phase={share}"], [], LogStartMoved)[0].at_us for share in ("60%", "10%")
    )
    assert (late - early) / S == pytest.approx(2.5, abs=0.01)


def test_the_controller_looks_for_leaders_out_of_place_at_the_phase_that_is_drawn() -> None:
    """Of leader.imbalance.check.interval.seconds: here 10 s."""
    text = THREE_BROKERS.replace(
        'session = "6s"', 'session = "6s"\ncontroller.leader.imbalance.check.interval.seconds = 10'
    )
    early, late = (
        alone(
            text, [f"draws.leader.imbalance.phase={share}"], ["crash host=b1 at=20s for=8s"], LeaderElectedForPartition
        )[-1].at_us
        for share in ("60%", "10%")
    )
    assert (late - early) / S % 10 == pytest.approx(5, abs=0.02)


@pytest.mark.parametrize("share", [60, 90])
def test_a_follower_s_next_fetch_is_at_the_share_that_is_drawn(share: int) -> None:
    """Of replica.fetch.wait.max.ms (500 ms) after all has settled, at 10 s here, if it has its answer by then."""
    text = THREE_BROKERS.replace('rate = "6/s"', 'rate = "0/s"').replace("75s", "15s")
    sent = sent_alone(text, [f"draws.follower.fetch.phase={share}%"], [])
    assert 10 * S + share * 5_000 in [row[1] for row in sent if row[2:4] == ("b2", "b0") and row[5] == "Fetch"]


def test_a_client_of_the_store_connects_again_after_what_is_drawn() -> None:
    """ClientCnxn sleeps for up to a second before it tries again."""
    for wait_us in (200_000, 900_000):
        sent = sent_alone(THREE_BROKERS, [f"draws.store.reconnect={wait_us}us"], ["disconnect a=b1 b=zk at=40s"])
        again = next(row for row in sent if row[3] == "zk" and row[5] == "OpenSession" and row[1] > 40 * S)
        assert again[1] - 40 * S == pytest.approx(wait_us, abs=1_000)


@pytest.mark.parametrize("load", [20, 40])
def test_members_work_for_the_share_of_their_time_that_is_drawn(load: int) -> None:
    """group.load, on average over the group, at most: what comes while one works waits for the next poll."""
    scenario = with_values(scenario_from_toml(GROUP_OF_SIX), [f"draws.group.load={load}%", "duration=3m"])
    worked: dict[str, int] = {}
    counted_to: dict[str, int] = {}
    for seen in driven(scenario, 1, Processed):
        begun_us = max(seen.fact.started_us, 20 * S, counted_to.get(seen.actor, 0))
        counted_to[seen.actor] = seen.at_us
        worked[seen.actor] = worked.get(seen.actor, 0) + max(0, seen.at_us - begun_us)
    assert load * 0.6 <= mean(worked.values()) / (160 * S) * 100 <= load


class _Packets:
    """Records packets, and nothing else."""

    def __init__(self) -> None:
        self.rows: list[PacketRow] = []

    def packet(self, row: PacketRow) -> None:
        self.rows.append(row)

    def step(self, row: StepRow) -> None:
        pass

    def fact(self, seq: int, at_us: int, fact: object) -> None:
        pass

    def broken(self, row: BrokenRow) -> None:
        pass


def sent_alone(text: str, draws: list[str], plan: list[str]) -> list[PacketRow]:
    """As ``alone``, but what is sent."""
    scenario = with_actions(with_values(scenario_from_toml(text), ["draws=calm", *draws]), plan)
    packets = _Packets()
    one = Run(scenario, seed=1, loop="bare", checkers=[], recorder=packets)
    assert not one.run_with(run_plain)
    return packets.rows
