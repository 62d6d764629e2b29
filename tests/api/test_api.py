"""The public API, as a user's test has it: ``import kemu`` and nothing else."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kemu
from kemu.emulator.plan import actions
from kemu.emulator.plan.actions import classes

ORDERS = {"orders": kemu.TopicSpec(partitions=6)}


def crashed(**changes: object) -> kemu.Scenario:
    """Three members, one of which dies for a while; ``changes`` go to the group."""
    settings: dict[str, object] = {"session.timeout.ms": 10_000}
    return kemu.Scenario(
        name="crashed",
        duration_us="60s",
        topics=ORDERS,
        groups={"billing": kemu.GroupSpec(topics="orders", members=3, config=settings, **changes)},  # type: ignore[arg-type]
        plan=(kemu.At("30s", kemu.Crash(host="c2", for_us=kemu.duration_us("20s"))),),
    )


def said(made: object) -> list[str]:
    """What is wrong with what is made by calling this, a line each."""
    with pytest.raises(kemu.ScenarioError) as caught:
        made()  # type: ignore[operator]
    return str(caught.value).splitlines()


# --- running ---------------------------------------------------------------------------------------------------------


def test_a_run_has_a_verdict_and_typed_figures() -> None:
    """The same seed gives the same digest."""
    outcome = kemu.run(crashed(), seed=7)

    assert outcome.verdict == "holds"
    assert [fault.fired for fault in outcome.faults] == [1]
    assert [rebalance.members for rebalance in outcome.figures.rebalances] == [3, 2, 3]
    assert outcome.figures.groups["billing"].lost == 0
    assert kemu.run(crashed(), seed=7).digest == outcome.digest


def test_a_run_may_make_every_actor_a_trio_task() -> None:
    """Both loops give the same run."""
    outcome = kemu.run(crashed(), seed=7, loop="trio")

    assert outcome.loop == "trio"
    assert outcome.digest == kemu.run(crashed(), seed=7).digest
    with pytest.raises(ValueError, match="it must be trio or bare"):
        kemu.run(crashed(), loop="asyncio")  # type: ignore[arg-type]


def test_a_trace_replays_without_a_difference(tmp_path: Path) -> None:
    """A run's record against today's machines."""
    path = tmp_path / "run.kemu"
    kemu.run(crashed(), seed=7, trace=path)

    replayed = kemu.replay(path)

    assert replayed.difference is None
    assert replayed.steps > 100


def test_a_check_that_fails_says_what_broke_and_how_to_repeat_it() -> None:
    """For a test's report: the seed, the violation, the plan, the call."""
    never = kemu.Scenario(
        name="never well",
        duration_us="20s",
        topics=ORDERS,
        groups={"billing": kemu.GroupSpec(topics="orders")},
        checks=kemu.ChecksSpec(stable_within_us="1ms", heal_after_us="19s"),
        plan=(kemu.At("18s", kemu.Crash(host="c2")),),
    )

    with pytest.raises(kemu.NotHeld) as caught:
        kemu.check(never, seeds=[3])

    lines = str(caught.value).splitlines()
    assert lines[0].startswith("never well, seed 3, kafka-3.4: liveness")
    assert "crash c2" in str(caught.value)
    assert "seed=3" in lines[-1]
    assert caught.value.outcome.seed == 3


def test_a_check_gives_the_outcome_of_every_seed() -> None:
    """In the order of the seeds."""
    assert [outcome.seed for outcome in kemu.check(crashed(), seeds=(4, 2))] == [4, 2]


def test_presets_and_files_are_loaded_by_name(tmp_path: Path) -> None:
    """As the command line does."""
    path = tmp_path / "mine.toml"
    path.write_text('[topics.orders]\npartitions = 6\n[groups.billing]\ntopics = ["orders"]\n', encoding="utf-8")

    assert "steady-group" in kemu.presets()
    assert kemu.load("steady-group").name == "steady-group"
    assert kemu.load(path) == kemu.Scenario(
        name="mine", topics=ORDERS, groups={"billing": kemu.GroupSpec(topics=("orders",))}
    )


