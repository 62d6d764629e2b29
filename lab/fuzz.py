"""Feed damaged and random input to kemu: ``python -m lab.fuzz SURFACE --count N``.

An input must be accepted, or refused in one message that names the file and the place. Everything else is printed with
the number that repeats it (``--first NUMBER --count 1``).
"""

import resource
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import click
import msgpack

from kemu.emulator.replay import replay
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, preset_names, with_actions, with_values
from kemu.emulator.trace.blocks import blocks_of, first_block, write_block, write_magic
from kemu.emulator.trace.traces import FOOTER, HEADER, read_runs
from kemu.tools.commands.history import history_of
from kemu.tools.errors import bad_input_text
from kemu.tools.report.transcript import entries_of

SLOW_S = 10.0
"""An input that takes longer is a failure."""
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63), 0.5, float("nan"), "", "c1",
    "\x1b]0;x\x07", "²", b"", b"\xc1", (), (0,), ("x", 1), {}, {"a": 1},
)  # fmt: skip
"""Values that a well-formed file may hold at a wrong place."""
WORDS = (
    "groups", "topics", "brokers", "plan", "members", "partitions", "duration", "crash", "host", "c1", "at", "for",
    "1s", "0s", "-1s", "1e9s", "99999999999999999999", "²", "nan", "inf", "true", "[", "]", "{", "}", "=", "==", ",",
    ".", "..", '"', "'''", "\x00", "\x1b[31m", "\ufeff", "every", "rolling-restart", "grow-topic", "topic", "orders",
    "__consumer_offsets", "0", "-0", "1.5", "a" * 300, "session.timeout.ms", "auto.commit.interval.ms", "assignors",
    "module:Class", "os:system", "None", " ",
)  # fmt: skip


def small_trace(folder: Path) -> Path:
    """Write the trace of a short run with a crash."""
    path = folder / "small.kemu"
    settings = ("duration=3s", "members=2", "partitions=2", "rate=5/s")
    scenario = with_actions(with_values(load_scenario("steady-group"), settings), ("crash host=c2 at=2s",))
    run(scenario, seed=1, loop="bare", trace=path)
    return path


# --- traces ----------------------------------------------------------------------------------------------------------


def read_whole(path: Path) -> None:
    """Read a trace as ``explain``, ``replay`` and ``history`` do."""
    for trace in read_runs(path):
        for _ in entries_of(trace):
            pass
        replay(trace)
        history_of(trace)


def damaged_bytes(content: bytes, draws: Random) -> bytes:
    """Flip, cut, repeat or insert bytes."""
    data = bytearray(content)
    for _ in range(draws.choice((1, 1, 1, 2, 8))):
        at = draws.randrange(len(data)) if data else 0
        kind = draws.randrange(5)
        if kind == 0 and data:
            data[at] ^= 1 << draws.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + draws.choice((1, 4, 12, 500))]
        elif kind == 3:
            data[at:at] = data[at : at + draws.choice((1, 12, 4000))]
        else:
            data[at:at] = draws.randbytes(draws.choice((1, 12, 100)))
    return bytes(data)


def changed_values(source: Path, target: Path, draws: Random) -> None:
    """Change values, and write the trace with right checksums, and mostly with the right digest."""
    import hashlib

    start = first_block(source)
    blocks = [
        list(msgpack.Unpacker(_fed(payload), use_list=False, strict_map_key=False))
        for _, _, payload in blocks_of(source, start)
        if isinstance(payload, bytes)
    ]
    for _ in range(draws.choice((1, 1, 2, 5))):
        rows = draws.choice(blocks)
        at = draws.randrange(len(rows))
        change = draws.randrange(6)
        if change == 0 and len(rows) > 1:
            del rows[at]
        elif change == 1:
            rows.insert(at, draws.choice(draws.choice(blocks) or [(1,)]))
        elif change == 2:
            other = draws.randrange(len(rows))
            rows[at], rows[other] = rows[other], rows[at]
        else:
            rows[at] = _changed(rows[at], draws)
    digest = hashlib.blake2b(digest_size=16)
    keeps_digest = draws.random() < 0.2
    with target.open("wb") as sink:
        write_magic(sink)
        for rows in blocks:
            kind: Any = rows[0][0] if rows and type(rows[0]) is tuple and rows[0] else None
            if not keeps_digest and kind == FOOTER and len(rows[0]) > 5:
                rows[0] = (*rows[0][:5], digest.hexdigest(), *rows[0][6:])
            payload = b"".join(map(msgpack.packb, rows))
            if kind not in (HEADER, FOOTER):
                digest.update(payload)
            write_block(sink, payload)


def _fed(payload: bytes) -> Any:
    import io

    return io.BytesIO(payload)


