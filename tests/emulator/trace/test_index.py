"""The index of a trace: a part is what the whole file says, only that part is read, and damage is named."""

from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import msgpack
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.trace import blocks, traces
from kemu.emulator.trace.blocks import HEAD_BYTES, TraceError, blocks_of, first_block, write_block, write_magic
from kemu.emulator.trace.index import TAIL_BYTES, Index, Window, is_about, windows_around
from kemu.emulator.trace.traces import Torn, Trace, read_runs, read_trace
from kemu.tools.cli import kemu
from kemu.tools.report.transcript import Entry, entries_of
from tests.examples import examples

SETTINGS = ("duration=40s", "plan.0.at=8s", "plan.0.for=20s", "members=2", "partitions=2", "rate=60/s")
STEPS = st.integers(0, 1_100)
TIMES_US = st.integers(0, 42_000_000)


@pytest.fixture(scope="module", name="recorded")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Entry]]]:
    """A run of many small blocks, and all its entries. A member pauses, so some packets arrive many blocks later."""
    path = tmp_path_factory.mktemp("index") / "run.kemu"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traces, "BLOCK_BYTES", 512)
        patch.setattr(traces, "CHECK_EVERY", 4)
        run(with_values(load_scenario("gc-pause-zombie"), SETTINGS), seed=3, loop="bare", trace=path)
    yield path, list(entries_of(read_trace(path)))


def without_index(path: Path, target: Path) -> Path:
    """The same run as an earlier kemu wrote it."""
    payloads = [payload for _, _, payload in blocks_of(path, first_block(path)) if isinstance(payload, bytes)]
    *records, _, end = payloads
    with target.open("wb") as sink:
        sink.write(blocks.MAGIC + b"\x00\x01")
        for payload in (*records, msgpack.packb(msgpack.unpackb(end)[:7])):
            write_block(sink, payload)
    return target


def index_of(trace: Trace) -> Index:
    assert trace.index is not None
    return trace.index


def expected(entries: list[Entry], windows: list[Window]) -> list[Entry]:
    """The entries of these windows, with the frame."""
    kept, place = [], 0
    for entry in entries:
        place = entry.data["seq"] if entry.data["kind"] in ("step", "broken") else place
        is_near = any(window.holds(place, entry.at_us) for window in windows)
        if entry.data["kind"] in ("header", "footer") or is_near:
            kept.append(entry)
    return kept


def about(entries: list[Entry], *actors: str) -> list[Entry]:
    """The entries about these actors or hosts."""
    return [each for each in entries if not each.actors or any(is_about(name, actors) for name in each.actors)]


