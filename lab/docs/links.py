"""Check the links of the pages: files and anchors without a network, addresses with a network."""

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from lab.docs.pages import ROOT, name_of, pages, without_blocks

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?\)")
CODE_PATH = re.compile(r"`((?:kemu|lab|tests|docs)/[\w./-]*\w/?)`")
PATIENCE_S = 20


def links(path: Path) -> Iterator[str]:
    """The targets of a page's links."""
    yield from LINK.findall(re.sub(r"`[^`\n]*`", "", without_blocks(path.read_text(encoding="utf-8"))))


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and MyST name them."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"(?m)^#{1,6} +(.+?) *$", without_blocks(path.read_text(encoding="utf-8"))):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        names.add(f"{slug}-{count}" if count else slug)
    return frozenset(names)


def broken() -> list[str]:
    """Links of pages to files or anchors that do not exist, and names of files that do not exist."""
    wrong = []
    for path in pages():
        for link in links(path):
            if re.match(r"\w+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            if not target.exists():
                wrong.append(f"{name_of(path)}: no file {link}")
            elif anchor and anchor not in anchors(target):
                wrong.append(f"{name_of(path)}: no anchor {link}")
        for named in CODE_PATH.findall(path.read_text(encoding="utf-8")):
            if path.name != "CHANGELOG.md" and not (ROOT / named).exists():
                wrong.append(f"{name_of(path)}: no file `{named}`")
    return wrong


def external() -> list[str]:
    """Addresses in the pages that do not answer; the check needs a network."""
    named: dict[str, str] = {}
    for path in pages():
        for link in links(path):
            if link.startswith("http"):
                named.setdefault(link.partition("#")[0], name_of(path))
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(_answer, named)
    return [f"{page}: {link}: {answer}" for (link, page), answer in zip(named.items(), answers, strict=True) if answer]


def _answer(address: str) -> str:
    """The reason why an address does not answer; "" for an address that answers."""
    asked = urllib.request.Request(address, headers={"User-Agent": "kemu-docs"})
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE_S):
            return ""
    except (urllib.error.URLError, OSError) as error:
        return str(error)
