"""``python -m lab.prose [ROOM ...]``: list sentences that break the rules of CONTRIBUTING.md.

The command reads docstrings, comments, help texts and Markdown. Rules: no retired word, no clause as the subject of a
sentence, at most 30 words, no reference that a reader cannot open. ``--draw N --seed S`` prints a random sample of
sentences instead, for a person to judge. The exit code is 1 if a sentence breaks a rule.
"""

import argparse
import ast
import io
import random
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = 30

RETIRED = {
    r"museum": "past bugs",
    r"marts?": "summary table",
    r"contenders?": "variant",
    r"atlas": "coverage",
    r"astray": "misdirected",
    r"(the|a|two|both|either|bare|trio) drives?": "event loop",
    r"stands? still|stood still|standing still": "is paused / is stopped",
    r"goes on|go on|went on|going on": "resumes / continues",
    r"gets? well|got well|getting well": "recovers",
    r"out of the ISR": "removed from the ISR",
    r"cuts? (records|it|them|its log|the log|a log)? ?off|cut off": "truncates (a log) / isolated (a host)",
    r"lingers?|lingered|lingering": "remains (linger.ms is Kafka's)",
    r"is the letter|to the letter": "literally / exactly",
    r"gives? out|gave out|given out": "assigns / hands out",
    r"is told of|was told of|are told of|were told of": "learns of / is informed of",
    r"hands? over": "transfers",
    r"nobody's": "without an owner",
    r"office": "leadership / controllership",
    r"books": "bookkeeping / state",
    r"a spell|spells?": "interval",
}
"""Pattern of a retired word -> word to use. A pattern matches whole words of prose, regardless of case."""

ANY_RETIRED = re.compile(rf"\b(?:{'|'.join(RETIRED)})\b", re.IGNORECASE)
KEPT = re.compile(r"linger\.ms|linger_ms|append\.linger|linger")
LAYOUT = re.compile(r"(?ms)^ *=====.*=====$|(?<=::\n)\n(?: {4}[^\n]*\n|\n)*")
"""Pattern of tables, and of indented blocks after a double colon, in docstrings."""
SUBJECT = re.compile(r"^(What|Who|Whose|Whom|Whoever|Whatever|Which)\b")
PRIVATE = re.compile(r"\b[Ss]pec \d|\bB\d+(?:\.\.|\b)(?! ?[,)]? ?broker)|\btable of bugs\b")


@frozen
class Sentence:
    """A sentence of prose and its place."""

    file: str
    line: int
    text: str

    @property
    def retired(self) -> list[str]:
        """The retired words of this sentence, each with the word to use."""
        plain = self.without_quotes
        if not ANY_RETIRED.search(plain):
            return []
        return [
            f"{match.group()!r} is retired: {better}"
            for pattern, better in RETIRED.items()
            if (match := re.search(rf"\b(?:{pattern})\b", plain, re.IGNORECASE)) and not KEPT.search(match.group())
        ]

    @property
    def without_quotes(self) -> str:
        """The sentence with a placeholder for code, quotations and remarks in brackets."""
        return re.sub(r"``[^`]*``|`[^`]*`|\"[^\"]*\"|\([^)]*\)|\[[^]]*\]", "_", self.text)

    @property
    def faults(self) -> list[str]:
        """The rules that this sentence breaks, each with the remedy; empty for a sound sentence."""
        plain, found = self.without_quotes, self.retired
        if SUBJECT.match(plain) and not plain.rstrip().endswith("?"):
            found.append("a clause is the subject: name the thing")
        if len(plain.split()) > MOST_WORDS:
            found.append(f"{len(plain.split())} words: at most {MOST_WORDS}")
        if PRIVATE.search(plain):
            found.append("a reference that no reader can open")
        return found