class Slow:
    """A listener whose onPartitionsAssigned takes two seconds."""

    def __init__(self) -> None:
        self.assigned: list[tuple[str, int]] = []

    def on_revoked(self, partitions: tuple[tuple[str, int], ...]) -> kemu.Took:
        return kemu.Took()

    def on_lost(self, partitions: tuple[tuple[str, int], ...]) -> kemu.Took:
        return kemu.Took()

    def on_assigned(self, partitions: tuple[tuple[str, int], ...]) -> kemu.Took | kemu.Raised:
        self.assigned += partitions
        return kemu.Took(kemu.duration_us("2s"))


def test_a_listener_of_ones_own_is_called() -> None:
    """``ConsumerRebalanceListener``, by host."""
    listener = Slow()

    kemu.run(crashed(), seed=1, listeners={"c1": listener})

    assert listener.assigned


class ToTheFirst:
    """Gives everything to the first member."""

    name = "to-the-first"
    version = 0
    protocols = (kemu.RebalanceProtocol.EAGER,)

    def user_data(self, memory: kemu.Memory | None) -> bytes | None:
        return None

    def assign(self, topics: kemu.Topics, members: dict[str, kemu.Subscriber]) -> kemu.Assignment:
        first = min(members)
        return {first: [(topic, number) for topic, count in topics.partitions.items() for number in range(count)]}


def test_an_assignor_of_ones_own_is_used() -> None:
    """Given as a class; recorded as ``module:Class``, so that a trace of it can be replayed."""
    scenario = crashed(assignors=(ToTheFirst,))

    assert scenario.groups["billing"].assignors == (f"{__name__}:ToTheFirst",)
    assert kemu.run(scenario, seed=1).verdict == "holds"


class Sticks(ToTheFirst):
    """Everybody keeps what is rightfully its own (KIP-792); the rest goes to the first."""

    name = "sticks"
    protocols = (kemu.RebalanceProtocol.COOPERATIVE,)
    overlaps = 0

    def assign(self, topics: kemu.Topics, members: dict[str, kemu.Subscriber]) -> kemu.Assignment:
        Sticks.overlaps += len(kemu.validate_subscriptions(members))
        rightful = kemu.rightful_owners(members)
        assignment: kemu.Assignment = {member: [] for member in members}
        for at in [(topic, number) for topic, count in topics.partitions.items() for number in range(count)]:
            assignment[rightful.get(at, min(members))].append(at)
        return assignment


def test_a_cooperative_assignor_of_ones_own_asks_who_rightfully_owns_what() -> None:
    """KIP-792's validateSubscription: members that claim the same partition are found before they are believed."""
    assert kemu.run(crashed(assignors=(Sticks,)), seed=1, profile="kafka-3.9").verdict == "holds"
    assert Sticks.overlaps == 0, "nobody is wrong about what it owns here"

    claim = [("orders", 0)]
    members = {
        name: kemu.Subscriber(("orders",), tuple(claim), generation) for name, generation in (("a", 3), ("b", 4))
    }
    assert kemu.validate_subscriptions(members) == (kemu.Overlap(("orders", 0), (("a", 3), ("b", 4)), "b"),)


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: kemu.Scenario(name="x", duration="60s"),
            'Scenario has no argument "duration"; write duration_us="60s"',
        ),  # type: ignore[call-arg]
        (lambda: kemu.TopicSpec(partitions=1, rate="9/s"), 'TopicSpec has no argument "rate"; write records_per_s=100'),  # type: ignore[call-arg]
        (
            lambda: kemu.Pause(host="c1", duration="9s"),  # type: ignore[call-arg]
            'Pause has no argument "duration"; write for_us=kemu.duration_us("9s")',
        ),
        (lambda: kemu.Crash(hots="c1"), 'Crash has no argument "hots"; did you mean "host"?'),  # type: ignore[call-arg]
        (lambda: kemu.At("30s"), 'At takes a time and an action: At("30s", kemu.Heal())'),  # type: ignore[call-overload]
    ],
)
def test_a_key_of_a_file_as_an_argument_is_refused_with_the_argument(made: object, message: str) -> None:
    """Classes of scenarios, actions and entries of a plan."""
    with pytest.raises(TypeError) as caught:
        made()  # type: ignore[operator]

    assert str(caught.value) == message


def test_a_bare_number_is_no_time_of_an_entry() -> None:
    """``At(30, ...)``: its author means seconds."""
    assert said(lambda: kemu.At(30, kemu.Heal())) == [  # type: ignore[call-overload]
        'At(30, ...) would be 30 microseconds: write "30s" for seconds, or at_us=30, action=...'
    ]
    assert kemu.At(at_us=30, action=kemu.Heal()).at_us == 30
    assert kemu.At("30s", kemu.Heal()) == kemu.At(at_us=30_000_000, action=kemu.Heal())


