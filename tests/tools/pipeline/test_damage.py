"""Folders of campaigns come from others and from other days: what is wrong is one message, and no code runs."""

import copy
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgpack
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.presets import preset_names
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.text import custom_assignors
from kemu.emulator.text.allowed_code import Code, code_allowed
from kemu.emulator.text.custom_assignors import load_assignor
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.blocks import blocks_of, first_block, write_block, write_magic
from kemu.protocol.assign.checked import NotAnAssignor
from kemu.tools.commands.campaign import campaign as campaign_command
from kemu.tools.commands.campaign import kept
from kemu.tools.commands.pipeline_errors import interruptible
from kemu.tools.determinism.watch import canary
from kemu.tools.interrupt import signals_interrupt
from kemu.tools.pipeline.campaign import Campaign, begin, load, resume
from kemu.tools.pipeline.cells import Spec, make_cells
from kemu.tools.pipeline.decode import Decoder, Span
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.files import read_file
from kemu.tools.pipeline.ingest import OF_CAMPAIGN_TRACES, IngestJob, convert
from kemu.tools.pipeline.lock import locked
from kemu.tools.pipeline.parts import Parts, read_parts
from kemu.tools.pipeline.session import _Interrupts
from kemu.tools.pipeline.shipping import fingerprint
from kemu.tools.pipeline.source import run_prefix
from kemu.tools.pipeline.tables.schemas import RUNS
from kemu.tools.pipeline.worker import ChunkFailed, run_chunk
from tests.tools.pipeline.conftest import write_small

MUTATIONS = 400


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """One cell, four seeds in four chunks, all finished; made without Spark."""
    root = tmp_path_factory.mktemp("finished")
    cells = make_cells([str(write_small(root, duration="14s"))], ["kafka-3.4"], [])
    made = begin(root / "out", Spec(cells, 1, 4, "all", fingerprint()), {0: 4.0}, 1)
    for chunk in made.chunks:
        run_chunk(str(made.out), made.id, chunk, cells[0], "all", fingerprint())
    return made


@pytest.fixture
def restored(finished: Campaign) -> Iterator[Campaign]:
    """The same, with its files as they were after the test."""
    kept = {path: path.read_bytes() for path in finished.out.rglob("*") if path.is_file()}
    yield finished
    for path, content in kept.items():
        path.write_bytes(content)


ODD: tuple[Any, ...] = (None, True, -1, 10**400, 1.5, "", "../../x", "a\0b", "²", [], {}, [[]], {"x": 1})


def mutated(data: Any, chance: random.Random) -> Any:
    """Data of JSON in which one value is another, or absent, or twice there."""
    data = copy.deepcopy(data)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            places.append((value, key))
            walk(value[key])

    walk(data)
    holder, key = chance.choice(places)
    how = chance.randrange(4)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[key] = copy.deepcopy(chance.choice(ODD))
    return data


def bytes_of(content: bytes, chance: random.Random) -> bytes:
    """A file that is cut, or in which a byte or a value is another."""
    how = chance.randrange(3)
    at = chance.randrange(len(content))
    if how == 0:
        return content[:at]
    if how == 1:
        return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
    return json.dumps(mutated(json.loads(content), chance)).encode()