def sentences_of(text: str, file: str, line: int) -> Iterator[Sentence]:
    """Yield the sentences of a text. The end of a paragraph, list item, argument or table cell ends a sentence."""
    parts = re.split(r"\n\s*\n|\n\s*(?=[*-] |\d+\. |\||>|[\w*]+(?:, [\w*]+)*: )|\n(?=\S[^\n]*:\n)", text)
    at = line
    for part in parts:
        flat = " ".join(part.split())
        for cell in flat.strip("|").split(" | ") if flat.startswith("|") else [flat]:
            for each in re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(*[]|kemu )", cell.strip(" *-#>|")):
                if len(each.split()) > 2 and re.search(r"[a-z]{3}", each):
                    yield Sentence(file, at, each)
        at = line + text[: text.find(part) + len(part)].count("\n")


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed module. Parsing takes most of the time of a reader of sources, so each file is parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def of_python(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of docstrings (including attributes'), comments, and arguments such as ``help`` or
    ``summary``.
    """
    source, file = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = re.sub(r"(?m)^\s*(Args|Returns|Raises|Source|In|Out|Yields):", "\n", node.value.value)
            text = re.sub(LAYOUT, lambda match: "\n" * match.group().count("\n"), text)
            yield from sentences_of(text, file, node.lineno)
        elif isinstance(node, ast.keyword) and node.arg in ("help", "summary", "meaning", "story", "short_help"):
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            if isinstance(value, str):
                yield from sentences_of(value, file, node.value.lineno)
    block: list[str] = []
    began = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(noqa|fmt|type|mypy|---)", token.string):
            if block and token.start[0] != last + 1:
                yield from sentences_of("\n".join(block), file, began)
                block = []
            began = began if block else token.start[0]
            block, last = [*block, token.string.lstrip("# ")], token.start[0]
    yield from sentences_of("\n".join(block), file, began)


def printed(path: Path) -> Iterator[Sentence]:
    """Yield the texts that the code may print: string constants of at least three words, without docstrings."""
    tree, file = tree_of(path), path.relative_to(ROOT).as_posix()
    aside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            aside |= {id(part) for part in node.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "_" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in aside:
            text = node.value
        else:
            continue
        if len(text.split()) > 2 and re.search(r"[a-z]{3}", text):
            yield Sentence(file, node.lineno, text)


def of_markdown(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown page, without code blocks and headings."""
    text = re.sub(r"(?ms)^\s*```.*?^\s*```", lambda match: "\n" * match.group().count("\n"), path.read_text("utf-8"))
    text = re.sub(r"(?m)^#.*$", "", text)
    yield from sentences_of(text, path.relative_to(ROOT).as_posix(), 1)


def of_toml(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of summaries and comments of a scenario file; adjacent lines of a comment are one text."""
    file = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    for match in re.finditer(r'(?m)^\s*(?:summary|story)\s*=\s*"(.*)"', text):
        yield from sentences_of(match.group(1), file, text.count("\n", 0, match.start()) + 1)
    for match in re.finditer(r"(?m)(?:^ *# *(?!:schema).*\n)+", text):
        comment = re.sub(r"(?m)^ *# *", "", match.group())
        yield from sentences_of(comment, file, text.count("\n", 0, match.start()) + 1)


def sentences(rooms: list[str]) -> list[Sentence]:
    """Every sentence of these files and folders."""
    read = {".py": of_python, ".md": of_markdown, ".toml": of_toml}
    found: list[Sentence] = []
    for room in rooms:
        place = ROOT / room
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in read and "vectors" not in path.parts and "data" not in path.parts:
                found += read[path.suffix](path)
    return found


DEFAULT = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "kemu", "lab"]


def main() -> int:
    """List the faults of the rooms given, or draw a sample."""
    parser = argparse.ArgumentParser(prog="python -m lab.prose", description=__doc__)
    parser.add_argument("rooms", nargs="*", default=DEFAULT, help="files or folders, from the root of the checkout")
    parser.add_argument("--draw", type=int, help="print N random sentences instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", action="store_true", help="print only the number of faults of each file")
    asked = parser.parse_args()
    found = sentences(asked.rooms or DEFAULT)
    if asked.draw:
        for each in random.Random(asked.seed).sample(found, asked.draw):
            print(f"{each.file}:{each.line}: {each.text}")
        return 0
    faulty = [(each, each.faults) for each in found if each.faults]
    if asked.count:
        counts: dict[str, int] = {}
        for each, _ in faulty:
            counts[each.file] = counts.get(each.file, 0) + 1
        for file, count in sorted(counts.items(), key=lambda pair: -pair[1]):
            print(f"{count:5} {file}")
    else:
        for each, faults in faulty:
            print(f"{each.file}:{each.line}: {'; '.join(faults)}\n    {each.text}")
    print(f"{len(faulty)} of {len(found)} sentences break a rule")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
