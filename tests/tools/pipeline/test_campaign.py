"""A campaign on Spark: complete, resumable, and the same as runs one by one."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from click.testing import CliRunner

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.tools.commands.campaign import campaign as campaign_command
from kemu.tools.determinism.watch import CANARY, canary
from kemu.tools.pipeline.campaign import (
    Campaign,
    Rate,
    RunLine,
    begin,
    differing,
    executors_see,
    load,
    resume,
    run_rest,
    sample_runs,
    table_of_cells,
)
from kemu.tools.pipeline.cells import Spec, make_cells
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.shipping import fingerprint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spec_of(scenario: Path) -> Spec:
    """One cell, eight seeds."""
    return Spec(make_cells([str(scenario)], ["kafka-3.4"], []), 1, 8, "failing", fingerprint())


def test_every_run_has_the_digest_of_kemu_run(small_campaign: Campaign) -> None:
    """The bare loop on executors, the Trio loop here."""
    lines = small_campaign.lines()

    assert [(line.cell, line.seed) for line in lines] == [(cell, seed) for cell in (0, 1) for seed in range(1, 7)]
    for line in lines:
        cell = small_campaign.spec.cells[line.cell]
        assert run(cell.build(), seed=line.seed, profile=cell.profile, loop="trio").digest == line.digest
    assert differing(lines, sample_runs(small_campaign.spec)) == []


def test_executors_find_that_a_run_which_must_fail_does(spark: "SparkSession") -> None:
    """A sweep in which nothing can fail has looked at nothing."""
    assert executors_see(spark.sparkContext, canary())
    assert not executors_see(spark.sparkContext, load_scenario(CANARY))


def test_a_campaign_that_lost_chunks_is_incomplete_until_it_is_resumed(
    spark: "SparkSession", small_campaign: Campaign, tmp_path: Path
) -> None:
    """Killed in the middle: nothing lost, nothing counted twice, what is there is not run again."""
    out = tmp_path / "copy"
    shutil.copytree(small_campaign.out, out)
    before = small_campaign.lines()
    half = load(out)
    kept = half.chunks[0]
    stamp = (out / "chunks" / kept.folder / "summary.json").stat().st_mtime_ns
    for chunk in half.chunks[1::2]:
        shutil.rmtree(out / "chunks" / chunk.folder)
    (out / "chunks" / ".000001.left-by-a-killed-executor").mkdir()
    with pytest.raises(CampaignError, match=r"\d+ of 12 runs are missing; continue with --resume"):
        half.lines()

    told: list[tuple[int, int]] = []
    run_rest(spark.sparkContext, resume(out, half.spec), lambda lines, done: told.append((len(lines), done)))

    again = load(out).lines()
    assert [(line.cell, line.seed, line.digest) for line in again] == [(x.cell, x.seed, x.digest) for x in before]
    assert (out / "chunks" / kept.folder / "summary.json").stat().st_mtime_ns == stamp
    assert sorted(os.listdir(out / "chunks")) == [chunk.folder for chunk in half.chunks]
    assert told[-1][1] == 12
    assert sum(fresh for fresh, _ in told) == sum(chunk.runs for chunk in half.chunks[1::2])


def test_the_first_failing_seed_does_not_depend_on_the_cut(spark: "SparkSession", mixed: Path, tmp_path: Path) -> None:
    """However it was partitioned."""
    spec = spec_of(mixed)
    tables = []
    for name, seconds in (("fine", 4.0), ("coarse", 0.5)):
        made = begin(tmp_path / name, spec, {0: seconds}, 1)
        run_rest(spark.sparkContext, made, lambda lines, done: None)
        tables.append(table_of_cells(spec.cells, made.lines()))
        tables[-1][0].pop("mean_wall_s")
    counts = [len(load(tmp_path / name).chunks) for name in ("fine", "coarse")]

    assert counts[0] > counts[1]
    assert tables[0] == tables[1]
    assert 0 < tables[0][0]["failed"] < 8
    assert tables[0][0]["first_failing_seed"] is not None


def test_a_folder_that_executors_cannot_write_is_told_in_one_line(
    spark: "SparkSession", mixed: Path, tmp_path: Path
) -> None:
    """An executor's exception reaches the user as the reason, not as Spark's forty lines."""
    made = begin(tmp_path / "c", spec_of(mixed), {0: 1.0}, 1)
    (tmp_path / "c" / "chunks").rmdir()
    (tmp_path / "c" / "chunks").write_text("in the way")

    with pytest.raises(CampaignError, match=r"^chunk \d+ cannot be written under .*: Not a directory"):
        run_rest(spark.sparkContext, made, lambda lines, done: None)


def test_another_campaign_is_not_resumed(small_campaign: Campaign, tmp_path: Path) -> None:
    """Clear errors: other seeds, another version, nothing there, something there."""
    spec = small_campaign.spec
    with pytest.raises(CampaignError, match="other --seeds"):
        resume(small_campaign.out, Spec(spec.cells, 1, 7, spec.keep_traces, spec.fingerprint))
    other = tuple(evolve(cell, actions=("crash host=c2 at=5s",)) for cell in spec.cells)
    with pytest.raises(CampaignError, match="other scenarios, profiles, --grid or --do"):
        resume(small_campaign.out, evolve(spec, cells=other))
    with pytest.raises(CampaignError, match="another version of kemu"):
        resume(small_campaign.out, Spec(spec.cells, 1, 6, spec.keep_traces, "0"))
    with pytest.raises(CampaignError, match="holds no campaign"):
        load(tmp_path)
    with pytest.raises(CampaignError, match="holds a campaign already"):
        begin(small_campaign.out, spec, {}, 1)


def test_progress_says_how_many_how_fast_and_how_long_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier attempt had done does not count as speed."""
    now = iter([0.0, 1.0, 10.0])
    monkeypatch.setattr("kemu.tools.pipeline.campaign.time.monotonic", lambda: next(now))
    rate = Rate(100)
    line = RunLine(cell=0, seed=1, verdict="violated", digest="", wall_s=0.1, steps=1, reason="")

    assert rate.text([], 40) == "40 of 100 runs, 0.0/s, 0 failed"
    assert rate.text([line], 60) == "60 of 100 runs, 2.0/s, 1 failed, 20 s left"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["steady-group", "--seeds", "5:1"], "must be A:B"),
        (["steady-group", "--seeds", "1:2", "--conf", "x=1"], "must be spark."),
    ],
)
def test_bad_input_is_told_before_anything_starts(tmp_path: Path, arguments: list[str], said: str) -> None:
    """Exit code 2, one message."""
    outcome = CliRunner().invoke(campaign_command, [*arguments, "--out", str(tmp_path / "o")])

    assert outcome.exit_code == 2
    assert said in outcome.output
