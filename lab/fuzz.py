"""Feed damaged and random input to kemu: ``python -m lab.fuzz SURFACE --count N``.

An input must be accepted, or refused in one message that names the file and the place. Everything else is printed with
the number that repeats it (``--first NUMBER --count 1``).
"""

import hashlib
import resource
import struct
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
from kemu.emulator.text.kafka_keys import fields_of
from kemu.emulator.trace import traces
from kemu.emulator.trace.blocks import HEAD_BYTES, blocks_of, first_block, write_block, write_magic
from kemu.emulator.trace.index import INDEX, IndexBuilder, Window, windows_around
from kemu.emulator.trace.traces import BROKEN, FACT, FOOTER, HEADER, PACKET, STEP, VIOLATION, footer_payload, read_runs
from kemu.protocol.wire.values import from_row
from kemu.tools.commands.history import history_of
from kemu.tools.commands.import_ import import_text
from kemu.tools.errors import bad_input_text
from kemu.tools.kafka_files.kafka_properties import KINDS
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

DESCRIBED = (
    "Topic: orders\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: retention.ms=-1,min.insync.replicas=2\n"
    "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n",
    "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
    "g     orders 0        10             15             5   c-1-aaaa    /h   c-1\n",
    "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT\n"
    "g     c-1-aaaa    i-1               /h   c-1       2           orders(0,1)\n",
    "GROUP COORDINATOR (ID)  ASSIGNMENT-STRATEGY STATE  #MEMBERS\n"
    "g     kafka:9092 (1)    range               Stable 1\n",
)
"""Outputs of ``kafka-topics --describe`` and ``kafka-consumer-groups --describe``."""


def small_trace(folder: Path) -> Path:
    """Write the trace of a short run with a crash, in small blocks."""
    path = folder / "small.kemu"
    settings = ("duration=3s", "members=2", "partitions=2", "rate=5/s")
    scenario = with_actions(with_values(load_scenario("steady-group"), settings), ("crash host=c2 at=2s",))
    block_bytes, traces.BLOCK_BYTES = traces.BLOCK_BYTES, 4096
    try:
        run(scenario, seed=1, loop="bare", trace=path)
    finally:
        traces.BLOCK_BYTES = block_bytes
    return path


# --- traces ----------------------------------------------------------------------------------------------------------


def read_all(path: Path) -> None:
    """Read parts of a trace and the whole trace, as ``explain``, ``replay`` and ``history`` do."""
    for trace in read_runs(path):
        with trace.interpreted():
            around = windows_around((each.seq for each in trace.survey().findings), 10)
        for windows in (around, [Window(100, 110)], [Window(from_us=2_000_000, to_us=2_010_000)]):
            for _ in entries_of(trace, windows):
                pass
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
    _write_blocks(target, blocks, keeps_digest=draws.random() < 0.2, keeps_index=draws.random() < 0.3)


def _write_blocks(target: Path, blocks: list[list[Any]], *, keeps_digest: bool, keeps_index: bool) -> None:
    """Write blocks of records with right checksums, and with the right digest and index unless these are kept."""
    digest, offset, packet = hashlib.blake2b(digest_size=16), 0, 0
    made: IndexBuilder | None = None
    index, index_at = b"", 0
    with target.open("wb") as sink:
        write_magic(sink)
        for rows in blocks:
            kind: Any = rows[0][0] if rows and type(rows[0]) is tuple and rows[0] else None
            payload = b"".join(map(msgpack.packb, rows))
            if kind == INDEX:
                if made is not None and not keeps_index:
                    payload = made.payload()
                index, index_at = payload, offset
            elif kind == FOOTER and len(rows[0]) > 6:
                footer = rows[0][1:7]
                if not keeps_digest:
                    footer = (*footer[:4], digest.hexdigest(), *footer[5:])
                payload = footer_payload(footer, index, index_at, offset)
            elif kind != HEADER:
                digest.update(payload)
                try:
                    packet = _indexed(made, rows, offset, packet)
                except (TypeError, LookupError, ValueError, struct.error):
                    keeps_index = True
                if made is not None:
                    made.add(payload)
            offset += HEAD_BYTES + len(payload)
            made = made or IndexBuilder(offset)
            write_block(sink, payload)


def _indexed(made: IndexBuilder | None, rows: list[Any], offset: int, packet: int) -> int:
    """Add the records of a block to an index; return the last packet."""
    if made is None:
        return packet
    if rows[0][0] == STEP and made.steps_of:
        made.begin(offset, rows[0][1], rows[0][2], packet)
    for row in rows:
        if row[0] == STEP:
            made.steps_of[row[3]] += 1
        elif row[0] == PACKET:
            packet = max(packet, row[1])
        elif row[0] == FACT:
            made.fact(from_row(row[3]))
        elif row[0] in (VIOLATION, BROKEN):
            made.finding()
    return packet


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
        return max(-(1 << 63), min((1 << 64) - 1, value + draws.choice((-1, 1, 1000, -1000))))
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
        read_all(path)

    def trace_index(self, draws: Random) -> None:
        """A trace with damage in its index or its footer."""
        path, content = self._folder / "case.kemu", self._small.read_bytes()
        *_, (at, _, _), _ = blocks_of(self._small, first_block(self._small))
        path.write_bytes(content[:at] + damaged_bytes(content[at:], draws))
        read_all(path)

    def trace_values(self, draws: Random) -> None:
        """A trace with right checksums and changed values."""
        path = self._folder / "case.kemu"
        changed_values(self._small, path, draws)
        read_all(path)

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

    def describe(self, draws: Random) -> None:
        """The output of Kafka's tools, damaged, for ``kemu import``."""
        import_text(damaged_text(draws.choice(DESCRIBED) + draws.choice(DESCRIBED), draws).encode(errors="replace"))

    def properties(self, draws: Random) -> None:
        """A properties file with any keys and values, for ``kemu import``."""
        keys = [*fields_of(draws.choice(list(KINDS.values()))), "group.id", "group.protocol", "min.insync.replicas"]
        rows = [f"{draws.choice(keys)}={_text(draws, 3)}" for _ in range(draws.randrange(1, 9))]
        import_text("\n".join(rows).encode(errors="replace"))


SURFACES: Mapping[str, tuple[Callable[[Fuzzer, Random], None], str]] = {
    "trace-bytes": (Fuzzer.trace_bytes, "byte "),
    "trace-index": (Fuzzer.trace_index, "byte "),
    "trace-values": (Fuzzer.trace_values, "case.kemu"),
    "scenario": (Fuzzer.scenario, "case.toml"),
    "set": (Fuzzer.settings, "--set"),
    "do": (Fuzzer.actions, "--do"),
    "describe": (Fuzzer.describe, "the i"),
    "properties": (Fuzzer.properties, "the i"),
}
"""Surface -> the method that makes an input and tries it, and a part of every message.

Messages of ``kemu import`` are about "the input" or "the imported scenario".
"""


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
