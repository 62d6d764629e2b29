"""The command line: what it prints, what it refuses, and what its exit codes say."""

import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from kemu.emulator import runner
from kemu.emulator.checkers import CHECKERS
from kemu.emulator.findings import Violation, kinds_by_checker
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.runner import RunResult
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.presets import presets
from kemu.emulator.text.kafka_keys import SET_BY_SCENARIO, fields_of
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ControllerConfig, ReplicaConfig
from kemu.tools import exits
from kemu.tools.cli import COMMANDS, kemu, main
from kemu.tools.commands.describe import SCENARIO_KEYS
from tests.emulator.scenario.test_scenario import WHOLE

SHORT = ("--set", "duration=20s")
CRASH = """
name = "crash"
duration = "40s"
[topics.t]
partitions = 4
rate = "4/s"
[groups.g]
topics = ["t"]
members = 2
config.session.timeout.ms = 6000
config.heartbeat.interval.ms = 1000
[[plan]]
at = "10s"
do = "crash"
host = "c2"
for = "12s"
[[plan]]
when = { noted = "GroupBecame", group = "g", new = "Stable", nth = 99 }
do = "heal"
"""


def call(*arguments: str) -> Result:
    """Run a command in this process; errors of ours are raised, a ScenarioError stays one."""
    return CliRunner().invoke(kemu, list(arguments))


def run_json(*arguments: str) -> dict[str, Any]:
    """The JSON a run prints."""
    result = call("run", *arguments, "--format", "json")
    assert result.stdout, result
    data: dict[str, Any] = json.loads(result.stdout)
    return data


@pytest.fixture(name="crash")
def crash_file(tmp_path: Path) -> str:
    """A scenario with a crash in it, and with a fault that never fires."""
    path = tmp_path / "crash.toml"
    path.write_text(CRASH, encoding="utf-8")
    return str(path)


