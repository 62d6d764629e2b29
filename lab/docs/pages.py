"""The pages of the documentation, and the fenced blocks of a page."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
FENCE = re.compile(r"^(?P<fence>```+)(?P<language>\w*)[ ]*(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.M | re.S)


@frozen
class Block:
    """A fenced block of a page."""

    language: str
    flags: frozenset[str]
    """Words after the language without a value, such as ``run``."""
    options: Mapping[str, str]
    """Words after the language with a value, such as ``file=billing.toml``."""
    text: str
    start: int
    """Index of the first character of ``text`` in the page."""
    end: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in FENCE.finditer(page):
        words = shlex.split(match["info"])
        yield Block(
            language=match["language"],
            flags=frozenset(word for word in words if "=" not in word),
            options=dict(word.split("=", 1) for word in words if "=" in word),
            text=match["text"],
            start=match.start("text"),
            end=match.end("text"),
        )


def without_blocks(page: str) -> str:
    """The page with every fenced block blanked; line numbers stay the same."""
    return FENCE.sub(lambda match: "\n" * match.group().count("\n"), page)


def pages() -> list[Path]:
    """Every Markdown page that a reader of the project finds."""
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def name_of(path: Path) -> str:
    """A page's path from the root of the checkout."""
    return path.relative_to(ROOT).as_posix()
