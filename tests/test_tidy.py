"""What keeps the sources readable: sizes, and nothing left lying about."""

import ast
import re

from tests.sources import ONE_PROCESS, PACKAGES, ROOT, nodes, place, sources, text

pytestmark = ONE_PROCESS

MOST_LINES = 900
MOST_LINES_OF_TESTS = 1_000
"""A list of cases is read one case at a time."""
MOST_LINES_OF_A_FUNCTION = 80
CODE = sources(*PACKAGES)
TESTS = sources("tests")
DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ALLOWED_AT_ROOT = {
    "pyproject.toml", "requirements.lock", "MANIFEST.in", "bootstrap.py", "kemu", "lab", "tests",
    "docs", "examples", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", ".ci",
    ".git", ".gitignore", ".venv", "runs", "build", "dist", "kemu.egg-info", "spark-warehouse",
}  # fmt: skip
"""Caches aside, nothing else stands at the root."""


def test_files_are_short_enough_to_read() -> None:
    """A heart is split into parts before it passes this."""
    most = {path: MOST_LINES_OF_TESTS if path in TESTS else MOST_LINES for path in [*CODE, *TESTS]}
    lines = {path: len(text(path).splitlines()) for path in most}

    assert {place(path): count for path, count in lines.items() if count > most[path]} == {}


def test_functions_fit_a_screen_or_two() -> None:
    """A flat match may be long, but not longer than this."""
    lengths = {
        f"{place(path)}:{node.lineno}: {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in CODE
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {where: length for where, length in lengths.items() if length > MOST_LINES_OF_A_FUNCTION} == {}


def test_no_public_class_name_stands_twice() -> None:
    """A name means one thing in the whole project, so that it can be looked for."""
    homes: dict[str, list[str]] = {}
    for path in CODE:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(place(path))

    assert {each: places for each, places in homes.items() if len(places) > 1} == {}


def test_nothing_is_left_to_be_done_in_a_comment() -> None:
    """Open ends belong into an issue."""
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    found = [
        f"{place(path)}:{number}"
        for path in CODE
        for number, line in enumerate(text(path).splitlines(), 1)
        if marks.search(line)
    ]

    assert found == []


def test_texts_name_no_path_outside_the_repository() -> None:
    """The repository stands alone: what it speaks of is in it, or is public."""
    foreign = re.compile(r"(?<![\w.])/(?:wo" r"rk|home|Users|root)/\w")
    found = [
        f"{place(path)}: {match.group()}" for path in [*DOCS, *CODE, *TESTS] for match in foreign.finditer(text(path))
    ]

    assert found == []


def test_the_files_a_document_points_to_exist() -> None:
    """A link that leads nowhere is worse than none."""
    links = [(path, link) for path in DOCS for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", text(path))]

    assert links
    assert [f"{place(path)}: {link}" for path, link in links if not (path.parent / link).exists()] == []


def test_only_what_belongs_there_stands_at_the_root() -> None:
    """The top level is the project's table of contents."""
    there = {path.name for path in ROOT.iterdir() if not (path.name.startswith(".") and path.name.endswith("_cache"))}

    assert there - ALLOWED_AT_ROOT - {".hypothesis", ".coverage", "__pycache__"} == set()