def _changed(value: Any, draws: Random) -> Any:
    """Replace a value somewhere inside a value."""
    if type(value) is tuple and value and draws.random() < 0.85:
        at = draws.randrange(len(value))
        return (*value[:at], _changed(value[at], draws), *value[at + 1 :])
    if type(value) is dict and value and draws.random() < 0.9:
        name = draws.choice(list(value))
        return {**value, name: _changed(value[name], draws)}
    if type(value) is bytes and value and draws.random() < 0.7:
        return damaged_bytes(value, draws)
    if type(value) is int and draws.random() < 0.5:
        return value + draws.choice((-1, 1, 1000, -1000))
    return draws.choice(ODD)


# --- texts -----------------------------------------------------------------------------------------------------------


def _text(draws: Random, most: int = 8) -> str:
    return "".join(draws.choice(WORDS) for _ in range(draws.randrange(1, most)))


def damaged_text(text: str, draws: Random) -> str:
    """Replace, delete or insert words in a text."""
    for _ in range(draws.choice((1, 1, 2, 6))):
        at = draws.randrange(len(text) + 1)
        until = min(len(text), at + draws.choice((0, 1, 5, 30)))
        text = text[:at] + (_text(draws, 3) if draws.random() < 0.7 else "") + text[until:]
    return text


class Fuzzer:
    """Makes inputs below a folder, and tries them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trace: Path | None = None

    @property
    def _small(self) -> Path:
        if self._trace is None:
            self._trace = small_trace(self._folder)
        return self._trace

    def trace_bytes(self, draws: Random) -> None:
        """A trace with damaged bytes."""
        path = self._folder / "case.kemu"
        path.write_bytes(damaged_bytes(self._small.read_bytes(), draws))
        read_whole(path)

    def trace_values(self, draws: Random) -> None:
        """A trace with right checksums and changed values."""
        path = self._folder / "case.kemu"
        changed_values(self._small, path, draws)
        read_whole(path)

    def scenario(self, draws: Random) -> None:
        """The text of a scenario, damaged."""
        path = self._folder / "case.toml"
        preset = draws.choice(preset_names())
        text = (files("kemu.emulator") / "presets" / f"{preset}.toml").read_text(encoding="utf-8")
        path.write_text(damaged_text(text, draws), encoding="utf-8", errors="surrogatepass")
        load_scenario(str(path))

    def settings(self, draws: Random) -> None:
        """A value of ``--set``."""
        with_values(load_scenario("rolling-restart-static"), [f"{_text(draws, 5)}={_text(draws, 5)}"])

    def actions(self, draws: Random) -> None:
        """A value of ``--do``."""
        words = [draws.choice(("crash", "grow-topic", "clock-drift", "rolling-restart", _text(draws, 3)))]
        words += [f"{draws.choice(('at', 'host', 'topic', 'partitions', 'ppm', _text(draws, 2)))}={_text(draws, 3)}"]
        words += [draws.choice(("at=1s", _text(draws, 4)))]
        with_actions(load_scenario("rolling-restart-static"), [" ".join(words)])


SURFACES: Mapping[str, tuple[Callable[[Fuzzer, Random], None], str]] = {
    "trace-bytes": (Fuzzer.trace_bytes, "byte "),
    "trace-values": (Fuzzer.trace_values, "case.kemu"),
    "scenario": (Fuzzer.scenario, "case.toml"),
    "set": (Fuzzer.settings, "--set"),
    "do": (Fuzzer.actions, "--do"),
}
"""Surface -> the method that makes an input and tries it, and a word of every message."""


def try_one(fuzzer: Fuzzer, surface: str, number: int) -> tuple[str, str]:
    """Try one input; return "accepted", "refused" or "failed", and the message or the traceback."""
    tries, word = SURFACES[surface]
    began_s = time.perf_counter()
    try:
        tries(fuzzer, Random(f"{surface} {number}"))
    except Exception as error:
        text = bad_input_text(error)
        if text is None:
            return "failed", traceback.format_exc()
        if word not in text or "\x1b" in text:
            return "failed", f"the message names no place, or has control characters: {text!r}"
        return "refused", text
    if time.perf_counter() - began_s > SLOW_S:
        return "failed", f"more than {SLOW_S:.0f} s"
    return "accepted", ""


@click.command()
@click.argument("surface", type=click.Choice(list(SURFACES)))
@click.option("--count", default=1_000, show_default=True, help="Number of inputs.")
@click.option("--first", default=1, show_default=True, help="Number of the first input.")
def main(surface: str, count: int, first: int) -> None:
    """Try inputs; exit with 1 if one fails."""
    outcomes: Counter[str] = Counter()
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kemu-fuzz-") as folder:
        fuzzer = Fuzzer(Path(folder))
        for number in range(first, first + count):
            outcome, text = try_one(fuzzer, surface, number)
            outcomes[outcome] += 1
            if outcome == "failed":
                click.echo(f"{surface} {number}: {text}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    said = ", ".join(f"{outcomes[each]} {each}" for each in ("accepted", "refused", "failed"))
    click.echo(f"{surface}: {said} in {time.perf_counter() - began_s:.0f} s, at most {peak:.0f} MB")
    raise SystemExit(1 if outcomes["failed"] else 0)


if __name__ == "__main__":
    main()
