"""Feed damaged and random input to kemu: ``python -m lab.fuzz SURFACE --count N``.

An input must be accepted, or refused in one message that names the file and the place. Everything else is printed with
the number that repeats it (``--first NUMBER --count 1``).

``python -m lab.fuzz all --count 1000000 --counts FILE`` divides the inputs among all surfaces. The file keeps the
counts, so that the same command continues after an interrupt.
"""

import gc
import gzip
import hashlib
import io
import json
import re
import resource
import shlex
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import click
import msgpack

from kemu.emulator.control.controls import Controls
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.world import Livelock, MachineBroke
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.plan.entries import entry_to_dict
from kemu.emulator.replay import replay
from kemu.emulator.runner import Run, controls_of, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_actions, with_values
from kemu.emulator.scenario.json_schema import scenario_schema
from kemu.emulator.scenario.presets import preset_names
from kemu.emulator.scenario.random_faults import random_faults
from kemu.emulator.scenario.scenario import Scenario, known_names
from kemu.emulator.text.kafka_keys import fields_of
from kemu.emulator.text.tables import printable
from kemu.emulator.text.toml_text import toml_text, toml_value
from kemu.emulator.trace import traces
from kemu.emulator.trace.blocks import HEAD_BYTES, TRACE_VERSION, blocks_of, first_block, write_block, write_magic
from kemu.emulator.trace.index import INDEX, IndexBuilder, Window, windows_around
from kemu.emulator.trace.traces import BROKEN, FACT, FOOTER, HEADER, PACKET, STEP, VIOLATION, footer_payload, read_runs
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.kafka_wire.apis import APIS
from kemu.protocol.kafka_wire.frames import (
    WireError,
    read_back,
    read_reply,
    read_request,
    write_reply,
    write_request,
)
from kemu.protocol.reassign.moves import UNLIMITED, Limits
from kemu.protocol.wire.values import from_row
from kemu.tools.commands.diagnose import diagnose_command
from kemu.tools.commands.history import history_of
from kemu.tools.commands.import_ import import_text
from kemu.tools.commands.import_log import import_log
from kemu.tools.commands.plan_reassignment import planned
from kemu.tools.errors import BadInput, bad_input_text
from kemu.tools.kafka_files.kafka_properties import KINDS
from kemu.tools.report.transcript import entries_of
from lab.damaged_logs import changed_json, damaged_log, invented, squeezed
from lab.drawn_frames import drawn_reply, drawn_request
from lab.from_schema import ODD, SchemaValues
from lab.fuzzed_cluster import FuzzedCluster

IN_MEMORY = Path("/dev/shm")
"""A folder without a disk; a slow disk would decide the rate."""
SLOW_S = 10.0
"""An input that takes more CPU time is a failure."""
MOST_MB = 500.0
"""A process that needs more memory is a failure."""
BATCH = 200
"""Number of inputs after which the counts are written."""
BASES = (
    "steady-group",
    "rolling-restart-static",
    "broker-crash-and-return",
    "streams-scale-out",
    "reassign-in-batches",
)
"""Scenarios that settings and actions change."""
PLACES = {"groups": "GROUP", "topics": "TOPIC", "overrides": "HOST"}
"""Table of a scenario -> the place of a name in a key."""
TIMING = ("do", "at", "when", "jitter", "after")
ORDERS_PER_RUN, MOST_ORDERED = 50, 200
FRAMES_PER_CLUSTER = 500
"""Number of frames that one cluster of the surface "served" gets."""
PROFILES_OF_FRAMES = ("kafka-3.4", "kafka-4.0")
"""The releases of these clusters: with and without the consumer protocol."""
ORDER_EVERY_US = 100_000
ODD_ROWS: tuple[Any, ...] = (
    *(each for each in ODD if each != 1 << 64), (1 << 64) - 1, b"", b"\xc1", (), (0,), ("x", 1),
)  # fmt: skip
"""Values that a well-formed trace may hold at a wrong place."""
LENGTHS = (
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\x10\0\0", b"\0\0\0\0", b"\x7f\xff", b"\xff\xfe",
    b"\0\0", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff", b"\xff\x7f", b"\0", b"\xff",
)  # fmt: skip
"""Lengths and counts in frames: null, negative, huge, empty, as int32, int16 and varint."""
APIS_OF_FRAMES = tuple(APIS.values())
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
        for _ in entries_of(trace, [Window()], ("c1", "b0")):
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
                with suppress(struct.error, TypeError):  # changed numbers that no index holds
                    payload = payload if made is None or keeps_index else made.payload(TRACE_VERSION)
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
    if rows[0][0] == STEP and made.steps_of():
        made.begin(offset, rows[0][1], rows[0][2], packet)
    for row in rows:
        if row[0] == STEP:
            made.acted[row[3]] += 1
        elif row[0] == PACKET and row[1] > packet:
            packet = row[1]
        elif row[0] == PACKET:
            made.about(row[3], row[4])
        elif row[0] == FACT:
            made.fact(from_row(row[3]))
        elif row[0] in (VIOLATION, BROKEN):
            made.finding()
            if row[0] == BROKEN:
                made.about(row[3])
    return packet