def test_a_preset_or_a_file_runs_by_its_name(tmp_path: Path) -> None:
    """Wherever a scenario is taken."""
    path = tmp_path / "crashed.toml"
    path.write_text(kemu.toml_of(crashed()), encoding="utf-8")

    assert kemu.run(path, seed=7).digest == kemu.run(str(path), seed=7).digest == kemu.run(crashed(), seed=7).digest
    assert kemu.check("steady-group", seeds=[2])[0].scenario == "steady-group"


def test_a_check_without_seeds_is_refused() -> None:
    """It would check nothing."""
    with pytest.raises(ValueError, match="seeds is empty"):
        kemu.check("steady-group", seeds=[])


def test_a_typo_is_a_type_error() -> None:
    """Type checkers see the names of ``kemu.api`` and no ``__getattr__``, which would give every name the type Any."""
    tree = ast.parse(Path(kemu.__file__).read_text(encoding="utf-8"))
    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]

    assert ast.unparse(branch.test) == "TYPE_CHECKING"
    assert "__getattr__" in ast.unparse(branch.orelse[-2])
    assert "__getattr__" not in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    with pytest.raises(AttributeError, match="tpyo"):
        kemu.tpyo()  # type: ignore[attr-defined]


def test_helpers_of_actions_are_no_names_of_the_package() -> None:
    """Type checkers take the names of actions from modules that define, without an underscore, actions alone."""
    for path in sorted(Path(actions.__path__[0]).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        defined = {
            node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)
        } | set(re.findall(r"(?m)^([A-Za-z]\w*)(?:: [^=\n]+)? = ", text))
        if path.stem not in ("__init__", "classes"):
            assert "\n# mypy: no-implicit-reexport\n" in text, path.name
            assert f"actions.{path.stem} import *" in Path(str(classes.__file__)).read_text("utf-8"), path.name
            assert {name for name in defined if name[0] != "_"} <= set(kemu.api.__all__), path.name


NO_NAMES = ("tpyo", "field", "on_link", "percentage", "Stage", "SECOND", "Annotated", "ACTIONS", "Path", "hosts")
"""A typo, and names of helpers and modules behind the public names."""


def test_a_typo_and_the_name_of_a_helper_are_refused_by_a_type_checker(tmp_path: Path) -> None:
    """By mypy with its default options, which let the imports of a module pass as names of the module."""
    known = ("Crash", "AddMembers", "ScaleDown", "Scenario", "run", "kemu_test", "strategies")
    (tmp_path / "its.py").write_text("import kemu\n" + "".join(f"kemu.{name}\n" for name in (*NO_NAMES, *known)))

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--cache-dir", ".c", "its.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )

    refused = re.findall(r'its.py:(\d+): error: Module has no attribute "(\w+)"', checked.stdout)
    assert refused == [(str(line), name) for line, name in enumerate(NO_NAMES, start=2)], checked.stdout


def test_every_mistake_of_a_scenario_is_told_at_once_as_of_a_file() -> None:
    """Unknown topic, profile, host and duration, with the nearest name."""
    assert said(
        lambda: kemu.Scenario(
            name="wrong",
            topics=ORDERS,
            groups={"billing": kemu.GroupSpec(topics="order")},
            profile="kafka-3.5",
            plan=(
                kemu.At("30x", kemu.Crash(host="c9")),
                kemu.At(-5, kemu.Heal()),
                kemu.When(kemu.Sends(api="SyncGrup"), kemu.Pause(host="c1", for_us=0)),
            ),
        )
    ) == [
        'profile: "kafka-3.5" is no profile; did you mean "kafka-3.9"?',
        'groups.billing.topics: "order" is no topic; did you mean "orders"?',
        "plan[0].at: '30x' is no duration; write it like 250ms, 20s, 1m30s",
        'plan[0].host: "c9" is no host; known: b0, b1, b2, c1, c2, c3, p1, coordinator of billing, leader of billing',
        'plan[1].at: must be a duration such as "250ms" or "20s", not a number (-5)',
        'plan[2].when.sends: "SyncGrup" is no message; did you mean "SyncGroup"?',
        "plan[2].for: must be longer than nothing",
    ]