@pytest.fixture(name="verdict")
def fake_verdicts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes every run end with another verdict than it had."""
    real = runner.run

    def end_with(verdict: str, broke: str = "") -> None:
        def run(*arguments: Any, **options: Any) -> RunResult:
            found = (
                Violation(
                    "one-owner", 1_500_000, 7, ("t-0",), "t-0 has two owners", verdict == "liveness", "two-owners"
                ),
            )
            result = real(*arguments, **options)
            reason = broke.splitlines()[0] if broke else f"{found[0].checker}: {found[0].text}"
            return attrs.evolve(result, verdict=verdict, violations=() if broke else found, broke=broke, reason=reason)

        monkeypatch.setattr(runner, "run", run)

    return end_with


# --- kemu run ------------------------------------------------------------------------------------------------------


def test_a_run_in_json_has_every_key_programs_may_count_on(crash: str) -> None:
    """One flat object."""
    data = run_json(crash, "--seed", "5")

    assert {
        "scenario", "seed", "profile", "loop", "digest", "steps", "messages", "virtual_us", "wall_s", "verdict",
        "violations", "rebalances", "faults", "downtime_us", "reprocessed", "lost",
    } <= data.keys()  # fmt: skip
    assert (data["scenario"], data["seed"], data["loop"], data["verdict"]) == ("crash", 5, "trio", "holds")
    assert re.fullmatch(r"[0-9a-f]{32}", data["digest"])
    assert [fault["fired"] for fault in data["faults"]] == [1, 0]
    assert data["virtual_us"] >= 40_000_000
    assert {"group", "generation", "reason", "started_us", "ended_us", "members", "moved"} <= data["rebalances"][
        0
    ].keys()
    assert len(data["rebalances"]) == 3
    assert data["rebalances"][1]["moved"] == 2
    assert data["downtime_us"]["g/t-3"] > 6_000_000


def test_a_run_in_text_tells_what_happened_who_owned_what_and_what_it_cost(crash: str) -> None:
    """In the order it happened."""
    result = call("run", crash)

    assert result.exit_code == 0
    text = result.stdout
    happened = [
        text.index(words)
        for words in ("Verdict holds", "Cost ", "What happened", "fault 0: crash c2 (power) for 12s",
                      "c2 crashed (power lost)", "g rebalances: c2 expired", "c2 restarted",
                      "Who owned what in g", "What it cost", "Faults", "The run")
    ]  # fmt: skip
    assert happened == sorted(happened)
    (row,) = [line for line in text.splitlines() if line.startswith("t-3 ")]
    assert re.fullmatch(r"t-3 \.+2+\.+1+\.?2+", row)
    assert re.search(r"^  1  when GroupBecame\(.*: NEVER FIRED$", text, re.MULTILINE)
    assert "\x1b[" not in text, "colour is for terminals"


def test_what_may_be_lost_and_was_is_named_with_its_reason() -> None:
    """The fault table of loss reasons: an expected loss is no violation, and no secret."""
    arguments = ("unclean-election", "--loop", "bare")
    text = call("run", *arguments, "--seed", "3").stdout
    data = run_json(*arguments, "--seed", "3")
    table = call("run", *arguments, "--seeds", "3:4").stdout

    lost = sum(loss["records"] for loss in data["losses"])
    assert lost > 0 and data["verdict"] == "holds"
    assert text.index("Verdict") < text.index("Faults") < text.index("Expected losses") < text.index("The run")
    assert f"{lost:,} records by unclean-election: {data['losses'][0]['allowed']}" in text
    for loss in data["losses"]:
        assert loss["records"] == loss["last"] - loss["first"] + 1
        assert f"records of {loss['partition']}, offsets {loss['first']} to {loss['last']}" in text
    assert re.search(r"expected losses in 2 of 2 runs, in records: [\d,]+ unclean-election", table)


def test_a_run_that_lost_nothing_says_nothing_of_losses(crash: str) -> None:
    assert "losses" not in call("run", crash).stdout
    assert run_json(crash)["losses"] == []


def test_the_same_seed_gives_the_same_digest_on_both_loops(crash: str) -> None:
    """The digest is printed to be compared."""
    first, second = run_json(crash, "--seed", "9"), run_json(crash, "--seed", "9", "--loop", "bare")

    assert first["digest"] == second["digest"]
    assert run_json(crash, "--seed", "10")["digest"] != first["digest"]


def test_running_twice_compares_the_digests(crash: str) -> None:
    """A quick look whether all is deterministic here."""
    result = call("run", crash, "--twice", "--format", "json")

    assert result.exit_code == 0
    assert "the same digest twice for 1 seed(s)" in result.stderr


def test_a_run_that_differs_from_itself_is_nondeterminism(crash: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3, and the command that shows it."""
    real, calls = runner.run, []

    def moody(*arguments: Any, **options: Any) -> RunResult:
        calls.append(1)
        return attrs.evolve(real(*arguments, **options), digest=f"{len(calls):032}")

    monkeypatch.setattr(runner, "run", moody)
    result = call("run", crash, "--twice")

    assert result.exit_code == exits.NONDETERMINISM
    assert f"repeat with: kemu run {crash} --seed 1 --twice" in result.stderr


def test_settings_change_the_scenario_that_runs() -> None:
    """The keys of a scenario file, or short ones."""
    data = run_json("steady-group", *SHORT, "--set", "draws=calm", "--set", "members=2", "--set", "partitions=3")

    assert data["rebalances"][0]["members"] == 2
    assert sorted(data["downtime_us"]) == ["g/orders-0", "g/orders-1", "g/orders-2"]


def test_actions_are_added_to_the_plan_and_to_the_command_that_repeats_the_run(
    verdict: Callable[..., None],
) -> None:
    """The quickest way from a group to what a restart of it costs."""
    verdict("violated")
    actions = ("--do", "rolling-restart every=5s down=2s at=10s", "--do", "crash host=c1 for=1s")
    result = call("run", "steady-group", "--set", "duration=50s", "--loop", "bare", *actions)

    restart = (
        r"fault 0: rolling restart of g \(close\), one every 5s, each down for [\d.]+ s to [\d.]+ s \(planned: 2s\)"
    )
    assert re.search(restart, result.stdout), "the real times, not those of the plan"
    assert "fault 1: crash c1 (power) for 1s" in result.stdout
    assert "--do 'rolling-restart every=5s down=2s at=10s' --do 'crash host=c1 for=1s'" in result.stdout


def test_a_profile_changes_what_the_cluster_speaks() -> None:
    """And is named in the result."""
    data = run_json("steady-group", *SHORT, "--profile", "kafka-2.4")

    assert (data["profile"], data["verdict"]) == ("kafka-2.4", "holds")


