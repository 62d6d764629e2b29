"""The cost of runs is estimated before the start, and a command asks before it spends much."""

import re
import shlex
from pathlib import Path

import click
import msgpack
import pytest
from click.testing import CliRunner

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.presets import preset_names
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.blocks import blocks_of, first_block, write_block, write_magic
from kemu.tools import estimate
from kemu.tools.cli import kemu
from kemu.tools.errors import BadInput
from kemu.tools.estimate import MOST_BYTES, MOST_S_OF_A_RUN, ask_before, cost_of, span_text

LONG = ("steady-group", "--set", "members=10", "--set", "duration=168h")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("preset", "settings", "measured_s"),
    [
        ("steady-group", ("rate=100000/s", "duration=10s", "partitions=100"), 0.84),
        ("steady-group", ("duration=1h",), 30.7),
        ("steady-group", ("partitions=5000", "duration=5s"), 0.95),
        ("steady-group", ("members=1000", "partitions=1000", "duration=2s"), 10.6),
        ("steady-group", ("brokers.count=30", "partitions=300", "brokers.replication.factor=3", "duration=5s"), 4.4),
        ("steady-group", ("brokers.replication.factor=3", "duration=300s", "rate=1000/s"), 25.1),
        ("cooperative-rolling-restart", (), 0.71),
        ("streams-scale-out", (), 2.5),
        ("move-to-new-brokers", (), 1.6),
    ],
)
def test_the_estimate_is_near_the_measured_cpu_time(preset: str, settings: tuple[str, ...], measured_s: float) -> None:
    """Measured once, on a busy core; the estimate must have the right order."""
    estimated_s = cost_of(with_values(load_scenario(preset), settings)).cpu_s

    assert measured_s / 2 <= estimated_s <= 3 * measured_s


@pytest.mark.parametrize(("count", "measured_s"), [(100, 1.4), (300, 5.6), (1000, 32)])
def test_the_estimate_counts_groups(count: int, measured_s: float) -> None:
    """Groups of one member that read one topic, for a second of load."""
    assert measured_s / 2 <= cost_of(many_groups(count)).cpu_s <= 3 * measured_s


def test_a_run_of_minutes_is_asked_for() -> None:
    """3,000 groups take some minutes."""
    with pytest.raises(BadInput, match=r"^this takes about [2-4] min and 0\.\d GB; --yes runs it$"):
        ask_before([(many_groups(3_000), 1)], 1)


def many_groups(count: int) -> Scenario:
    """A scenario with this number of groups."""
    groups = {f"g{number}": {"members": 1, "topics": ["orders"]} for number in range(count)}
    return scenario_from_dict(
        {"name": "g", "duration": "1s", "topics": {"orders": {"partitions": 1}}, "groups": groups}
    )


def test_a_rolling_restart_of_a_large_group_costs_its_rebalances() -> None:
    """50 members with 500 partitions took 95 s."""
    large = with_values(load_scenario("steady-group"), ["members=50", "partitions=500"])
    restarted = with_actions(large, ["rolling-restart every=20s down=8s"])

    assert 45 <= cost_of(restarted).cpu_s <= 200


def test_no_preset_costs_so_much_that_kemu_asks() -> None:
    for name in preset_names():
        cost = cost_of(load_scenario(name))
        assert cost.cpu_s < MOST_S_OF_A_RUN / 2, name
        assert cost.memory_bytes < MOST_BYTES / 4, name