def test_a_damaged_campaign_is_one_message_with_file_and_place(restored: Campaign) -> None:
    """Cut, changed bytes, values of other types, absent and repeated ones; a file that still makes sense is read."""
    chance = random.Random(35)
    messages = set()
    for path in (restored.out / "campaign.json", restored.out / "chunks" / "000001" / "summary.json"):
        content = path.read_bytes()
        for _ in range(MUTATIONS):
            path.write_bytes(bytes_of(content, chance))
            try:
                found = load(restored.out)
                found.lines()
                resume(restored.out, restored.spec)
                assert run_prefix(restored.out / "chunks" / "000000" / "traces.kemu") == f"{found.id}/0"
            except CampaignError as error:
                assert "\n" not in str(error)
                messages.add(str(error))
                assert run_prefix(path.parent / "traces.kemu") in ("", f"{restored.id}/0")
        path.write_bytes(content)
    assert sum("campaign.json is damaged: " in message for message in messages) > 30
    assert sum("summary.json is damaged: " in message for message in messages) > 20


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"chunk": 1, "runs": [' + b"9" * 5_000 + b"]}", "digits"),
        (b"\xff\xfe", "decode"),
        (b'{"chunk": 1, "runs": []}', "must have the 1 runs of chunk 1"),
        (b'{"chunk": 1, "runs": 5}', "runs must be a list"),
        (b'{"chunk": 1, "runs": [{"seed": "2"}]}', r"runs\[0\]\.\w+ must be there"),
        (b'{"chunk": 1, "runs": [], "more": 1}', "more must be absent"),
    ],
)
def test_a_damaged_summary_names_the_place(restored: Campaign, content: bytes, said: str) -> None:
    """``--resume`` and the report read it."""
    (restored.out / "chunks" / "000001" / "summary.json").write_bytes(content)

    with pytest.raises(CampaignError, match=rf"000001/summary\.json is damaged: .*{said}"):
        load(restored.out).lines()


def test_cells_without_equal_axes_are_damage(restored: Campaign) -> None:
    """``kemu report`` derives the command of the campaign from the settings of all cells."""
    path = restored.out / "campaign.json"
    content = json.loads(path.read_text())
    (cell,) = content["spec"]["cells"]
    for cells in ([], [cell, {**cell, "settings": ["members=2"]}]):
        path.write_text(json.dumps({**content, "spec": {**content["spec"], "cells": cells}}))

        with pytest.raises(CampaignError, match=r"spec\.cells must be one or more, with equally many settings"):
            load(restored.out)


def test_names_that_are_no_chunks_are_none(finished: Campaign) -> None:
    """Python calls "²" and "१" digits."""
    for name in ("²", "१", "1", "999999", "000001.old"):
        folder = finished.out / "chunks" / name
        folder.mkdir()
        (folder / "summary.json").write_text("{}")

    assert load(finished.out).done() == {0, 1, 2, 3}
    assert len(load(finished.out).lines()) == 4


def test_a_damaged_table_of_a_chunk_is_named(restored: Campaign, tmp_path: Path) -> None:
    """The executor's message is the user's."""
    chunk = restored.out / "chunks" / "000002"
    (chunk / "runs.parquet").write_bytes((chunk / "runs.parquet").read_bytes()[:300])

    with pytest.raises(ChunkFailed, match=r"000002/runs\.parquet is damaged: "):
        convert(IngestJob(str(tmp_path), restored.id, 0, (str(chunk),), (), OF_CAMPAIGN_TRACES))
    assert list(tmp_path.rglob("*.parquet")) == []


def test_damaged_parts_are_one_message(tmp_path: Path) -> None:
    """Their names become parts of paths."""
    Parts(tmp_path, {"runs": RUNS}, {}).adding("0000", {"c/0": [], "/a.kemu": [1, 2]})
    content = (tmp_path / "parts.json").read_bytes()
    assert read_parts(tmp_path) is not None
    chance = random.Random(1)
    refused = 0
    for _ in range(MUTATIONS):
        (tmp_path / "parts.json").write_bytes(bytes_of(content, chance))
        try:
            found = read_parts(tmp_path)
        except CampaignError as error:
            refused += 1
            assert str(error).startswith(f"{tmp_path / 'parts.json'} is damaged: ")
        else:
            assert found is not None and all("/" not in name and ".." not in name for name in found.parts)
    assert refused > MUTATIONS // 4


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """A sparse file costs its maker nothing."""
    path = tmp_path / "parts.json"
    with path.open("wb") as file:
        file.truncate(3 << 30)

    with pytest.raises(CampaignError, match="bytes, more than"):
        read_file(path, Campaign)


# --- two writers ---------------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    """And the lock of a killed process is free."""
    code = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from kemu.tools.pipeline.lock import locked
        with locked(Path(sys.argv[1]), "kemu campaign"):
            print("locked", flush=True)
            time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"

        with (
            pytest.raises(CampaignError, match=rf"is being written by kemu campaign \(process {first.pid} on "),
            locked(tmp_path, "kemu campaign"),
        ):
            pytest.fail("two processes hold the lock")
        first.kill()
    with locked(tmp_path, "kemu campaign"):
        pass


