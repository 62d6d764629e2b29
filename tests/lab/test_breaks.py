"""``python -m lab.breaks``: every break changes an existing line, and comparisons with real Kafkas notice a sample."""

import ast

import pytest
from click.testing import CliRunner

from lab.breaks import (
    COMPARISONS,
    Break,
    all_breaks,
    difference_of_assignors,
    difference_of_plans,
    difference_of_raw,
    in_forks,
    is_enough,
    main,
    results_of,
    summary,
)
from lab.operators import ROOT
from lab.patching import live_functions, replace

BREAKS = {one.name: one for one in all_breaks()}
SEEDS = 2


def test_each_break_changes_a_text_that_is_there_once():
    """A change of the line must change its break, too. The changed text must be valid Python."""
    assert len(BREAKS) == len(all_breaks()) >= 25
    for one in BREAKS.values():
        text = (ROOT / one.file).read_text(encoding="utf-8")
        assert text.count(one.old) == 1, f"{one.name}: {one.file}: {one.old!r}"
        ast.parse(text.replace(one.old, one.new))
        assert one.plans(first_only=True)[0].startswith(one.plan), one.name


def noticed(name: str, comparison: str) -> str:
    """The first difference of a comparison under a break, in a forked child."""
    one, functions = BREAKS[name], live_functions()
    calls = {
        "plans": lambda: difference_of_plans(one.plans(first_only=True), SEEDS, {}),
        "raw": lambda: difference_of_raw(one.protocol),
        "assignors": lambda: difference_of_assignors(one.protocol),
    }

    def work() -> str:
        replace(one.as_mutant(), functions)
        return calls[comparison]()

    return dict(in_forks({name: work}, jobs=1))[name]


@pytest.mark.parametrize(
    ("name", "comparison"),
    [
        ("range-gives-extras-to-the-last", "assignors"),
        ("next-leader-by-arrival", "raw"),
        ("no-commit-before-rebalance", "plans"),
        ("uniform-ties-to-the-last", "assignors"),
        ("epoch-not-raised-at-leave", "raw"),
        ("new-members-get-held-partitions", "plans"),
    ],
)
def test_a_sample_of_breaks_is_noticed(name, comparison):
    """Without the break, ``tests/lab/conformance`` finds no difference."""
    assert noticed(name, comparison)


def test_the_summary_names_breaks_that_no_real_kafka_shows():
    """Checkers alone are not enough: they have no real Kafka."""
    breaks = [Break(name, name, "", "", "", "a", by_plans=name == "first") for name in ("first", "second", "third")]
    found = [{"plans": "a: rebalance 1"}, {"checkers": "one-owner"}, {"raw": "sequence 1"}]

    assert summary(list(zip(breaks, found, strict=True))).endswith("Not noticed: second.")
    assert is_enough([(breaks[0], found[0]), (breaks[2], found[2])])
    assert not is_enough([(breaks[0], found[2]), (breaks[2], found[2])]), "plans must notice the first"
    assert not is_enough(list(zip(breaks, found, strict=True)))
    assert set(found[0]) | set(found[1]) | set(found[2]) <= set(COMPARISONS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--only", "wrong-leder"],
            '"wrong-leder" is no break of lab/breaks.toml; did you mean "wrong-leader"',
        ),
        (["--only", "wrong-leader", "--write-docs"], "leave --only out"),
    ],
)
def test_a_name_that_is_no_break_is_refused(arguments, said):
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    assert said in result.output


def test_a_break_that_no_kafka_shows_gets_more_seeds(monkeypatch, tmp_path):
    """The cell tells the number of seeds."""
    breaks = [Break(name, name, "", "", "", "a") for name in ("seldom", "often")]
    monkeypatch.setattr("lab.breaks.RUNS", tmp_path)
    monkeypatch.setattr("lab.breaks.plans.differences", lambda names, *, seeds: [])

    def once(one, functions, names, seeds, known):
        return {"raw": "sequence 1"} if one.name == "often" else {"plans": "a: rebalance 2"} if seeds == 40 else {}

    monkeypatch.setattr("lab.breaks.noticed", once)

    assert results_of(breaks, 10, 1, first_only=True) == [
        {"plans": "a: rebalance 2 with 40 seeds"},
        {"raw": "sequence 1"},
    ]


def test_a_table_of_no_breaks_runs_nothing(monkeypatch, tmp_path):
    """Results are kept by the hash of sources and recordings; folders beside the recordings do not matter."""
    monkeypatch.setattr("lab.breaks.RUNS", tmp_path)
    assert results_of([], 1, 1, first_only=True) == []