def test_no_command_of_the_pages_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of README and docs, up to the point where a command would ask."""
    asked: list[str] = []

    class Estimated(Exception):
        """The command does not ask."""

    def ask(*arguments: object, **options: object) -> None:
        ask_before(*arguments, **options)  # type: ignore[arg-type]
        raise Estimated

    for module in ("run", "compare", "swarm", "explore", "shrink", "coverage", "bugs"):
        monkeypatch.setattr(f"kemu.tools.commands.{module}.ask_before", ask)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^\$ kemu ((?:run|compare|swarm|explore|coverage|bugs) .*)$", text, re.MULTILINE):
            words = shlex.split(line.partition(" | ")[0], comments=True)
            outcome = CliRunner().invoke(kemu, words)
            asked += [line] if "--yes" in outcome.output else []

    assert asked == []


@pytest.mark.parametrize(
    "words",
    [
        ("run", *LONG),
        ("run", "steady-group", "--seeds", "1:100000"),
        ("compare", "steady-group", "--seeds", "1:100000"),
        ("scale", "streams-scale-out", "--add", "1", "--set", "duration=168h"),
        ("swarm", "--seeds", "1:100000"),
        ("explore", "steady-group", "--runs", "1000000"),
        ("shrink", "KAFKA-7152", "--runs", "1000000"),
        ("bugs", "--find", "--seeds", "1:100000"),
        ("advise", "steady-group", "--seeds", "1:100000"),
        ("history", *LONG),
        ("replay", "long.kemu", "--rerun"),
        ("reproduce", "long.log"),
        ("coverage", "steady-group", "--seeds", "1:900000"),
        ("campaign", "steady-group", "--seeds", "1:900000", "--out", "made"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_without_a_terminal_refuses_much_work(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = {"long.kemu": write_long_trace, "long.log": write_long_log}
    for name in words:
        if name in inputs:
            inputs[name](tmp_path / name)
    given = list(tmp_path.iterdir())

    outcome = CliRunner().invoke(kemu, list(words))

    assert outcome.exit_code == 2, outcome.output
    assert re.fullmatch(
        r"error: this takes (at most )?about [\d,]+ (min|h|days) and \d+\.\d GB; --yes runs it\n", outcome.stderr
    )
    assert list(tmp_path.iterdir()) == given


def write_long_trace(path: Path) -> None:
    """A trace from elsewhere: right checksums, and a header that names a run of days."""
    run(with_values(load_scenario("steady-group"), ["duration=1s", "members=10"]), seed=1, loop="bare", trace=path)
    header, *others = [payload for _, _, payload in blocks_of(path, first_block(path)) if isinstance(payload, bytes)]
    kind, fields = msgpack.unpackb(header)
    fields["scenario"]["duration"] = "168h"
    with path.open("wb") as sink:
        write_magic(sink)
        for payload in (msgpack.packb((kind, fields)), *others):
            write_block(sink, payload)


def write_long_log(path: Path) -> None:
    """A log of a broker, of twelve rebalances of a group in six days, each for a further member."""
    lines = [
        "[{} {}:00:00,100] INFO [GroupCoordinator 1]: Preparing to rebalance group g in state PreparingRebalance with "
        "old generation {} (__consumer_offsets-22) (reason: Adding new member c-{}-aaaa with group instance id None) "
        "(kafka.coordinator.group.GroupCoordinator)",
        "[{} {}:00:03,100] INFO [GroupCoordinator 1]: Stabilized group g generation {} (__consumer_offsets-22) with "
        "{} members (kafka.coordinator.group.GroupCoordinator)",
    ]
    times = [(f"2023-02-0{day}", hour) for day in range(1, 7) for hour in (10, 22)]
    text = [
        lines[at].format(day, hour, number + at - 1, number)
        for number, (day, hour) in enumerate(times, 1)
        for at in (0, 1)
    ]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


@pytest.mark.parametrize("command", ["run steady-group", "swarm", "explore steady-group", "bugs KAFKA-7152"])
def test_a_seed_is_at_most_what_a_trace_holds(command: str) -> None:
    """A larger one was an OverflowError in the middle of the run."""
    outcome = CliRunner().invoke(kemu, [*command.split(), "--seed", str(2**63)])

    assert outcome.exit_code == 2
    assert "is not in the range 0<=x<=9223372036854775807" in outcome.stderr


def test_a_terminal_is_asked_and_yes_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    questions: list[str] = []

    def confirm(question: str, err: bool) -> bool:
        questions.append(question)
        return len(questions) > 1

    monkeypatch.setattr("click.confirm", confirm)
    long = with_values(load_scenario("steady-group"), ["duration=168h", "members=10"])

    with pytest.raises(BadInput, match="not run"):
        ask_before([(long, 1)], 1)
    ask_before([(long, 1)], 1)
    with click.Context(kemu) as context:
        context.meta[estimate.YES] = True
        ask_before([(long, 1_000_000)], 1)

    assert len(questions) == 2
    assert re.fullmatch(r"This takes about \d+ min and \d\.\d GB\. Run it\?", questions[0])


@pytest.mark.parametrize(("seconds", "text"), [(1_800, "30 min"), (7_000, "117 min"), (7_200, "2 h"), (1e6, "12 days")])
def test_a_long_time_has_one_unit(seconds: float, text: str) -> None:
    assert span_text(seconds) == text
