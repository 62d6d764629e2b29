"""Where runs have been: messages met in states, transitions taken, probes hit."""

import json

import pytest
from click.testing import CliRunner

from kemu.emulator.exploring.coverage import DECLARED, UNANSWERED, Coverage, Point, Transition, error_of
from kemu.emulator.exploring.probes import PROBES
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import HeartbeatReply, OffsetCommitReply, OffsetOutcome
from kemu.protocol.names import role_of
from kemu.protocol.notes.groups import MemberRemoved, PartitionsLost, RequestRefused
from kemu.tools.cli import kemu

SHORT = ("duration=40s", "draws=calm")


def scenario(name: str = "steady-group", *settings: str, do: tuple[str, ...] = ()) -> Scenario:
    """A preset, short and calm."""
    made = with_values(load_scenario(name), [*SHORT, *settings])
    return with_actions(made, do) if do else made


def covered(made: Scenario, seed: int = 1) -> tuple[Coverage, RunResult]:
    """One run of it."""
    coverage = Coverage()
    listening = coverage.of_run()
    result = run(made, seed=seed, loop="bare", recorder=listening)
    listening.finish()
    return coverage, result


def test_a_join_is_met_in_the_states_that_a_group_goes_through() -> None:
    """KIP-394: each member is sent back once for an id, and joins."""
    coverage, _ = covered(scenario("steady-group", "members=3"))

    joins = {point: count for point, count in coverage.points.items() if point.message == "JoinGroup"}
    by_outcome = {
        outcome: sum(count for point, count in joins.items() if point.outcome == outcome)
        for outcome in ("MEMBER_ID_REQUIRED", "NONE")
    }
    assert by_outcome == {"MEMBER_ID_REQUIRED": 3, "NONE": 3}
    assert {point.role for point in joins} == {"coordinator"}
    assert coverage.points[Point("member", "COMPLETING_REBALANCE", "SyncGroup reply", "NONE")] == 3
    assert coverage.moves[Transition("group", "CompletingRebalance", "Stable")] == 1


def test_every_answer_is_counted_where_it_was_asked_and_where_it_arrived() -> None:
    """No fault, so no answer gets lost: as many heartbeats answered with an outcome as arrive with it."""
    coverage, _ = covered(scenario())

    for outcome in ("NONE", "REBALANCE_IN_PROGRESS"):
        asked = sum(n for p, n in coverage.points.items() if (p.message, p.outcome) == ("Heartbeat", outcome))
        came = sum(n for p, n in coverage.points.items() if (p.message, p.outcome) == ("Heartbeat reply", outcome))
        assert asked == came
    assert coverage.points[Point("coordinator", "Stable", "Heartbeat", "NONE")] > 10


def test_what_a_dying_coordinator_was_asked_stays_unanswered() -> None:
    """A parked JoinGroup goes with the process."""
    made = scenario("steady-group", "group.initial.rebalance.delay.ms=20000", do=("kill-coordinator at=10s for=5s",))
    coverage, _ = covered(made)

    assert sum(n for p, n in coverage.points.items() if (p.message, p.outcome) == ("JoinGroup", UNANSWERED)) > 0


def test_the_state_of_a_group_that_was_loaded_is_known() -> None:
    """A coordinator that takes over never said how the group came to be Stable."""
    coverage, _ = covered(scenario("steady-group", do=("kill-coordinator at=15s for=5s",)))

    assert coverage.probes["group-loaded-with-members"]
    assert not [p for p in coverage.points if (p.state, p.message, p.outcome) == ("none", "Heartbeat", "NONE")]


def test_whoever_listens_changes_nothing() -> None:
    made = scenario()

    assert covered(made)[1].digest == run(made, seed=1, loop="bare").digest


@pytest.mark.parametrize("name", ["cooperative-rolling-restart", "topic-created-and-deleted", "controller-crash"])
def test_machines_take_no_transition_that_their_tables_do_not_have(name: str) -> None:
    coverage, _ = covered(with_values(load_scenario(name), ["draws=calm"]))

    assert set(coverage.moves) <= DECLARED
    assert set(coverage.untaken()) == DECLARED - set(coverage.moves)
    assert len(coverage.moves) >= 8