def _fed(payload: bytes) -> Any:
    return io.BytesIO(payload)


def damaged_frame(frame: bytes, draws: Random, damage: int) -> bytes:
    """A frame with one kind of damage: 0 to 6; without damage from 7 on."""
    if damage == 0:
        return draws.randbytes(draws.choice((0, 1, 12, 100, 5000)))
    if damage == 1:
        head = draws.randrange(8, 24)
        return frame[:head] + draws.randbytes(draws.choice((0, 1, 12, 100, 5000)))
    if damage < 5:
        at, length = draws.randrange(len(frame)), draws.choice(LENGTHS)
        return frame[:at] + length + frame[at + len(length) :]
    return damaged_bytes(frame, draws) if damage < 7 else frame


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
    return draws.choice(ODD_ROWS)


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


def nearly(values: SchemaValues, draws: Random) -> SchemaValues:
    """Return the values with a share of odd ones: none in half of all calls."""
    values.wrong = draws.choice((0.0, 0.0, 0.03, 0.15))
    return values


def word_of(value: Any, draws: Random) -> str:
    """Return a value as in the command line: TOML, with or without quotes; rarely damaged."""
    text = value if isinstance(value, str) and draws.random() < 0.9 else value_text(value)
    return damaged_text(text, draws) if draws.random() < 0.1 else text


def value_text(value: Any) -> str:
    """Return a value as TOML, or as JSON if TOML has no such value."""
    try:
        return toml_value(value)
    except (TypeError, ValueError, AssertionError):
        return json.dumps(value)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _Answers:
    """The answers to one order (``emulator.control.controls.Reply``)."""

    is_open = True

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def put(self, line: bytes) -> bool:
        self.lines.append(line)
        return True

    def stream(self) -> None:
        pass

    def end(self) -> None:
        pass