def test_every_mistake_of_a_part_is_told_when_it_is_made() -> None:
    """The keys are those of a file."""
    assert said(
        lambda: kemu.GroupSpec(
            topics=(), members=10**9, start_us="3q", assignors="rang", config={"sesion.timeout.ms": 3}
        )
    ) == [
        'topics: needs at least one topic, or a "pattern" for the names of topics',
        "members: must be at most 10000, not 1000000000",
        'assignors: "rang" is no assignor; did you mean "range"?',
        "start: '3q' is no duration; write it like 250ms, 20s, 1m30s",
        'config.sesion.timeout.ms: is no key of ConsumerConfig; did you mean "session.timeout.ms"?',
    ]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: kemu.BrokersSpec(count=1_001), "count: must be at most 1000, not 1001"),
        (lambda: kemu.TopicSpec(partitions=10**6), "partitions: must be at most 100000, not 1000000"),
        (lambda: kemu.TopicSpec(partitions=1, records_per_s="5/h"), "rate: '5/h' is no rate; write it like 100/s"),
        (lambda: kemu.NetworkSpec(latency_us=("5ms", "1ms")), "latency: must give the least first, then the most"),
        (lambda: kemu.ReplicationSpec(min_isr=4), "min_isr: must not exceed the replication factor (3)"),
        (lambda: kemu.run(crashed(), profile="kafka-3.5"), 'profile: "kafka-3.5" is no profile; did you mean'),
        (
            lambda: kemu.run(kemu.Scenario(name="x", topics=ORDERS, expect="comits")),
            'expect: "comits" is no checker; did you mean "commits"?',
        ),
        (lambda: kemu.run(crashed(), listeners={"c7": Slow()}), 'listeners.c7: "c7" is no member; known: c1, c2, c3'),
        (lambda: kemu.load("steady"), '"steady" is no preset; did you mean "steady-group"?'),
        (
            lambda: kemu.Scenario(name="x", topics=ORDERS, plan=(kemu.Heal(),)),  # type: ignore[arg-type]
            "plan[0]: must be At(...), When(...) or a table, not Heal",
        ),
        (
            lambda: kemu.Scenario(name="x", topics={"t": 3}),  # type: ignore[dict-item]
            "topics.t: must be a TopicSpec, not a number (3)",
        ),
    ],
)
def test_a_mistake_is_one_clear_message(made: object, message: str) -> None:
    """Never a KeyError, never a run without an end."""
    (line,) = said(made)

    assert line.startswith(message)


# --- the names -------------------------------------------------------------------------------------------------------


def test_every_public_name_is_there_and_no_other() -> None:
    """``dir`` lists them; a wrong name is an AttributeError as of any module."""
    assert {"Scenario", "Outcome", "run", "replay", "check", "At", "When", "Crash"} <= set(dir(kemu))
    with pytest.raises(AttributeError, match="no attribute 'Scenari0'"):
        kemu.Scenari0  # type: ignore[attr-defined]  # noqa: B018


# --- shrinking -------------------------------------------------------------------------------------------------------


def test_a_failure_is_made_small_and_written_down(tmp_path: Path) -> None:
    """As ``kemu shrink`` does it; what holds is nothing to shrink."""
    late = kemu.Scenario(
        name="late",
        duration_us="8s",
        topics=ORDERS,
        groups={"billing": kemu.GroupSpec(topics="orders", members=2)},
        checks=kemu.ChecksSpec(stable_within_us="1s"),
        plan=(kemu.At("6s", kemu.SetRateOf(topic="orders", records_per_s=1)), kemu.At("7s", kemu.Crash(host="c2"))),
    )

    shrunk = kemu.shrink(late, seed=3, runs=8)

    assert (shrunk.before.plan, shrunk.after.plan) == (2, 1)
    assert kemu.run(shrunk.scenario).verdict == "liveness"
    (tmp_path / "small.toml").write_text(kemu.toml_of(shrunk.scenario))
    assert kemu.load(tmp_path / "small.toml") == shrunk.scenario
    assert eval(kemu.python_of(shrunk.scenario), {"kemu": kemu}) == shrunk.scenario
    with pytest.raises(kemu.NothingToShrink):
        kemu.shrink(crashed(), seed=7)
    assert said(lambda: kemu.shrink(late, profile="kafka-9"))[0].startswith('profile: "kafka-9" is no profile')