def test_transitions_of_all_four_tables_are_declared() -> None:
    assert {move.table for move in DECLARED} == {"group", "member", "partition", "replica"}
    assert Transition("group", "Stable", "PreparingRebalance") in DECLARED
    assert Transition("member", "UNJOINED", "STABLE") not in DECLARED


def test_probes_are_hit_by_what_they_are_named_after() -> None:
    made = scenario("steady-group", "session.timeout.ms=10000", do=("pause host=c2 at=12s for=15s",))
    coverage, _ = covered(made)

    assert {"host-pauses", "partitions-lost"} <= set(coverage.probes)
    assert set(coverage.unhit()) == set(PROBES) - set(coverage.probes)


def refused(api: str, error: ErrorCode) -> RequestRefused:
    return RequestRefused(group="g", api=api, member_id="c1", error=error)


def removed(why: str) -> MemberRemoved:
    return MemberRemoved(group="g", member_id="c1", client_id="c1", why=why)


@pytest.mark.parametrize(
    ("probe", "fact", "hit"),
    [
        ("instance-fenced", refused("Heartbeat", ErrorCode.FENCED_INSTANCE_ID), True),
        ("instance-fenced", refused("Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID), False),
        ("commit-of-old-generation", refused("OffsetCommit", ErrorCode.ILLEGAL_GENERATION), True),
        ("commit-of-old-generation", refused("SyncGroup", ErrorCode.ILLEGAL_GENERATION), False),
        ("static-member-replaced", removed("replaced by c1-2"), True),
        ("static-member-replaced", removed("left"), False),
        ("partitions-lost", PartitionsLost(group="g", member_id="c1", lost=()), False),
    ],
)
def test_a_probe_looks_at_what_the_fact_says(probe: str, fact: object, hit: bool) -> None:
    found = PROBES[probe]

    assert isinstance(fact, found.kind)
    assert found.shows(fact) is hit


def test_the_error_of_a_message_is_its_own_or_the_first_of_its_parts() -> None:
    outcomes = tuple(
        OffsetOutcome(topic="t", partition=n, error=error) for n, error in enumerate(ErrorCode(e) for e in (0, 16, 22))
    )

    assert error_of(HeartbeatReply(error=ErrorCode.ILLEGAL_GENERATION)) is ErrorCode.ILLEGAL_GENERATION
    assert error_of(OffsetCommitReply(outcomes=outcomes)) is ErrorCode.NOT_COORDINATOR
    assert error_of(OffsetCommitReply(outcomes=outcomes[:1])) is ErrorCode.NONE


def test_roles_are_told_from_names() -> None:
    actors = ("c1", "c1/t2", "b0", "b0/coordinator", "b0/controller", "zk", "admin", "p1")
    roles = ("member", "member", "broker", "coordinator", "controller", "store", "admin", "producer")

    assert tuple(map(role_of, actors)) == roles


# --- the command -----------------------------------------------------------------------------------------------------

QUICK = ("steady-group", "--seeds", "1:1", "--set", "duration=30s")


def test_the_command_draws_a_table_per_role_and_names_what_was_never_hit() -> None:
    done = CliRunner().invoke(kemu, ["coverage", *QUICK])

    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert "coordinator" in lines and "member" in lines
    assert any(line.split()[:2] == ["Heartbeat", "NONE"] for line in lines)
    assert "never hit:" in lines
    assert any("unclean-election" in line for line in lines[lines.index("never hit:") :])


def test_the_same_as_data_and_of_one_role() -> None:
    done = CliRunner().invoke(kemu, ["coverage", *QUICK, "--role", "coordinator", "--format", "json"])

    data = json.loads(done.stdout)
    assert {point["role"] for point in data["points"]} == {"coordinator"}
    assert set(data["probes"]) == set(PROBES)
    assert {"table": "group", "old": "Dead", "new": "Dead", "count": 0} in data["transitions"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--role", "cordinator"], '"cordinator" is no role; did you mean "coordinator"'),
        (["--profile", "kafka"], '"kafka" is no profile'),
    ],
)
def test_bad_input_is_one_clear_message(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(kemu, ["coverage", *QUICK, *arguments])

    assert done.exit_code == 2
    assert words in done.stderr
