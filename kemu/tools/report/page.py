"""One HTML file that opens anywhere: the page of a run, without a network, a library or a build step.

A column of a frame is an array of 1, 2, 4 or 8 bytes a value. It holds differences where these are smaller. Bytes of
equal weight stand side by side. All bytes are deflated and written in base64. The same run gives the same bytes before
deflation; the head of the file has their digest.
"""

import base64
import hashlib
import html
import json
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from operator import sub
from pathlib import Path
from typing import Any

from kemu.emulator.findings import LOSS_REASONS, STAYS_BLOCKED, STAYS_DEGRADED
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.scenario.expectations import split
from kemu.emulator.trace.index import windows_around
from kemu.emulator.trace.traces import Trace
from kemu.protocol.frozen import frozen
from kemu.tools.files import write_text
from kemu.tools.report.collecting import RunReport
from kemu.tools.report.frames import Coded, Column, Frame
from kemu.tools.report.headlines import still, tiles
from kemu.tools.report.reasons import short_members, short_reason
from kemu.tools.report.run_report import Restarts, unchecked_lines
from kemu.tools.report.transcript import STEPS, Entry, entries_of

STEPS_AROUND = 10
"""Steps of the transcript before and after a violation."""
MOST_VIOLATIONS = 50
"""Violations with the entries around them; the others have their text only."""
DEFLATE_LEVEL = 6
_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
"""Bytes of a value -> the type code of its array."""


# --- bytes -----------------------------------------------------------------------------------------------------------


@frozen
class Packed:
    """Frames as bytes. ``directory``: what a page needs to read them."""

    data: bytes
    directory: Mapping[str, Any]


def packed(frames: Mapping[str, Frame]) -> Packed:
    """Frames as bytes, in the order of the frames and their columns."""
    pieces: list[bytes] = []
    directory: dict[str, Any] = {}
    for name, frame in frames.items():
        columns: dict[str, Any] = {}
        first: Sequence[int] = ()
        for column, values in frame.columns.items():
            texts, numbers = _as_numbers(values)
            relative = column == "until_us" and len(first) == len(numbers)
            width, is_delta, data = _packed_column(list(map(sub, numbers, first)) if relative else numbers)
            columns[column] = [width, 2 if relative else int(is_delta), *([] if texts is None else [texts])]
            first = first or numbers
            pieces.append(data)
        directory[name] = {"rows": len(frame), "columns": columns}
    return Packed(b"".join(pieces), directory)


def _as_numbers(values: Column) -> tuple[list[str] | None, Sequence[int]]:
    """(the distinct texts, their numbers), or (None, the numbers)."""
    if isinstance(values, Coded):
        return [*values.texts], values.codes
    if not values or not isinstance(values[0], str):
        return None, values
    known: dict[Any, int] = {}
    numbers = [known.setdefault(value, len(known)) for value in values]
    return list(known), numbers


def _packed_column(values: Sequence[int]) -> tuple[int, bool, bytes]:
    """(bytes of a value, whether the values are differences, the bytes)."""
    if not values:
        return 1, False, b""
    differences = [values[0], *map(sub, values[1:], values)]
    plain_width, delta_width = _width(values), _width(differences)
    is_delta = delta_width < plain_width
    width = delta_width if is_delta else plain_width
    cells = array(_CODES[width], differences if is_delta else values)
    if sys.byteorder == "big":
        cells.byteswap()
    data = cells.tobytes()
    return width, is_delta, b"".join(data[byte::width] for byte in range(width))


def _width(values: Sequence[int]) -> int:
    least, most = min(values), max(values)
    return next(width for width in _CODES if -(1 << (8 * width - 1)) <= least and most < 1 << (8 * width - 1))


# --- the page --------------------------------------------------------------------------------------------------------


def page_of(report: RunReport, around: Mapping[int, Sequence[str]] | None = None, reload_s: float = 0) -> str:
    """The page of a run.

    Args:
        around: step of a violation -> lines of the transcript around it.
        reload_s: the run continues, and the page reloads itself after this time. 0: the run has ended.
    """
    result = report.result
    texts = _texts(report, around or {})
    return document(
        title=f"{result.scenario}, seed {result.seed}",
        scripts=("data", "view", "marks", "lanes", "systems", "run"),
        head={"command": report.command, "reload_s": reload_s},
        texts=texts,
        frames=report.frames,
    )