def test_the_second_resume_is_refused_before_spark_starts(finished: Campaign) -> None:
    """Exit code 2, one line."""
    cell = finished.spec.cells[0]
    arguments = [cell.source, "--profiles", cell.profile, "--seeds", "1:4", "--keep-traces", "all", "--resume"]

    with locked(finished.out, "kemu campaign"):
        outcome = CliRunner().invoke(campaign_command, [*arguments, "--out", str(finished.out)])

    assert outcome.exit_code == 2
    assert f"is being written by kemu campaign (process {os.getpid()} on " in outcome.output


# --- code of the user ----------------------------------------------------------------------------------------------

CUSTOM = """
import pathlib
pathlib.Path("loaded").touch()
class Mine:
    name = "mine"
    def assign(self, members, topics):
        return {}
"""


@pytest.fixture
def custom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A scenario that names a class of a module in the current folder; the module leaves a file when it is loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_of_data.py").write_text(CUSTOM, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "mine_of_data", raising=False)
    with code_allowed(Code.NONE):
        (cell,) = make_cells([str(write_small(tmp_path, duration="14s"))], ["kafka-3.4"], [])
    scenario = copy.deepcopy(cell.scenario)
    scenario["groups"]["g"]["assignors"] = ["mine_of_data:Mine"]
    return scenario


def test_an_analysis_loads_no_code_that_a_trace_names(custom: dict[str, Any], tmp_path: Path) -> None:
    """The trace's scenario is read, its figures are counted, and the module stays closed."""
    trace = tmp_path / "x.kemu"
    plain = copy.deepcopy(custom)
    plain["groups"]["g"]["assignors"] = ["range"]
    run(scenario_from_dict(plain), seed=1, loop="bare", trace=trace)
    with code_allowed(Code.NONE):
        renamed = scenario_from_dict(custom).to_dict()
    rewrite_scenario(trace, renamed)
    rows: dict[str, list[tuple[Any, ...]]] = {}

    decoder = Decoder(lambda table, row: rows.setdefault(table, []).append(row), frozenset({"runs", "rebalances"}))
    for _ in decoder.decode(Span(str(trace), 0, 1 << 62)):
        pass

    assert "bad_records" not in rows
    assert "mine_of_data:Mine" in str(rows["runs"][0])
    assert rows["rebalances"]
    assert not (tmp_path / "loaded").exists()


def rewrite_scenario(trace: Path, scenario: dict[str, Any]) -> None:
    """Put another scenario into the header of a trace, with right checksums, as a stranger could."""
    start = first_block(trace)
    payloads = [payload for _, _, payload in blocks_of(trace, start)]
    assert isinstance(payloads[0], bytes)
    kind, fields = msgpack.unpackb(payloads[0], strict_map_key=False)
    payloads[0] = msgpack.packb([kind, {**fields, "scenario": scenario}])
    with trace.open("wb") as file:
        write_magic(file)
        for payload in payloads:
            assert isinstance(payload, bytes)
            write_block(file, payload)