def test_a_live_run_tells_what_happens_as_it_happens() -> None:
    """Under the wall clock; the story comes first, then the report without it."""
    quick = ("draws=calm", "duration=300ms", "group.initial.rebalance.delay.ms=0", "start_spread=0s", "members=1")
    result = call("run", "steady-group", "--live", *(word for each in quick for word in ("--set", each)))

    assert result.exit_code == 0
    assert result.stdout.startswith("00:00.000  b0 started\n")
    assert "g is Stable: generation 1, 1 member" in result.stdout
    assert "What happened" not in result.stdout
    assert "times as fast as real time" in result.stdout


def test_a_trace_is_written_and_the_report_says_how_to_read_it(crash: str, tmp_path: Path) -> None:
    """The trace is a file of its own."""
    trace = tmp_path / "run.kemu"
    result = call("run", crash, "--trace", str(trace))

    assert trace.stat().st_size > 1_000
    assert f"kemu explain {trace}" in result.stdout


def test_a_trace_never_overwrites_its_scenario(crash: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(crash).read_bytes()
    with pytest.raises(SystemExit) as ended:
        main(["run", crash, "--trace", crash])

    assert ended.value.code == 2
    assert "is the scenario itself" in capsys.readouterr().err
    assert Path(crash).read_bytes() == before


def test_many_seeds_give_a_table_and_a_trace_each(crash: str, tmp_path: Path) -> None:
    """Both ends of the range are run."""
    result = call("run", crash, "--seeds", "3:5", "--loop", "bare", "--trace", str(tmp_path / "t.kemu"))

    assert result.exit_code == 0
    assert re.findall(r"^ +(\d+)  holds", result.stdout, re.MULTILINE) == ["3", "4", "5"]
    assert "3 of 3 hold" in result.stdout
    assert "fault 1 never fired in any run" in result.stdout
    assert sorted(path.name for path in tmp_path.glob("*.kemu")) == ["t-3.kemu", "t-4.kemu", "t-5.kemu"]


def test_many_seeds_in_json_are_a_list_of_runs(crash: str) -> None:
    """Each as a single run would print it."""
    data = run_json(crash, "--seeds", "1:2", "--loop", "bare")

    assert [run["seed"] for run in data["runs"]] == [1, 2]
    assert data["runs"][0]["digest"] == run_json(crash, "--seed", "1")["digest"]


@pytest.mark.parametrize(("word", "code"), [("violated", 9), ("liveness", 8)])
def test_a_violation_ends_with_its_exit_code_and_the_command_that_repeats_it(
    crash: str, verdict: Callable[..., None], word: str, code: int
) -> None:
    """Safety and liveness are told apart."""
    verdict(word)
    result = call("run", crash, "--seed", "4", "--set", "members=3", "--loop", "bare", "--profile", "kafka-2.4")

    assert result.exit_code == code
    assert "00:01.500  step 7: one-owner (two-owners): t-0 has two owners" in result.stdout
    assert f"Verdict {word}: one-owner (two-owners) at 00:01.500, step 7" in result.stdout
    last = result.stdout.strip().splitlines()[-1].strip()
    assert last == f"repeat with: kemu run {crash} --seed 4 --profile kafka-2.4 --set members=3 --loop bare"


def test_a_machine_that_breaks_is_told_with_what_broke(crash: str, verdict: Callable[..., None]) -> None:
    """Exit code 7: the program is wrong, not Kafka."""
    verdict("broken", "b0/coordinator at step 12: AssertionError: Empty -> Stable")
    result = call("run", crash)

    assert result.exit_code == exits.BROKEN
    assert "AssertionError: Empty -> Stable" in result.stdout
    assert "repeat with: kemu run" in result.stdout


def test_failing_seeds_are_listed_with_their_commands(crash: str, verdict: Callable[..., None]) -> None:
    """The exit code is that of the worst."""
    verdict("violated")
    result = call("run", crash, "--seeds", "1:2")

    assert result.exit_code == exits.CORRECTNESS
    assert "0 of 2 hold" in result.stdout
    assert "seed 2 violated: one-owner: t-0 has two owners" in result.stdout
    assert f"  kemu run {crash} --seed 2" in result.stdout.splitlines()


def test_what_is_not_well_in_time_is_a_liveness_failure() -> None:
    """A bound nobody can keep: the initial rebalance delay alone is three seconds."""
    late = ("--set", "duration=1ms", "--set", "start_spread=0s", "--set", "checks.stable_within=2s")
    result = call("run", "steady-group", *late)

    assert result.exit_code == exits.LIVENESS
    assert "liveness" in result.stdout


def test_the_worst_verdict_decides() -> None:
    """A broken program hides everything, a wrong result hides a late one."""
    assert exits.worst(["holds", "holds"]) == 0
    assert exits.worst(["holds", "liveness"]) == 8
    assert exits.worst(["liveness", "violated"]) == 9
    assert exits.worst(["liveness", "violated", "broken"]) == 7


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "steady-groop"], 'did you mean "steady-group"'),
        (["run", "nowhere.toml"], "cannot be read: No such file"),
        (["run", "steady-group", "--set", "sesion.timeout.ms=1"], 'did you mean "session.timeout.ms"'),
        (["run", "steady-group", "--do", "crsh host=c1"], 'plan[0].do: "crsh" is no action; did you mean "crash"?'),
        (["run", "steady-group", "--do", "crash host=c1 for"], '"for" must be KEY=VALUE'),
        (["run", "steady-group", "--do", "crash host='c1"], "No closing quotation"),
        (["run", "steady-group", "--do", "at=9s do=crash"], "must begin with an action, such as"),
        (["run", "steady-group", "--do", ""], 'plan[0].do: "" is no action'),
        (["run", "steady-group", "--profile", "kafka-34"], '"kafka-34" is no profile; did you mean "kafka-3.4"'),
        (["run", "steady-group", "--seeds", "5:1"], "must be A:B"),
        (["run", "steady-group", "--seeds", "1:x"], "must be A:B"),
        (["run", "steady-group", "--seed", "1", "--seeds", "1:2"], "give one"),
        (["run", "steady-group", "--seed", "-1"], "-1 is not in the range"),
        (["run", "steady-group", "--live", "--loop", "bare"], "--live needs"),
        (["run", "steady-group", "--trace", "/nowhere/at/all.kemu"], "cannot be written"),
        (["run", "steady-group", "--trace", "/dev/full"], "/dev/full: cannot be written: No space left on device"),
        (["compare", "steady-group", "--assignors", "rang"], '--assignors: groups.g.assignors: "rang" is no assignor'),
        (["rum"], 'did you mean "run"'),
        (["describe", "sesion.timeout"], "session.timeout.ms"),
        (["run"], "Missing argument"),
    ],
)
def test_bad_input_is_one_clear_message_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a traceback."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    said = capsys.readouterr().err
    assert ended.value.code == exits.BAD_INPUT
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize("setting", ["x=" + "[" * 20_000, "a." * 50_000 + "a=1"], ids=["value", "key"])
def test_a_long_setting_costs_little_and_an_error_repeats_only_its_begin(
    setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key of 100,000 characters once took minutes: a pattern looked for a class from each character."""
    began_s = time.process_time()
    with pytest.raises(SystemExit):
        main(["run", "steady-group", "--set", setting])

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f'error: --set "{setting[:100]}')
    assert line.endswith(" ...")
    assert len(line) < 2_100
    assert time.process_time() - began_s < 5


def test_every_mistake_of_a_file_is_a_line_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File and line first, as compilers do."""
    path = tmp_path / "wrong.toml"
    path.write_text(CRASH.replace("members = 2", "membrs = 2").replace('"c2"', '"c7"'), encoding="utf-8")

    with pytest.raises(SystemExit):
        main(["run", str(path)])

    first, second = capsys.readouterr().err.splitlines()
    assert first == f'error: {path}:9: groups.g.membrs: is no key here; did you mean "members"?'
    assert second.startswith(f'error: {path}:15: plan[0].host: "c7" is no host')


def test_a_scenario_error_lists_its_problems_for_programs() -> None:
    """Tools need not parse the text."""
    with pytest.raises(ScenarioError) as caught:
        with_values(load_scenario("steady-group"), ["members=x", "rate=y"])

    assert [problem.key for problem in caught.value.problems] == ["topics.orders.rate", "groups.g.members"]


# --- scenarios and describe ----------------------------------------------------------------------------------------


def test_scenarios_are_listed_with_their_summaries() -> None:
    """As text, and as JSON for programs."""
    listed = json.loads(call("scenarios", "--format", "json").stdout)

    assert listed == [{"name": preset.name, "summary": preset.summary} for preset in presets()]
    text = call("scenarios").stdout
    assert all(preset.name in text and preset.summary in text for preset in presets())


def test_describe_lists_every_key_with_default_and_source() -> None:
    """Generated from the declarations, so that it cannot lag behind."""
    text = call("describe").stdout

    assert re.search(r"session\.timeout\.ms +45000 +KIP-735", text)
    assert re.search(r"group\.initial\.rebalance\.delay\.ms +3000 +KIP-134", text)
    for name in (*ACTIONS, *CHECKERS, "kafka-3.4"):
        assert name in text
    for cls in (ConsumerConfig, BrokerConfig, ReplicaConfig, ControllerConfig):
        assert all(key in text for key in fields_of(cls) if key not in SET_BY_SCENARIO)


def test_describe_knows_names_that_only_a_page_uses() -> None:
    """KIP-429's metric, and the names of limits in KIP-435's text."""
    assert "members of V0" in call("describe", "num.incompatible.rebalance").stdout
    interval = call("describe", "consumer.assignment.interval.ms").stdout
    assert "overrides  group.consumer.assignment.interval.ms of [brokers.config]" in interval
    assert "default    1000" in interval and "KIP-1263, Kafka 4.3" in interval
    text = call("describe", "reassignment.parallel.partition.count").stdout
    assert "default 2147483647" in text


def test_describe_explains_a_kind_of_violation_by_its_checker() -> None:
    """The report of a run names the kind in brackets, such as "consumer-protocol (held-twice)"."""
    text = call("describe", "held-twice").stdout
    assert text.startswith("held-twice is a kind of violation of the checker consumer-protocol\n")
    assert "- held-twice: the coordinator lets one member at a time hold a partition" in text
    assert "did you mean held-twice" in call("describe", "held-twic").output
    assert "as in Kafka:" not in text
    why = " ".join(call("describe", "forgotten-group").stdout.split())
    assert "as in Kafka: the group's log lost the records of the group," in why


def test_every_key_of_a_scenario_file_is_described_and_no_other() -> None:
    """Held against a file that has each key once, and a group that needs the consumer protocol."""
    consumers = '[groups.j]\nsubscription_pattern = "ord.*"\n'
    written = set()
    for key, given in tomllib.loads(WHOLE + consumers).items():
        if key in ("groups", "topics"):
            for table in given.values():
                streams = table.pop("streams", {})
                written |= {f"{key}.NAME.{inner}" for inner in table}
                written |= {f"{key}.NAME.streams.{inner}" for inner in streams}
        elif isinstance(given, dict):
            for below in ("replication", "away"):
                written |= {f"{key}.{below}.{inner}" for inner in given.pop(below, {})}
            written |= {f"{key}.{inner}" for inner in given}
        else:
            written.add(key)

    assert written == set(SCENARIO_KEYS)
    assert "default 3" in call("describe", "members").stdout


def test_the_list_of_checkers_says_what_each_checker_holds() -> None:
    lines = call("describe", "checkers").stdout.splitlines()[1:]

    assert [line.split()[0] for line in lines if line] == list(CHECKERS)
    assert [line for line in lines if "See the" in line] == []


@pytest.mark.parametrize("kind", ACTIONS)
def test_every_action_is_described_with_its_fields(kind: str) -> None:
    """With the lines one writes in a scenario file."""
    text = call("describe", kind).stdout

    assert f'do = "{kind}"' in text
    assert ACTIONS[kind].summary in text


def test_an_action_says_where_it_can_be_done() -> None:
    """With replication, without it, or both; and what to write instead."""
    assert "only with [brokers.replication]" in call("describe", "freeze-session").stdout
    assert 'only without [brokers.replication]; with it write "elect-' in call("describe", "move-coordinator").stdout
    assert "[brokers.replication]" not in call("describe", "crash").stdout
    assert "part = ...   # broker or controller; default broker" in call("describe", "lose-store-answer").stdout


@pytest.mark.parametrize(
    ("preset", "action", "said"),
    [
        ("steady-group", "freeze-session host=b0", "needs brokers that replicate: add [brokers.replication]"),
        ("replicated-steady", "move-coordinator", 'does not go with [brokers.replication]; write "elect-preferred-'),
        ("replicated-steady", "delete-topic topic=orders", '"orders" has groups that subscribe to it'),
    ],
)
def test_an_action_that_cannot_be_done_there_is_refused_before_the_run(
    preset: str, action: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--do``: exit code 2 and what to do about it."""
    with pytest.raises(SystemExit) as ended:
        main(["run", preset, "--do", action])

    assert ended.value.code == exits.BAD_INPUT
    assert said in capsys.readouterr().err


def test_operators_and_store_faults_can_be_written_in_one_line_each() -> None:
    """``--do``; what took effect is counted."""
    actions = ("create-topic topic=new partitions=2 rate=5/s at=5s", "expire-session host=b1 linger=2s at=8s",
               "elect-preferred-leaders topics=orders,new at=15s")  # fmt: skip
    words = [word for action in actions for word in ("--do", action)]

    result = json.loads(call("run", "replicated-steady", *SHORT, *words, "--format", "json").stdout)

    assert [fault["fired"] for fault in result["faults"]] == [1, 1, 1]


def test_a_key_is_described_with_where_it_is_written() -> None:
    """And with Kafka's own default, where ours differs."""
    text = call("describe", "auto.offset.reset").stdout

    assert "[groups.NAME.config]" in text
    assert "default earliest (Kafka: latest)" in text
    assert "the group's name is its id" in call("describe", "group.id").stdout
    assert "[brokers.replication.config]" in call("describe", "replica.fetch.max.bytes").stdout
    assert "write min_isr in [brokers.replication]" in call("describe", "min.insync.replicas").stdout


def test_a_past_bug_is_described_with_its_story_and_what_it_breaks() -> None:
    """All that ``bugs`` takes can be looked up."""
    for issue, bug in PAST_BUGS.items():
        text = call("describe", issue).stdout
        assert bug.summary in text
        assert f'bugs = ["{issue}"]' in text


@pytest.mark.parametrize("topic", ["faults", "errors", "exits", "checkers", "profiles", "bugs", *CHECKERS])
def test_topics_can_be_described_alone(topic: str) -> None:
    """Each has something to say."""
    result = call("describe", topic)

    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) > 1
    assert all(kind in result.stdout for kind in kinds_by_checker().get(topic, ()))


# --- the command itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_exists_and_explains_itself(name: str) -> None:
    """The table names modules; each must be there."""
    result = call(name, "--help")

    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: kemu {name}")


def test_the_command_runs_as_a_module_and_imports_little_for_its_help() -> None:
    """``python -m kemu``; neither Trio nor Spark is loaded for a help text."""
    heavy = "{'trio', 'pyspark', 'rich', 'kemu.emulator.engine.world', 'kemu.protocol.messages'}"
    script = (
        "import sys; sys.argv=['kemu','--help']; import kemu.tools.cli as c\ntry: c.main()\nexcept SystemExit: pass\n"
    )
    script += f"loaded = {heavy} & set(sys.modules)\nassert not loaded, loaded"
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert outcome.returncode == 0, outcome.stderr
    module = subprocess.run([sys.executable, "-m", "kemu", "--version"], capture_output=True, text=True, check=False)
    assert module.stdout.startswith("kemu ")


def test_a_reader_that_stops_reading_is_no_error() -> None:
    """``kemu describe | head -1``."""
    command = f"'{sys.executable}' -m kemu describe | head -1"
    outcome = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert outcome.stdout == "scenario\n"
    assert outcome.stderr == ""


def test_the_schema_of_scenario_files_is_printed_or_written(tmp_path: Path) -> None:
    """``kemu schema``: for editors; a folder that is not there is one message."""
    out = tmp_path / "scenario.schema.json"

    assert call("schema", "--out", str(out)).exit_code == 0
    assert json.loads(out.read_text(encoding="utf-8")) == json.loads(call("schema").stdout)
    refused = call("schema", "--out", str(tmp_path / "nowhere" / "x.json"))
    assert refused.exit_code == 2
    assert "there is no folder" in refused.output


def test_more_seeds_than_anybody_can_wait_for_are_refused() -> None:
    """Instead of a run without an end."""
    refused = call("run", "steady-group", "--seeds", "1:1000000000000")

    assert refused.exit_code == 2
    assert "is too large: at most 1000000 seeds" in refused.output
