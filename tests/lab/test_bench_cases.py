"""The cases of the bench: two commits are measured in turns, each with its own code."""

import subprocess
from pathlib import Path

import pytest

from lab.bench import cases

pytestmark = pytest.mark.usefixtures("few_objects")


def test_a_case_is_measured_with_the_code_of_both_commits_in_turns() -> None:
    said: list[str] = []
    found = cases.measure(said.append, against="HEAD", pairs=1, only=("start: kemu --help",))

    figures = found["start: kemu --help"]
    assert said == ["start: kemu --help", f"start: kemu --help: {figures}"]
    assert figures["cpu_s"] > 0
    assert {"cpu_s, old", "cpu_s, old / new", "memory_mb, old / new"} <= figures.keys()


def test_a_tree_without_its_own_kemu_has_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed kemu would take the place of an old commit's, if that has another layout."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportError, match="the figures would be those of another tree"):
        cases.main("loop: bare")


def test_ratios_are_medians_of_neighbouring_measurements() -> None:
    """A slow moment of the machine hits both measurements of a pair."""
    new = [{"cpu_s": cpu_s, "memory_mb": 10.0} for cpu_s in (1.0, 4.0, 1.0)]
    old = [{"cpu_s": cpu_s, "memory_mb": 20.0} for cpu_s in (2.0, 8.0, 3.0)]

    figures = cases.together({"new": new, "old": old})

    assert (figures["cpu_s"], figures["cpu_s, old"], figures["cpu_s, old / new"]) == (1.0, 3.0, 2.0)
    assert figures["memory_mb, old / new"] == 2.0


def test_a_case_whose_process_fails_leaves_the_figures_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(name: str, tree: Path, folder: Path) -> dict[str, float]:
        if name == "loop: trio" and tree != cases.ROOT:
            raise subprocess.CalledProcessError(-9, name)
        return {"cpu_s": 1.0, "memory_mb": 2.0}

    monkeypatch.setattr(cases, "_measured", measured)
    found = cases.measure(lambda text: None, against="HEAD", pairs=2, only=("loop",))

    assert found["loop: bare"]["cpu_s, old / new"] == 1
    assert found["loop: trio"]["cpu_s"] == 1
    assert "SIGKILL" in found["loop: trio"]["old failed"]


def test_large_cases_and_presets_run_only_by_name() -> None:
    assert "join: 5,000 x 50,000" not in cases.chosen(())
    assert cases.chosen(("5,000 x 50,000", "preset: steady-group")) == ["join: 5,000 x 50,000", "preset: steady-group"]
    assert set(cases.LARGE) <= set(cases.CASES)


def test_a_group_at_rest_and_a_preset_give_the_promised_figures() -> None:
    at_rest = cases._steady(2, 4, 10, rate=0, from_s=1, loop="trio")
    for figures in (at_rest, cases._preset("first-consumer-of-a-new-cluster")):
        assert figures["steps"] > 10
        assert {"cpu_s", "step_us", "virtual_s_per_cpu_s", "memory_mb"} <= figures.keys()


def test_worlds_that_take_turns_by_virtual_time_take_the_turns_that_each_takes_alone() -> None:
    alone, other, together = (cases._prepared(2, 4, 10, rate=0, seed=seed) for seed in (1, 2, 1))
    for one in (alone, other, together):
        one.begin()
    cases._in_turns([alone.world], 5 * cases.SECOND)

    cases._in_turns([other.world, together.world], 5 * cases.SECOND)

    assert together.world.steps > 50
    assert alone.writer.digest() == together.writer.digest() != other.writer.digest()