def test_workers_load_only_assignors_of_installed_packages(
    custom: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign names the group of entry points; an assignor that a package declares is loaded."""
    with code_allowed(Code.INSTALLED), pytest.raises(ScenarioError, match=r'group "kemu\.assignors"'):
        scenario_from_dict(custom)
    assert not (tmp_path / "loaded").exists()

    monkeypatch.setattr(custom_assignors, "_installed", lambda: {"mine_of_data:Mine"})
    with code_allowed(Code.INSTALLED):
        assert load_assignor("mine_of_data:Mine") is not None
    assert (tmp_path / "loaded").exists()
    with code_allowed(Code.NONE), pytest.raises(NotAnAssignor):
        load_assignor("mine_of_data:Mine")


def test_kemus_own_presets_run_in_campaigns() -> None:
    """One of them is the canary, which every campaign runs."""
    with code_allowed(Code.INSTALLED):
        loaded = [load_scenario(name).name for name in preset_names()]
        assert loaded == list(preset_names())
        assert canary().expect == (), "a campaign counts every violation of the canary"


def test_a_campaign_refuses_code_that_is_not_installed(custom: dict[str, Any], tmp_path: Path) -> None:
    """Before anything starts: exit code 2."""
    path = tmp_path / "own.toml"
    text = (tmp_path / "small.toml").read_text(encoding="utf-8")
    path.write_text(text.replace("members = 3", 'members = 3\nassignors = ["mine_of_data:Mine"]'), encoding="utf-8")

    outcome = CliRunner().invoke(campaign_command, [str(path), "--seeds", "1:2", "--out", str(tmp_path / "out")])

    assert isinstance(outcome.exception, ScenarioError)
    assert 'entry point of the group "kemu.assignors"' in str(outcome.exception)
    assert not (tmp_path / "loaded").exists()
    assert not (tmp_path / "out").exists()


# --- interrupts (with Spark: test_soak) ----------------------------------------------------------------------------


@pytest.mark.usefixtures("in_a_terminal")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_names_what_is_kept_and_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    code: int,
) -> None:
    """One line, and the exit code of the signal."""
    monkeypatch.setattr("kemu.tools.interrupt._last_signal", signal.SIGINT)
    with pytest.raises(SystemExit) as ended, signals_interrupt(), interruptible(lambda: "3 runs are kept"):
        os.kill(os.getpid(), number)
        pytest.fail("the block did not end")

    assert ended.value.code == code
    assert capsys.readouterr().err == "interrupted: 3 runs are kept\n"


def test_finished_chunks_and_the_command_are_named(finished: Campaign, tmp_path: Path) -> None:
    """With --resume if there is a campaign, and once."""
    with click.Context(campaign_command, info_name="campaign"):
        assert kept(finished.out) == "4 of 4 runs are finished and kept; continue with: kemu campaign --resume"
        assert kept(tmp_path) == "no run is finished; repeat with: kemu campaign"


@pytest.mark.usefixtures("in_a_terminal")
def test_an_interrupt_while_spark_starts_waits_for_java() -> None:
    """Java could not be stopped earlier, and would stay."""
    with pytest.raises(KeyboardInterrupt), _Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.received
        interrupts.raise_from_now()
        pytest.fail("the interrupt was lost")


RUN_ALL = """
import sys
from pathlib import Path
from kemu.tools.pipeline.campaign import load
from kemu.tools.pipeline.worker import run_chunk
made = load(Path(sys.argv[1]))
for chunk in made.chunks:
    run_chunk(sys.argv[1], made.id, chunk, made.spec.cells[chunk.cell], "all", made.spec.fingerprint)
"""


def test_the_tables_after_kill_9_and_the_remaining_chunks_are_those_of_one_process(
    finished: Campaign, tmp_path: Path
) -> None:
    """SIGKILL in the middle of a chunk: the chunk is absent, and later equal, file by file."""
    out = tmp_path / finished.out.name
    begin(out, finished.spec, {0: 4.0}, 1)
    killed = subprocess.Popen([sys.executable, "-c", RUN_ALL, str(out)])
    while killed.poll() is None and not list((out / "chunks").glob("0*")):
        pass
    while killed.poll() is None and not list((out / "chunks").glob(".*")):
        pass
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    made = load(out)
    assert 0 < len(made.done()) < len(made.chunks)

    subprocess.run([sys.executable, "-c", RUN_ALL, str(out)], check=True)

    for path in sorted(finished.out.glob("chunks/0*/*")):
        other = out / path.relative_to(finished.out)
        if path.suffix == ".parquet":
            assert (
                pq.read_table(other)
                .drop_columns(_changing(path))
                .equals(pq.read_table(path).drop_columns(_changing(path)))
            ), path.name
        elif path.name == "traces.kemu":
            assert other.read_bytes() == path.read_bytes()
    digests = [(line.seed, line.verdict, line.digest) for line in finished.lines()]
    assert [(line.seed, line.verdict, line.digest) for line in load(out).lines()] == digests


def _changing(path: Path) -> list[str]:
    """The columns with times of the real clock."""
    return [name for name in pq.read_schema(path).names if name in ("wall_s", "result_json")]
