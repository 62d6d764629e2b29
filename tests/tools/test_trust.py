"""Every command computes digest, counts and verdict of a trace again, and refuses a contradiction with exit code 2."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgpack
import pytest
from click.testing import CliRunner, Result

from kemu.emulator.trace import traces
from kemu.emulator.trace.blocks import (
    HEAD_BYTES,
    MOST_BLOCK_BYTES,
    TraceError,
    blocks_of,
    first_block,
    write_block,
    write_magic,
)
from kemu.emulator.trace.traces import HEADER, TraceWriter, footer_payload, read_trace, vocabulary
from kemu.tools import exits
from kemu.tools.cli import kemu
from lab.fuzz import small_trace

COMMANDS = (("explain",), ("replay",), ("replay", "--rerun"), ("history",), ("shrink", "--runs", "1"))
READERS = (("diagnose",), ("reproduce",), ("advise",), ("report",), ("explain", "--format", "log"))
"""Commands whose result for a whole trace has tests of its own."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_trace(tmp_path_factory.mktemp("small"))


def call(command: Sequence[str], path: Path) -> Result:
    return CliRunner().invoke(kemu, [command[0], str(path), *command[1:]])


def payloads(path: Path) -> list[bytes]:
    return [payload for _, _, payload in blocks_of(path, first_block(path)) if isinstance(payload, bytes)]


def written(path: Path, blocks: Sequence[bytes]) -> Path:
    with path.open("wb") as sink:
        write_magic(sink)
        for block in blocks:
            write_block(sink, block)
    return path


def with_footer(blocks: list[bytes], **fields: Any) -> list[bytes]:
    """The blocks with other values in the footer, and right checksums."""
    (_, *values, _) = msgpack.unpackb(blocks[-1], use_list=False)
    footer = traces.Footer(*values)._replace(**fields)
    at = sum(HEAD_BYTES + len(block) for block in blocks[:-2])
    return [*blocks[:-1], footer_payload(footer, blocks[-2], at, at + HEAD_BYTES + len(blocks[-2]))]


def without_a_block(blocks: list[bytes]) -> list[bytes]:
    """Each remaining block is whole, so only index and footer show the loss."""
    return [*blocks[:-3], *blocks[-2:]]


def a_microsecond_later(blocks: list[bytes]) -> list[bytes]:
    rows = list(msgpack.Unpacker(_file(blocks[1]), use_list=False))
    at = next(index for index, row in enumerate(rows) if row[0] == traces.STEP)
    rows[at] = (*rows[at][:2], rows[at][2] + 1, *rows[at][3:])
    return [blocks[0], b"".join(map(msgpack.packb, rows)), *blocks[2:]]


def _file(content: bytes) -> Any:
    import io

    return io.BytesIO(content)


@pytest.mark.parametrize("command", COMMANDS + READERS, ids=" ".join)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_a_block, "a block is missing, added or changed"),
        (a_microsecond_later, "a block is missing, added or changed"),
        (lambda blocks: with_footer(blocks, digest="0" * 32), "a block is missing, added or changed"),
        (lambda blocks: blocks[:-1], "torn at byte"),
    ],
    ids=["without a block", "another time", "another digest", "torn"],
)
def test_every_command_refuses_a_changed_trace(
    command: tuple[str, ...], change: Callable[[list[bytes]], list[bytes]], said: str, small: Path, tmp_path: Path
) -> None:
    path = written(tmp_path / "changed.kemu", change(payloads(small)))

    done = call(command, path)

    assert done.exit_code == exits.BAD_INPUT, done.output
    assert f"error: {path}: " in done.stderr
    assert said in done.stderr
    assert "byte " in done.stderr


@pytest.mark.parametrize("command", COMMANDS + READERS, ids=" ".join)
@pytest.mark.parametrize(
    ("fields", "said", "rerun_said"),
    [
        (
            {"verdict": "violated"},
            'the footer has the verdict "violated", the records have "holds"',
            "the footer has verdict violated, the run has holds",
        ),
        ({"steps": 1}, "the footer has 1 steps, the records have ", "the footer has steps 1, the run has "),
        ({"messages": 1}, "the footer has 1 messages, the records have ", "the footer has messages 1, the run has "),
        (
            {"virtual_us": 9_000_000},
            "the footer ends after 9000000 us, the records after 5000000 us",
            "the footer has virtual_us 9000000, the run has 5000000",
        ),
    ],
    ids=["verdict", "steps", "messages", "virtual_us"],
)
def test_the_verdict_and_the_counts_are_those_of_the_records(
    command: tuple[str, ...], fields: dict[str, Any], said: str, rerun_said: str, small: Path, tmp_path: Path
) -> None:
    """``replay --rerun`` compares with the repeated run."""
    path = written(tmp_path / "changed.kemu", with_footer(payloads(small), **fields))

    done = call(command, path)

    assert done.exit_code == exits.BAD_INPUT, done.output
    assert (rerun_said if "--rerun" in command else said) in done.stderr


