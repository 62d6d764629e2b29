"""``kemu bugs``: the list, one bug's story, and what is refused."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.tools import exits
from kemu.tools.cli import kemu


def call(*arguments: str) -> Result:
    return CliRunner().invoke(kemu, list(arguments))


def test_all_past_bugs_are_listed() -> None:
    """Text and JSON read the one table."""
    text = call("bugs").stdout
    rows = json.loads(call("bugs", "--format", "json").stdout)

    assert all(issue in text and bug.summary in text for issue, bug in PAST_BUGS.items())
    assert [row["issue"] for row in rows] == list(PAST_BUGS)
    assert all(isinstance(row["seed"], int) and row["kind"] for row in rows)


def test_a_bug_is_shown_with_its_story_and_that_todays_rule_holds(tmp_path: Path) -> None:
    """The past run until it was caught, the command that repeats it, and the same run with the rule of today."""
    trace = tmp_path / "bug.kemu"
    result = call("bugs", "shrink-idle", "--trace", str(trace))

    assert result.exit_code == 0
    assert "KAFKA-7152 (shrink-idle), fixed in Kafka 2.1.0" in result.stdout
    assert "isr (shrunk-in-sync): b0 removes b2 from the ISR of orders-0" in result.stdout
    assert "repeat with: kemu run KAFKA-7152 --seed 1\n" in result.stdout
    assert result.stdout.rstrip().endswith("kemu run KAFKA-7152 --seed 1 --set 'bugs=[]'")
    assert trace.stat().st_size


def test_the_commands_that_are_told_do_what_they_say() -> None:
    """``kemu run ISSUE`` is the scenario of the past bug, with the bug on unless it is taken out."""
    assert call("run", "KAFKA-7152", "--loop", "bare").exit_code == exits.CORRECTNESS
    assert call("run", "KAFKA-7152", "--loop", "bare", "--set", "bugs=[]").exit_code == 0


def test_a_seed_that_misses_a_bug_says_so() -> None:
    """KAFKA-1211 needs the follower's death at the right moment."""
    data = json.loads(call("bugs", "KAFKA-1211", "--format", "json").stdout)
    assert data["caught"] and data["today_run"]["verdict"] == "holds"

    missed = call("bugs", "KAFKA-1188", "--seed", "1")
    assert missed.exit_code == exits.NOT_FOUND_AGAIN
    assert "not caught by leadership as old-epoch-obeyed under seed 1" in missed.stdout


def test_the_scenario_of_a_bug_can_be_taken_away() -> None:
    """As TOML, for a file of one's own."""
    data = tomllib.loads(call("bugs", "kafka-7152", "--scenario").stdout)
    assert data["bugs"] == ["KAFKA-7152"] and data["plan"]


def test_the_page_on_past_bugs_has_all_of_them() -> None:
    """Issue, release, what went wrong, the checker and the kind; and seeds to find."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "past-bugs.md").read_text(encoding="utf-8")

    for issue, bug in PAST_BUGS.items():
        row = f"| {issue} | {bug.where.value} | {bug.fixed_in} | {bug.summary} | `{bug.caught_by}` ({bug.kind}) |"
        assert row in page
        assert page.partition("## Other orders")[0].count(f"| {issue} |") == 2


def test_seeds_to_find_are_counted() -> None:
    """In five stretches; the median of them."""
    rows = json.loads(call("bugs", "--find", "KAFKA-7152", "--seeds", "1:5", "--format", "json").stdout)

    assert rows == [{"issue": "KAFKA-7152", "plans": "own", "stretch": 1, "seeds": [1] * 5, "median": 1}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["KAFKA-7153"], '"KAFKA-7153" is no past bug; did you mean "KAFKA-7152"?'),
        (["shrink-idl"], 'did you mean "shrink-idle"?'),
        (["nothing-like-it-at-all"], "kemu bugs lists them"),
        (["--seed", "3"], "need the ID of a bug"),
        (["--find", "--seeds", "1:3"], "must be at least 5 seeds"),
        (["--find", "KAFKA-0", "--seeds", "1:5"], "is no past bug"),
        (["--find", "--seed", "3"], "--find accepts only"),
        (["KAFKA-7152", "--plans", "random"], "need --find"),
        (["KAFKA-7152", "--trace", "/nowhere/t.kemu"], "cannot be written"),
    ],
)
def test_mistakes_are_one_clear_error(arguments: list[str], said: str) -> None:
    """Exit code 2, no traceback."""
    result = call("bugs", *arguments)

    if result.exception is not None and not isinstance(result.exception, SystemExit):
        assert said in str(result.exception)  # main() prints it and exits with 2
    else:
        assert result.exit_code == exits.BAD_INPUT
        assert said in result.output
    assert "Traceback" not in result.output