class Fuzzer:
    """Makes inputs below a folder, and tries them. ``close`` closes the ports of its cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _small(self) -> Path:
        return small_trace(self._folder)

    @cached_property
    def _scenarios(self) -> tuple[Scenario, ...]:
        return tuple(map(load_scenario, BASES))

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(
            (files("kemu.emulator") / "presets" / f"{name}.toml").read_text(encoding="utf-8") for name in preset_names()
        )

    @cached_property
    def _schema(self) -> Mapping[str, Any]:
        return scenario_schema()

    @cached_property
    def _kinds(self) -> tuple[str, ...]:
        return tuple(ACTIONS)

    @cached_property
    def _paths(self) -> tuple[tuple[str, Any], ...]:
        """Full and short keys, each with the schema of its values."""
        values = self._values(self._scenarios[0])
        found: list[tuple[str, Any]] = []

        def walk(schema: Any, before: str, depth: int) -> None:
            schema = values.resolved(schema)
            for name, below in schema.get("properties", {}).items():
                below = values.resolved(below)
                found.append((before + name, below))
                if depth < 4:
                    walk(below, f"{before}{name}.", depth + 1)
                    if isinstance(below.get("additionalProperties"), Mapping):
                        walk(below["additionalProperties"], f"{before}{name}.{PLACES.get(name, 'x')}.", depth + 1)

        walk(self._schema, "", 0)
        short = {
            path.rpartition(".config.")[2] if ".config." in path else path.rpartition(".")[2]: schema
            for path, schema in found
            if ".config." in path or path.count(".") == 2
        }
        return (*found, *short.items())

    def _values(self, scenario: Scenario) -> SchemaValues:
        known = known_names(scenario)
        hosts = (
            *known.hosts(),
            *(f"{role} of {group}" for role in ("coordinator", "leader") for group in known.groups),
        )
        topics = tuple(name for name, _ in known.topics)
        partitions = tuple(f"{name}-{number}" for name, count in known.topics for number in range(min(count, 3)))
        names = {
            **dict.fromkeys(("host", "hosts", "a", "b", "side", "by", "from"), hosts),
            **dict.fromkeys(("group", "groups"), known.groups),
            **dict.fromkeys(("topic", "topics"), topics),
            **dict.fromkeys(("partition", "partitions"), partitions),
            "assignors": tuple(ASSIGNORS),
        }
        return SchemaValues(self._schema, {key: each for key, each in names.items() if each})

    def _entry(self, draws: Random, scenario: Scenario) -> dict[str, Any]:
        """A line of a plan: a random form of an action, with changes, or values for the keys of an action."""
        values = nearly(self._values(scenario), draws)
        if draws.random() < 0.5 and scenario.groups:
            row = entry_to_dict(draws.choice(random_faults(scenario, draws.randrange(1 << 30), 3)))
            action = values.resolved({"$ref": f"#/$defs/do-{row['do']}"})["properties"]
            for key in [key for key in row if draws.random() < 2 * values.wrong]:
                row[key] = values.value(action[key] if action[key] is not True else {}, draws, key)
            return row
        kind = draws.choice(self._kinds)
        row = values.table({"$ref": f"#/$defs/do-{kind}"}, draws)
        timing = {"at": draws.choice(("1s", "20s", "0s", "40s"))} if draws.random() < 0.95 else {"after": "1s"}
        return {"do": kind, **{key: value for key, value in row.items() if key not in TIMING}, **timing}

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
        """The text of a scenario, damaged, or with tables that the JSON Schema describes."""
        if draws.random() < 0.5:
            text = damaged_text(draws.choice(self._texts), draws)
        else:
            base = draws.choice(self._scenarios)
            values = nearly(self._values(base), draws)
            data = base.to_dict()
            for key in draws.sample(list(self._schema["properties"]), draws.choice((1, 1, 2))):
                data[key] = values.value(self._schema["properties"][key], draws, key)
            if draws.random() < 0.5:
                data["plan"] = [*base.to_dict().get("plan", ()), self._entry(draws, base)]
            try:
                text = toml_text(data)
            except (TypeError, ValueError, AssertionError, AttributeError):  # values that TOML does not have
                text = json.dumps(data)
        scenario_from_toml(text, source="case.toml")

    def settings(self, draws: Random) -> None:
        """A value of ``--set``: a key with a value of its kind, or a damaged one."""
        base = draws.choice(self._scenarios)
        values = nearly(self._values(base), draws)
        key, schema = draws.choice(self._paths)
        known = known_names(base)
        for place, names in (("GROUP", known.groups), ("TOPIC", known.declared), ("HOST", known.members[:3])):
            key = key.replace(place, draws.choice(names or ("x",)))
        if draws.random() < 0.1:
            key = damaged_text(key, draws)
        text = f"{key}={word_of(values.value(schema, draws, key.rpartition('.')[2]), draws)}"
        with_values(base, [text if draws.random() < 0.95 else damaged_text(text, draws)])

    def actions(self, draws: Random) -> None:
        """A value of ``--do``: a line of a plan, or a damaged one."""
        base = draws.choice(self._scenarios)
        row = self._entry(draws, base)
        kind = str(row.pop("do"))
        text = " ".join([kind, *(f"{key}={shlex.quote(word_of(value, draws))}" for key, value in row.items())])
        with_actions(base, [text if draws.random() < 0.95 else damaged_text(text, draws)])

    def frame(self, draws: Random) -> None:
        """A frame of a real client, or of a broker to it, of any spoken API and version; most frames are damaged."""
        api = draws.choice(APIS_OF_FRAMES)
        version = draws.randrange(api.lowest, api.highest + 1)
        request = drawn_request(draws, api, version)
        is_reply = draws.random() < 0.2
        if is_reply:
            reply = drawn_reply(draws, api, version)
            frame = write_reply(
                request, reply.message, beside=reply.beside, records=reply.records, further=reply.further
            )[4:]
        else:
            frame = write_request(request)[4:]
        frame = damaged_frame(frame, draws, draws.randrange(8))
        try:
            if is_reply:
                read_reply(frame, api.key, version)
            else:
                read_back(read_request(frame))
        except WireError as error:
            raise BadInput(f"frame: {printable(str(error))}") from error

    def served(self, draws: Random) -> None:
        """A frame of a real client for the machines of a served cluster; some frames are damaged."""
        if self._frames_left == 0:
            self.close()
            self._frames_left, self._cluster = (
                FRAMES_PER_CLUSTER,
                FuzzedCluster(profile=draws.choice(PROFILES_OF_FRAMES)),
            )
        self._frames_left -= 1
        api = draws.choice(APIS_OF_FRAMES)
        request = drawn_request(draws, api, draws.randrange(api.lowest, api.highest + 1))
        frame = damaged_frame(write_request(request)[4:], draws, draws.randrange(20))
        assert self._cluster is not None
        try:
            is_open = self._cluster.ask(draws.choice(("b0", "b1", "b2")), frame)
        except (MachineBroke, Livelock) as error:
            self._frames_left = 0
            raise AssertionError(f"after {frame!r}") from error
        said = "; ".join(self._cluster.said)
        self._cluster.said.clear()
        if not is_open:
            assert said, f"closed without a reason: {frame!r}"
            raise BadInput(f"frame: {printable(said)}")

    def close(self) -> None:
        """Close the cluster of the surface "served"."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    _frames_left = 0
    _cluster: FuzzedCluster | None = None

    def control(self, draws: Random) -> None:
        """A line for the control socket of a live run."""
        base = self._scenarios[0]
        row = {key: value for key, value in self._entry(draws, base).items() if key != "at" or draws.random() < 0.05}
        for key in ("partitions", "count"):  # a large number is allowed, and costs time
            if type(row.get(key)) is int:
                row[key] = min(row[key], MOST_ORDERED)
        line = json.dumps(row)
        if draws.random() < 0.2:
            line = damaged_text(line, draws)
        if self._orders_left == 0:
            self._orders_left = ORDERS_PER_RUN
            self._begin_run(base)
        self._orders_left -= 1
        answers = _Answers()
        self._controls.take(line.encode(errors="replace"), answers)
        world = self._run.world
        try:
            run_plain(world, world.now_us + ORDER_EVERY_US)
        except (MachineBroke, Livelock) as error:
            self._orders_left = 0
            raise AssertionError(f"after {line!r}") from error
        answer = json.loads(answers.lines[0])
        assert "a bug of kemu" not in answer.get("error", ""), f"{line!r}: {answer['error']}"
        if "error" in answer:
            raise BadInput(f"order: {answer['error']}")

    def _begin_run(self, base: Scenario) -> None:
        self._run = Run(base, seed=1, loop="bare")
        self._controls = controls_of(self._run, None)
        self._run.begin()

    _orders_left = 0
    _run: Run
    _controls: Controls

    def describe(self, draws: Random) -> None:
        """The output of Kafka's tools, damaged, for ``kemu import``."""
        import_text(damaged_text(draws.choice(DESCRIBED) + draws.choice(DESCRIBED), draws).encode(errors="replace"))

    def properties(self, draws: Random) -> None:
        """A properties file with any keys and values, for ``kemu import``."""
        keys = [*fields_of(draws.choice(list(KINDS.values()))), "group.id", "group.protocol", "min.insync.replicas"]
        rows = [f"{draws.choice(keys)}={_text(draws, 3)}" for _ in range(draws.randrange(1, 9))]
        import_text("\n".join(rows).encode(errors="replace"))

    def reassignment(self, draws: Random) -> None:
        """The two files of ``kemu plan-reassignment``."""
        paths = self._folder / "current.json", self._folder / "target.json"
        topics = draws.sample(("orders", "payments", "x"), draws.randrange(1, 3))
        for path in paths:
            rows = [
                {"topic": topic, "partition": number, "replicas": draws.sample(range(5), draws.randrange(1, 4))}
                for topic in topics
                for number in range(2)
            ]
            if draws.random() < 0.3:
                row = draws.choice(rows)
                row[draws.choice(("topic", "partition", "replicas", "log_dirs"))] = draws.choice(ODD)
            text = json.dumps({"version": 1, "partitions": rows})
            text = damaged_text(text, draws) if draws.random() < 0.3 else text
            path.write_text(text, encoding="utf-8", errors="replace")
        planned(str(paths[0]), str(paths[1]), Limits(draws.choice((1, UNLIMITED)), draws.choice((1, UNLIMITED)), 1))

    def log(self, draws: Random) -> None:
        """Damaged logs of brokers and clients, for ``kemu import-log``."""
        paths = self._logs(draws)
        form = draws.choice(("text", "json", "events", "events"))
        out = self._folder / "case-out.kemu" if draws.random() < 0.3 else None
        report = self._folder / "case-out.html" if draws.random() < 0.01 else None
        said = self._said(
            import_log,
            files=paths,
            kinds=("auto",),
            zones=(),
            out=out,
            form=form,
            master=None,
            memory="",
            report=report,
        )
        if form != "events":
            return
        contents = {path.name: squeezed(_unpacked(path)) for path in paths}
        for line in said.splitlines():
            event = json.loads(line)
            assert not (fact := invented(contents[event["file"]], event)), f"{fact} is invented: {line}"

    def diagnosed_log(self, draws: Random) -> None:
        """Damaged logs of brokers and clients, for ``kemu diagnose``."""
        files = tuple(map(str, self._logs(draws)))
        form = draws.choice(("text", "json"))
        self._said(diagnose_command, files=files, verbose=draws.random() < 0.5, form=form, report=None)

    def _logs(self, draws: Random) -> tuple[Path, ...]:
        paths = tuple(self._folder / f"case-{number}.log" for number in range(draws.choice((1, 1, 1, 2))))
        for path in paths:
            path.write_bytes(damaged_log(draws))
        return paths

    def _said(self, command: click.Command, **values: Any) -> str:
        """Return the standard output of a command, or raise the command's error."""
        assert command.callback is not None
        outputs = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
        try:
            with redirect_stdout(outputs[0]), redirect_stderr(outputs[1]):
                command.callback(**values)
        finally:
            texts = []
            for output in outputs:
                output.flush()
                texts.append(output.buffer.getvalue().decode())
            found = _CONTROL.search("".join(texts))
            assert found is None, f"the output has the control character {found[0]!r}"
        return texts[0]

    @cached_property
    def _campaign(self) -> Mapping[str, bytes]:
        """The JSON files of a finished campaign, by name."""
        from kemu.tools.pipeline.campaign import begin
        from kemu.tools.pipeline.cells import Spec, make_cells
        from kemu.tools.pipeline.shipping import fingerprint
        from kemu.tools.pipeline.worker import run_chunk

        out = self._folder / "campaign"
        cells = make_cells(["steady-group"], ["kafka-3.4"], ["duration=3s"])
        self._spec = Spec(cells, 1, 2, "none", fingerprint())
        made = begin(out, self._spec, {0: 4.0}, 1)
        for chunk in made.chunks:
            run_chunk(str(out), made.id, chunk, cells[0], "none", fingerprint())
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*.json"))}

    def campaign(self, draws: Random) -> None:
        """A campaign's folder with a damaged description or summary."""
        from kemu.tools.pipeline.campaign import load, resume, table_of_cells
        from kemu.tools.pipeline.drawing import command_of
        from kemu.tools.pipeline.errors import CampaignError

        content, out = self._campaign, self._folder / "campaign"
        for each, data in self._damaged.items():
            (out / each).write_bytes(data)
        name = draws.choice(sorted(content))
        if draws.random() < 0.5:
            damaged = damaged_text(content[name].decode(), draws).encode(errors="replace")
        else:
            damaged = json.dumps(changed_json(json.loads(content[name]), draws)).encode()
        (out / name).write_bytes(damaged)
        self._damaged = {name: content[name]}
        try:
            found = load(out)
            table_of_cells(found.spec.cells, found.lines())
            command_of(found.spec, out)
            resume(out, self._spec)
        except CampaignError as error:  # as the commands do
            raise BadInput(str(error)) from None

    _damaged: Mapping[str, bytes] = {}
    """Name of a file of the campaign that the last input damaged -> its good content."""