def document(
    *,
    title: str,
    scripts: Sequence[str],
    head: Mapping[str, Any],
    texts: Mapping[str, Any],
    frames: Mapping[str, Frame],
    styles: Sequence[str] = ("report",),
) -> str:
    """A page of ``assets``: the named scripts, and their data.

    Args:
        title: the title of the page.
        scripts: files of ``assets`` without their ending, in their order.
        head: data that two equal runs may not share, such as the command.
        texts: further data, the same for equal runs.
        frames: columns, the same for equal runs.
        styles: files of ``assets`` without their ending, in their order.
    """
    columns = packed(frames)
    told = json.dumps({**texts, "frames": columns.directory}, separators=(",", ":"), ensure_ascii=False).encode()
    content = told + columns.data
    squeezer = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    squeezed = squeezer.compress(content) + squeezer.flush()
    about = {
        **head,
        "texts": len(told),
        "bytes": len(content),
        "digest": hashlib.blake2b(content, digest_size=16).hexdigest(),
    }
    style = "".join(asset(f"{name}.css") for name in styles)
    script = '"use strict";\n' + "\n".join(asset(f"{name}.js") for name in scripts)
    policy = (
        f"default-src 'none'; script-src '{_hash_of(script)}'; style-src '{_hash_of(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="kemu-digest" content="{about["digest"]}">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            "<noscript>This report draws its pictures with the script inside of this file. Allow scripts, or print the "
            "report as text.</noscript>",
            '<main id="page" aria-busy="true"></main>',
            f'<script type="application/json" id="head">{_in_html(about)}</script>',
            f'<script type="application/octet-stream" id="data">{base64.b64encode(squeezed).decode()}</script>',
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        )
    )


def write_page(report: RunReport, path: Path, trace: Trace | None = None, reload_s: float = 0) -> None:
    """Write the page of a run (``page_of``). ``trace``: the recorded run, for the steps around its violations.

    Raises:
        BadInput: the file cannot be written, or is of another kind.
        TraceError: the trace is damaged.
    """
    steps = [each.seq for each in report.result.violations[:MOST_VIOLATIONS]]
    around = steps_around(trace, steps) if trace is not None and steps else {}
    write_text(path, page_of(report, around, reload_s))


def steps_around(trace: Trace, steps: Iterable[int]) -> dict[int, list[str]]:
    """The lines of the transcript around each of these steps. The lines of the step itself begin with ">"."""
    wanted, place = sorted(set(steps)), 0
    found: dict[int, list[str]] = {}
    for entry in entries_of(trace, windows_around(wanted, STEPS_AROUND)):
        kind = entry.data["kind"]
        if kind in STEPS:
            place = entry.data["seq"]
        for step in wanted if kind in (*STEPS, "fact", "packet") else ():
            if abs(place - step) <= STEPS_AROUND:
                found.setdefault(step, []).extend(_lines(entry, kind in STEPS and place == step))
    return found


def _lines(entry: Entry, is_here: bool) -> list[str]:
    return [(">" if is_here else " ") + line for line in entry.lines]


def asset(name: str) -> str:
    """The text of a file of ``assets``."""
    return files("kemu.tools.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _in_html(data: Any) -> str:
    """JSON that no HTML parser takes for markup."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


# --- texts -----------------------------------------------------------------------------------------------------------


def _texts(report: RunReport, around: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """All texts of the page of a run; nothing in it depends on the machine or on the loop."""
    result, scenario = report.result, report.scenario
    figures, restarts = result.figures, Restarts(scenario, report.story)
    return {
        "kind": "run",
        "scenario": result.scenario,
        "summary": scenario.summary,
        **({"labels": [*result.labels.items()]} if result.labels else {}),
        "seed": result.seed,
        "profile": result.profile,
        "verdict": result.verdict,
        "reason": result.reason,
        "did_not_work": result.did_not_work,
        "broke": result.broke,
        "torn": report.torn,
        "virtual_us": result.virtual_us,
        "steps": result.steps,
        "messages": result.messages,
        "trace_digest": result.digest,
        "tiles": [[tile.head, tile.text, tile.at_us] for tile in tiles(figures)],
        "still": [list(each) for each in still(result)],
        "violations": list(_violations(report, around)),
        "faults": [[each.index, restarts.in_text(each.index, each.text), each.fired] for each in result.faults],
        "losses": [
            [each.at_us, f"{each.records:,} records of {each.partition} from {each.first} on: {LOSS_REASONS[each.why]}"]
            for each in result.losses
        ],
        "unmended": [f"{each.text}: {STAYS_DEGRADED[each.why]}" for each in result.unmended],
        **({"unchecked": list(unchecked_lines(result.unchecked))} if result.unchecked else {}),
        "groups": {name: service.partitions for name, service in figures.service.items()},
        "reasons": [short_reason(row.reason) for row in figures.rebalances],
        "figures": [
            [FIGURES[name].meaning, f"{FIGURES[name].text(value)} {FIGURES[name].unit}".rstrip(), name]
            for name, value in figures.values.items()
            if value
        ],
    }


def _violations(report: RunReport, around: Mapping[int, Sequence[str]]) -> Iterator[dict[str, Any]]:
    unexpected, _ = split(report.result.violations, report.scenario.expect)
    for each in report.result.violations:
        yield {
            "at_us": each.at_us,
            "step": each.seq,
            "checker": each.checker,
            "kind": each.kind,
            "text": short_members(each.text),
            "expected": each not in unexpected,
            "hosts": list(map(str, each.entities)),
            "kafkas_own": STAYS_BLOCKED.get((each.checker, each.kind), ""),
            "around": list(around.get(each.seq, ())),
        }
