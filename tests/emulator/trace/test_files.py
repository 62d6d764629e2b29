"""A trace takes its place when it is whole; a disk that is full leaves the old one as it was."""

import errno
from pathlib import Path

import pytest

from kemu.emulator.facts import Seen
from kemu.emulator.runner import run
from kemu.emulator.trace.blocks import MAGIC
from kemu.emulator.trace.files import written_beside
from kemu.emulator.trace.traces import Step, Torn, read_trace
from lab.bench.engine import steady

OLD = MAGIC + b"old"


def test_a_file_takes_its_place_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    path.write_bytes(OLD)
    with written_beside(path) as sink:
        sink.write(b"new")
        assert path.read_bytes() == OLD

    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    path.write_bytes(OLD)
    with pytest.raises(OSError, match=r"No space left on device: '.*run\.trace'"), written_beside(path) as sink:
        sink.write(b"new")
        raise OSError(errno.ENOSPC, "No space left on device")

    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named_by_the_files_own_name(tmp_path: Path) -> None:
    path = tmp_path / "none" / "run.trace"
    with pytest.raises(FileNotFoundError) as raised, written_beside(path):
        pass

    assert raised.value.filename == str(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without a full device")
def test_a_device_is_written_where_it_stands() -> None:
    with pytest.raises(OSError, match=r"'/dev/full'"), written_beside(Path("/dev/full")) as sink:
        sink.write(b"anything")


def test_an_interrupted_run_leaves_all_its_steps(tmp_path: Path) -> None:
    class Impatient:
        def see(self, seen: Seen) -> None:
            if seen.at_us > 5_000_000:
                raise KeyboardInterrupt

    path, part = tmp_path / "run.trace", tmp_path / "run.trace.part"
    path.write_bytes(OLD)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        run(steady(2, 4, 30), seed=1, loop="bare", trace=path, observers=(Impatient(),))

    *records, end = read_trace(part).records()
    assert isinstance(end, Torn)
    assert len([record for record in records if isinstance(record, Step)]) > 50
    assert interrupt.value.__notes__ == [f"the trace so far is in {part}"]
    assert path.read_bytes() == OLD

    run(steady(2, 4, 30), seed=1, loop="bare", trace=path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"[groups.g]\n", b"kemu"])
def test_a_file_that_is_no_trace_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(FileExistsError, match="the file is no trace and is not replaced"), written_beside(path):
        pytest.fail("it was opened")

    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_symbolic_link_is_not_replaced(tmp_path: Path) -> None:
    """Neither a link to a trace nor a link to an absent file."""
    path, link, dangling = (tmp_path / name for name in ("run.trace", "latest.trace", "absent.trace"))
    path.write_bytes(OLD)
    link.symlink_to(path)
    dangling.symlink_to(tmp_path / "absent")
    for each in (link, dangling):
        with pytest.raises(FileExistsError, match="a symbolic link is not replaced"), written_beside(each):
            pytest.fail("it was opened")
        assert each.is_symlink()

    assert path.read_bytes() == OLD


def test_a_second_writer_of_the_same_trace_is_refused(tmp_path: Path) -> None:
    """And the first one finishes."""
    path = tmp_path / "run.trace"
    with written_beside(path) as first:
        first.write(b"first")
        with pytest.raises(BlockingIOError, match="another process writes this trace"), written_beside(path):
            pytest.fail("it was opened")

    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