def _unpacked(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode(errors="replace")


SURFACES: Mapping[str, tuple[Callable[[Fuzzer, Random], None], str]] = {
    "trace-bytes": (Fuzzer.trace_bytes, "byte "),
    "trace-index": (Fuzzer.trace_index, "byte "),
    "trace-values": (Fuzzer.trace_values, "case.kemu"),
    "scenario": (Fuzzer.scenario, "case.toml"),
    "set": (Fuzzer.settings, "--set"),
    "do": (Fuzzer.actions, "--do"),
    "control": (Fuzzer.control, "order: "),
    "describe": (Fuzzer.describe, "the i"),
    "properties": (Fuzzer.properties, "the i"),
    "reassignment": (Fuzzer.reassignment, ".json"),
    "campaign": (Fuzzer.campaign, "campaign"),
    "frame": (Fuzzer.frame, "frame: "),
    "served": (Fuzzer.served, "frame: "),
    "import-log": (Fuzzer.log, "case-"),
    "diagnose": (Fuzzer.diagnosed_log, "case-"),
}
"""Surface -> the method that makes an input and tries it, and a part of every message.

Messages of ``kemu import`` are about "the input" or "the imported scenario".
"""


SHARES: Mapping[str, int] = {
    "trace-bytes": 2, "trace-index": 1, "trace-values": 2, "scenario": 10, "set": 12, "do": 14, "control": 8,
    "describe": 12, "properties": 13, "reassignment": 8, "campaign": 4, "frame": 9, "served": 1, "import-log": 3,
    "diagnose": 1,
}  # fmt: skip
"""Surface -> its share of the inputs of ``all``, in percent: fewer where an input costs more time."""


@dataclass
class Counts:
    """The outcomes of the inputs of one surface."""

    following: int = 1
    """Number of the next input."""
    accepted: int = 0
    refused: int = 0
    failed: list[int] = field(default_factory=list)
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    most_mb: float = 0.0

    @property
    def tried(self) -> int:
        """Number of tried inputs."""
        return self.accepted + self.refused + len(self.failed)

    def text(self) -> str:
        """The counts as one line."""
        said = f"{self.accepted} accepted, {self.refused} refused, {len(self.failed)} failed"
        rate = self.tried / (self.cpu_s or 1)
        return (
            f"{said} in {self.cpu_s:.0f} s of CPU time ({rate:.0f}/s, "
            f"the slowest {self.slowest_s:.1f} s), at most {self.most_mb:.0f} MB"
        )


class TooSlow(BaseException):
    """An input takes more than ``SLOW_S`` seconds of CPU time."""


def _too_slow(*_: object) -> None:
    raise TooSlow


def try_one(fuzzer: Fuzzer, surface: str, number: int) -> tuple[str, str]:
    """Try one input; return "accepted", "refused" or "failed", and the message or the traceback."""
    tries, word = SURFACES[surface]
    outcome, text = "accepted", ""
    had = signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SLOW_S)
    try:
        tries(fuzzer, Random(f"{surface} {number}"))
    except TooSlow:
        return "failed", f"more than {SLOW_S:.0f} s: {traceback.format_exc(-8)}"
    except Exception as error:
        refused = bad_input_text(error)
        if refused is None:
            return "failed", traceback.format_exc()
        if word not in refused or "\x1b" in refused:
            return "failed", f"the message names no place, or has control characters: {refused!r}"
        outcome, text = "refused", refused
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, had)
    return outcome, text