windows_of_steps = st.builds(windows_around, st.lists(STEPS, max_size=3), st.sampled_from((0, 1, 10, 200)))
windows_of_time = st.builds(
    lambda at_us, for_us: [Window(from_us=at_us, to_us=at_us + for_us)],
    TIMES_US,
    st.sampled_from((0, 1, 1_000, 1_000_000)),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(windows=windows_of_steps | windows_of_time)
def test_a_part_is_what_the_whole_file_says(recorded: tuple[Path, list[Entry]], windows: list[Window]) -> None:
    path, entries = recorded

    assert list(entries_of(read_trace(path), windows)) == expected(entries, windows)


ACTORS = st.lists(st.sampled_from(("c1", "c2", "b0", "b0/coordinator", "b1/coordinator", "admin", "p1")), max_size=2)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(windows=windows_of_steps | windows_of_time | st.just([Window()]), actors=ACTORS)
def test_the_part_of_an_actor_is_what_the_whole_file_says(
    recorded: tuple[Path, list[Entry]], windows: list[Window], actors: list[str]
) -> None:
    path, entries = recorded
    whole = expected(entries, windows)

    assert list(entries_of(read_trace(path), windows, actors)) == (about(whole, *actors) if actors else whole)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(step=STEPS)
def test_only_the_part_is_read(recorded: tuple[Path, list[Entry]], tmp_path: Path, step: int) -> None:
    """All bytes of other extents may be lost, but for extents that sent an arriving packet."""
    path, entries = recorded
    windows = windows_around([step], 2)
    index = index_of(read_trace(path))
    needed = set(index.extents(windows[0]))
    for entry in expected(entries, windows):
        if entry.data["kind"] == "step" and entry.data["event"]["name"] == "Received":
            needed.add(index.extent_of_packet(entry.data["event"]["packet"]))
    content, start = bytearray(path.read_bytes()), first_block(path)
    for number in set(range(len(index))) - needed:
        first, after = start + index.extent(number).offset, start + index.extent(number + 1).offset
        content[first:after] = bytes(after - first)
    sparse = tmp_path / "sparse.kemu"
    sparse.write_bytes(content)

    assert len(needed) < 12 < len(index)
    assert list(entries_of(read_trace(sparse), windows)) == expected(entries, windows)
    with pytest.raises(TraceError, match="damaged block at byte"):
        list(read_trace(sparse).records())


def test_an_old_trace_without_an_index_gives_the_same_parts(recorded: tuple[Path, list[Entry]], tmp_path: Path) -> None:
    path, entries = recorded
    old = read_trace(without_index(path, tmp_path / "old.kemu"))

    assert old.index is None
    assert list(entries_of(old)) == entries
    for windows in (windows_around([100, 105, 900], 3), [Window(from_us=9_000_000, to_us=9_100_000)]):
        assert list(entries_of(old, windows)) == expected(entries, windows)
    assert list(entries_of(old, [Window()], ["c2"])) == about(entries, "c2")
    assert old.survey() == read_trace(path).survey()


def test_an_index_of_format_version_2_gives_the_same_parts(recorded: tuple[Path, list[Entry]], tmp_path: Path) -> None:
    """It does not name the extents of actors."""
    path, entries = recorded
    *records, index, end = [payload for _, _, payload in blocks_of(path, first_block(path)) if type(payload) is bytes]
    old = msgpack.packb(msgpack.unpackb(index)[:4])
    at = sum(HEAD_BYTES + len(payload) for payload in records)
    footer = traces.Footer(*msgpack.unpackb(end, use_list=False)[1:7])
    before = tmp_path / "before.kemu"
    with before.open("wb") as sink:
        sink.write(blocks.MAGIC + b"\x00\x02")
        for payload in (*records, old, traces.footer_payload(footer, old, at, at + HEAD_BYTES + len(old))):
            write_block(sink, payload)

    trace = read_trace(before)
    assert list(entries_of(trace)) == entries
    assert list(entries_of(trace, windows_around([100], 3))) == expected(entries, windows_around([100], 3))
    assert list(entries_of(trace, [Window()], ["admin"])) == about(entries, "admin")
    assert index_of(trace).extents_about(["admin"]) == [*range(len(index_of(trace)))]


def test_the_index_is_small_and_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    """With blocks of the usual size. At most 2 % of the file."""
    scenario = with_values(load_scenario("gc-pause-zombie"), SETTINGS)
    for name in ("one.kemu", "two.kemu"):
        run(scenario, seed=3, loop="bare", trace=tmp_path / name)

    content = (tmp_path / "one.kemu").read_bytes()
    assert content == (tmp_path / "two.kemu").read_bytes()
    *_, (at, after, _), _ = blocks_of(tmp_path / "one.kemu", first_block(tmp_path / "one.kemu"))
    assert len(index_of(read_trace(tmp_path / "one.kemu"))) > 1
    assert after - at + TAIL_BYTES < len(content) * 0.02


# --- damage ----------------------------------------------------------------------------------------------------------


def end_of(path: Path) -> tuple[int, int, int]:
    """(offset of the index, offset of the footer, size of the file)."""
    *_, (at, after, _), _ = blocks_of(path, first_block(path))
    return at, after, path.stat().st_size


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flip_in_index_or_footer_is_named_whatever_is_read(
    recorded: tuple[Path, list[Entry]], tmp_path: Path, data: Any
) -> None:
    """A part is then read from the whole file."""
    path, entries = recorded
    at, footer_at, size = end_of(path)
    place = data.draw(st.integers(at, size - 1))
    content = bytearray(path.read_bytes())
    content[place] ^= data.draw(st.integers(1, 255))
    flipped = tmp_path / "flipped.kemu"
    flipped.write_bytes(content)
    windows = [Window(50, 60)]

    if place < footer_at:
        for part in (None, windows):
            with pytest.raises(
                TraceError, match=rf"flipped.kemu: damaged block at byte {at} .* follows at {footer_at}"
            ):
                list(entries_of(read_trace(flipped), part))
    else:
        for part in (None, windows):
            *read, end = entries_of(read_trace(flipped), part)
            assert f"torn at byte {footer_at}" in end.lines[0]
            assert read == (entries[:-1] if part is None else expected(entries, windows)[:-1])


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_in_index_or_footer_is_torn(recorded: tuple[Path, list[Entry]], tmp_path: Path, data: Any) -> None:
    path, _ = recorded
    at, _, size = end_of(path)
    cut = tmp_path / "cut.kemu"
    cut.write_bytes(path.read_bytes()[: data.draw(st.integers(at, size - 1))])

    *records, end = read_trace(cut).records()
    assert isinstance(end, Torn)
    assert len(records) == len(list(read_trace(path).records())) - 1


def changed(path: Path, target: Path, at: int) -> Path:
    """Another payload of the same size in a block, with right checksums of the block."""
    start = first_block(path)
    with target.open("wb") as sink:
        write_magic(sink)
        for offset, _, payload in blocks_of(path, start):
            assert isinstance(payload, bytes)
            write_block(sink, payload.replace(b"Heartbeat", b"heartbeat") if offset == at else payload)
    assert target.read_bytes() != path.read_bytes()
    return target


SEPARATE: Any = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
"""click 8.1, the lower bound, mixes standard error into the output unless told otherwise."""


def call(*arguments: object) -> Result:
    return CliRunner(**SEPARATE).invoke(kemu, [str(argument) for argument in arguments])


def test_a_changed_block_with_a_right_checksum_is_refused_by_a_reader_of_this_part(
    recorded: tuple[Path, list[Entry]], tmp_path: Path
) -> None:
    path, _ = recorded
    index, start = index_of(read_trace(path)), first_block(path)
    content = path.read_bytes()
    for number in range(len(index) - 1, 0, -1):
        extent, following = index.extent(number), index.extent(number + 1)
        if b"Heartbeat" in content[start + extent.offset : start + following.offset]:
            break
    other = changed(path, tmp_path / "changed.kemu", start + extent.offset)

    done = call("explain", other, "--step", extent.step)
    assert done.exit_code == 2
    assert f"{other}: block at byte {start + extent.offset}: the index has another checksum" in done.stderr
    assert call("explain", other, "--step", 1, "--context", 0).exit_code == 0
    assert call("explain", other, "--verify").exit_code == 2


@pytest.mark.parametrize("command", ["explain", "explain --step 3", "explain --verify", "replay", "history", "report"])
def test_every_command_names_a_damaged_index(command: str, recorded: tuple[Path, list[Entry]], tmp_path: Path) -> None:
    path, _ = recorded
    at, _, _ = end_of(path)
    content = bytearray(path.read_bytes())
    content[at + HEAD_BYTES + 40] ^= 1
    damaged = tmp_path / "damaged.kemu"
    damaged.write_bytes(content)
    name, *options = command.split()

    done = call(name, damaged, *options)

    assert done.exit_code == 2, done.output
    assert f"error: {damaged}: damaged block at byte {at} (the block's checksum is wrong)" in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row, "the footer does not name the index"),
        (lambda row: [row[0], row[1][:-36], *row[2:]], "the index contradicts the records"),
        (lambda row: [*row[:2], {**row[2], "c1": 1}, row[3]], "the index contradicts the records"),
        (lambda row: [*row[:3], [1], row[4]], "the index contradicts the records"),
        (lambda row: [*row[:4], {**row[4], "c1": b"\1"}], "the index contradicts the records"),
        (lambda row: [row[0], "x"], "the index contradicts the records"),
    ],
)
def test_an_index_that_contradicts_the_records_is_refused_by_a_reader_of_the_whole_file(
    change: Any, said: str, recorded: tuple[Path, list[Entry]], tmp_path: Path
) -> None:
    """Checksums and the digest in the footer are right; a tail that does not name the index makes a reader read all."""
    path, _ = recorded
    start = first_block(path)
    *records, index, end = [payload for _, _, payload in blocks_of(path, start) if isinstance(payload, bytes)]
    row = msgpack.unpackb(index)
    other = msgpack.packb(change(row))
    at = sum(HEAD_BYTES + len(payload) for payload in records)
    footer = traces.Footer(*msgpack.unpackb(end, use_list=False)[1:7])
    made = traces.footer_payload(footer, other if change(row) != row else b"", at, at + HEAD_BYTES + len(other))
    wrong = tmp_path / "wrong.kemu"
    with wrong.open("wb") as sink:
        write_magic(sink)
        for payload in (*records, other, made):
            write_block(sink, payload)

    with pytest.raises(TraceError, match=rf"wrong.kemu: block at byte \d+: {said}"):
        list(read_trace(wrong).records())
    if said.startswith("the footer"):
        assert read_trace(wrong).index is None