def test_an_unchanged_trace_is_accepted_by_every_command(small: Path) -> None:
    for command in COMMANDS[:-1]:
        assert call(command, small).exit_code == exits.HOLDS


@pytest.mark.parametrize(
    ("expect", "verdict", "is_refused"),
    [
        ((), "violated", False),
        ((), "holds", True),
        ((), "liveness", True),
        (("one_owner",), "holds", False),
        (({"checker": "one_owner", "kind": "two-owners"},), "holds", False),
        (({"checker": "one_owner", "subject": "partition t-1"},), "holds", True),
        (({"checker": "one_owner", "subject": "partition t-1"},), "violated", False),
        (("one_owner",), "violated", True),
        ((), "broken", False),
    ],
)
def test_expected_violations_do_not_count(
    expect: tuple[Any, ...], verdict: str, is_refused: bool, tmp_path: Path
) -> None:
    """As in a run. A checker that raises breaks a run without a record."""
    from kemu.emulator.findings import Violation

    path = tmp_path / "made.kemu"
    with path.open("wb") as sink:
        writer = TraceWriter(sink, traces.Header({"expect": list(expect)}, [], 1, "p", "bare", "0"))
        writer.violation(Violation("one_owner", 5, 1, ("t-0",), "two owners", False, "two-owners"))
        writer.finish(verdict, 9)

    if is_refused:
        with pytest.raises(TraceError, match=f'the footer has the verdict "{verdict}"'):
            list(read_trace(path).records())
    else:
        assert len(list(read_trace(path).records())) == 2


def test_a_trace_of_another_vocabulary_says_so_where_it_cannot_be_read(small: Path, tmp_path: Path) -> None:
    """And is read where it can be."""
    blocks = payloads(small)
    header = attrs.asdict(read_trace(small).header) | {"vocabulary": "0" * 16, "package": "0.0.9"}
    head = msgpack.packb((HEADER, header))
    unknown = msgpack.packb((traces.FACT, 1, 1, ("AFactOfLater", 1)))
    known, path = written(tmp_path / "known.kemu", [head, *blocks[1:]]), tmp_path / "unknown.kemu"
    written(path, [head, unknown])

    assert call(("explain",), known).exit_code == exits.HOLDS
    done = call(("explain",), path)
    assert done.exit_code == exits.BAD_INPUT
    assert "unknown value 'AFactOfLater'; another version of kemu (0.0.9) wrote this trace" in done.stderr
    written(path, [blocks[0], unknown])
    assert "another version" not in call(("explain",), path).stderr
    assert read_trace(small).header.vocabulary == vocabulary()


def test_a_digest_that_differs_twice_alike_is_another_code_not_nondeterminism(small: Path, tmp_path: Path) -> None:
    header = attrs.asdict(read_trace(small).header)
    path = written(tmp_path / "other.kemu", [msgpack.packb((HEADER, {**header, "seed": 2})), *payloads(small)[1:]])

    done = call(("replay", "--rerun"), path)

    assert done.exit_code == exits.NOT_FOUND_AGAIN, done.output
    assert "the digest differs: recorded" in done.stdout


def test_a_block_that_claims_too_much_takes_no_memory(small: Path, tmp_path: Path) -> None:
    """A sparse file with a block of 3 GB."""
    import struct
    import zlib

    path = written(tmp_path / "huge.kemu", payloads(small)[:1])
    head = struct.pack(">II", 3 << 30, 0)
    with path.open("ab") as sink:
        sink.write(head + struct.pack(">I", zlib.crc32(head)))
        sink.truncate(3 << 30)

    done = call(("explain",), path)

    assert done.exit_code == exits.BAD_INPUT
    assert f"the block claims 3,221,225,472 bytes, more than {MOST_BLOCK_BYTES:,}" in done.stderr