def try_batch(fuzzer: Fuzzer, surface: str, counts: Counts, count: int) -> None:
    """Try the next inputs of a surface, add their outcomes to the counts, and print failures."""
    had_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for number in range(counts.following, counts.following + count):
        began_s = time.process_time()
        outcome, text = try_one(fuzzer, surface, number)
        spent_s = time.process_time() - began_s
        counts.cpu_s += spent_s
        counts.slowest_s = max(counts.slowest_s, spent_s)
        mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if mb > max(MOST_MB, had_mb) and counts.most_mb <= MOST_MB:
            outcome, text = "failed", f"the process needs {mb:.0f} MB"
        counts.most_mb = max(counts.most_mb, mb)
        if outcome == "failed":
            counts.failed.append(number)
            click.echo(f"{surface} {number}: {text}")
        elif outcome == "accepted":
            counts.accepted += 1
        else:
            counts.refused += 1
    counts.following += count


@click.command()
@click.argument("surface", type=click.Choice([*SURFACES, "all"]))
@click.option("--count", default=1_000, show_default=True, help="Number of inputs.")
@click.option("--first", type=int, help="Number of the first input (default: 1, or the next one of --counts).")
@click.option("--counts", "file", type=click.Path(path_type=Path), help="Add the counts to this file, and continue it.")
def main(surface: str, count: int, first: int | None, file: Path | None) -> None:
    """Try inputs; exit with 1 if one fails.

    With --counts, the inputs of earlier calls count, if the code of kemu is the same.
    """
    from kemu.tools.pipeline.shipping import fingerprint

    code, known = fingerprint(), json.loads(file.read_text()) if file is not None and file.exists() else {}
    all_counts = {name: Counts(**each) for name, each in known.get(code, {}).items()}
    wanted = {name: count * share // 100 for name, share in SHARES.items()} if surface == "all" else {surface: count}
    gc.set_threshold(200_000)  # as in kemu.__main__: the commands import some hundred modules
    with (
        tempfile.TemporaryDirectory(prefix="kemu-fuzz-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder,
        closing(Fuzzer(Path(folder))) as fuzzer,
    ):
        targets: dict[str, int] = {}
        for name, more in wanted.items():
            counts = all_counts.setdefault(name, Counts(following=_next_number(known, name)))
            counts.following = counts.following if first is None else first
            targets[name] = more if surface == "all" else counts.tried + more
        while left := {name: most - all_counts[name].tried for name, most in targets.items()}:
            targets = {name: targets[name] for name, rest in left.items() if rest > 0}
            for name in targets:
                batch = SHARES[name] * BATCH // 10 if surface == "all" else BATCH
                try_batch(fuzzer, name, all_counts[name], min(batch, left[name]))
                if file is not None:
                    known[code] = {each: asdict(counts) for each, counts in all_counts.items()}
                    fresh = file.with_name(f".{file.name}")
                    fresh.write_text(json.dumps(known, indent=1))
                    fresh.replace(file)  # an interrupt leaves whole counts
    for name in wanted:
        click.echo(f"{name}: {all_counts[name].text()}")
    if surface == "all":
        click.echo(f"{sum(all_counts[name].tried for name in wanted)} inputs of the code {code}")
    sys.exit(1 if any(all_counts[name].failed for name in wanted) else 0)


def _next_number(known: Mapping[str, Any], surface: str) -> int:
    """The number after all inputs of a surface, also of other code: another code tries other inputs."""
    return max((each[surface]["following"] for each in known.values() if surface in each), default=1)


if __name__ == "__main__":
    main()