# --- several runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_old", [False, True])
def test_runs_of_one_format_version_may_be_joined_in_one_file(
    is_old: bool, recorded: tuple[Path, list[Entry]], tmp_path: Path
) -> None:
    """As a campaign does."""
    path, entries = recorded
    content = (without_index(path, tmp_path / "old.kemu") if is_old else path).read_bytes()
    joined, windows = tmp_path / "joined.kemu", [Window(300, 305)]
    joined.write_bytes(content + content[first_block(path) :])

    runs = list(read_runs(joined))
    assert [run.index is None for run in runs] == [is_old] * 2
    for each in runs:
        assert list(entries_of(each)) == entries
        assert list(entries_of(each, windows)) == expected(entries, windows)


def test_a_torn_last_run_leaves_the_runs_before(recorded: tuple[Path, list[Entry]], tmp_path: Path) -> None:
    path, entries = recorded
    joined = tmp_path / "joined.kemu"
    content = path.read_bytes()
    joined.write_bytes(content + content[first_block(path) : -1_000])

    first, second = read_runs(joined)
    assert list(entries_of(first)) == entries
    assert list(entries_of(second))[-1].data["kind"] == "torn"


@pytest.mark.parametrize("command", ["explain", "explain --step 3", "explain --verify", "report"])
def test_bytes_after_the_last_run_are_damage(command: str, recorded: tuple[Path, list[Entry]], tmp_path: Path) -> None:
    path, _ = recorded
    longer = tmp_path / "longer.kemu"
    longer.write_bytes(path.read_bytes() + b"more")
    name, *options = command.split()

    done = call(name, longer, *options)

    assert done.exit_code == 2
    assert f"longer.kemu: damaged at byte {path.stat().st_size}, after the end of a run" in done.stderr


