"""Reads a page back, as its own script does: the head, the texts and the columns."""

import base64
import hashlib
import json
import re
import zlib
from itertools import accumulate
from typing import Any, NamedTuple

from kemu.tools.report.frames import Frame


class ReadPage(NamedTuple):
    """The data of a page."""

    head: dict[str, Any]
    texts: dict[str, Any]
    frames: dict[str, Frame]

    def spent_us(self, frame: str, *names: str) -> dict[str, int]:
        """The sums of the spans of a frame, by the texts of these columns."""
        columns = self.frames[frame].columns
        spent: dict[str, int] = {}
        for since_us, until_us, *key in zip(
            columns["from_us"], columns["until_us"], *(columns[name] for name in names), strict=True
        ):
            name = "/".join(key)
            spent[name] = spent.get(name, 0) + until_us - since_us
        return spent


def read_page(page: str) -> ReadPage:
    """The data of a page; its digest must be right."""
    head = json.loads(_inside(page, "head"))
    content = zlib.decompress(base64.b64decode(_inside(page, "data")), -zlib.MAX_WBITS)
    assert hashlib.blake2b(content, digest_size=16).hexdigest() == head["digest"]
    assert len(content) == head["bytes"]
    texts = json.loads(content[: head["texts"]])
    frames, at = read_frames(content[head["texts"] :], texts["frames"])
    assert at == len(content) - head["texts"], "bytes that belong to no column"
    return ReadPage(head, texts, frames)


def _inside(page: str, name: str) -> str:
    found = re.search(rf'<script type="[^"]+" id="{name}">(.*?)</script>', page, re.S)
    assert found, name
    return found[1]


def read_frames(data: bytes, directory: dict[str, Any]) -> tuple[dict[str, Frame], int]:
    """The frames in these bytes, and the number of bytes read."""
    frames = {}
    at = 0
    for name, told in directory.items():
        rows, columns, first = told["rows"], {}, None
        for column, (width, mode, *texts) in told["columns"].items():
            part = data[at : at + width * rows]
            at += width * rows
            numbers = [
                int.from_bytes(bytes(part[byte * rows + row] for byte in range(width)), "little", signed=True)
                for row in range(rows)
            ]
            if mode == 1:
                numbers = list(accumulate(numbers))
            elif mode == 2:
                assert first is not None
                numbers = [number + start for number, start in zip(numbers, first, strict=True)]
            first = first or numbers
            columns[column] = [texts[0][number] for number in numbers] if texts else numbers
        frames[name] = Frame(columns)
    return frames, at