# --- the command -----------------------------------------------------------------------------------------------------


def test_a_file_without_an_index_is_said_to_be_read_whole(recorded: tuple[Path, list[Entry]], tmp_path: Path) -> None:
    path, _ = recorded
    old = without_index(path, tmp_path / "old.kemu")
    part = tmp_path / "run.kemu.part"
    part.write_bytes(path.read_bytes()[:-30_000])

    for file, code in ((path, 0), (old, 0), (part, 2)):
        done = call("explain", file, "--step", 40)
        assert done.exit_code == code
        assert ("has no index, so the whole file is read" in done.stderr) == (file != path)
        assert (
            call("explain", file, "--step", 40, "--format", "json").stdout.splitlines()[1:22]
            == (call("explain", path, "--step", 40, "--format", "json").stdout.splitlines()[1:22])
        )
    assert "has no index" not in call("explain", old).stderr, "a whole file is read in any case"


@pytest.mark.parametrize(
    "arguments", [("--step", "900"), ("--from", "20s", "--to", "20s"), ("--actor", "c99"), ("--actor", "admin")]
)
def test_a_part_costs_few_blocks(
    arguments: tuple[str, ...], recorded: tuple[Path, list[Entry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has more than 100 extents."""
    read = []

    def counted(file: Any, offset: int) -> bytes | str:
        read.append(offset)
        return block_at(file, offset)

    block_at = blocks.block_at
    monkeypatch.setattr(blocks, "block_at", counted)
    monkeypatch.setattr(traces, "block_at", counted)
    done = call("explain", recorded[0], *arguments)

    assert done.exit_code == (2 if "c99" in arguments else 0), done.output
    assert len(index_of(read_trace(recorded[0]))) > 100
    assert 5 < len(read) < 40
