"""What keeps the sources readable: sizes, and nothing left lying about."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 900
MOST_LINES_OF_TESTS = 1_000
"""A list of cases is read one case at a time."""
MOST_LINES_OF_A_FUNCTION = 80
CODE = sorted(path for folder in ("protocol", "actors", "emulator", "tools") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
ALLOWED_AT_ROOT = {
    "pyproject.toml", "setup.py", "MANIFEST.in", "kemu", "emulator", "protocol", "actors", "tests", "tools",
    "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", ".ci",
    ".git", ".gitignore", ".venv", "runs", "build", "dist", "kemu.egg-info", "spark-warehouse",
}  # fmt: skip
"""Caches aside, nothing else stands at the root."""


def name(path: Path) -> str:
    """A file's path from the root."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [*CODE, *TESTS], ids=name)
def test_files_are_short_enough_to_read(path: Path) -> None:
    """A heart is split into parts before it passes this."""
    most = MOST_LINES_OF_TESTS if name(path).startswith("tests/") else MOST_LINES
    assert len(path.read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.parametrize("path", CODE, ids=name)
def test_functions_fit_a_screen_or_two(path: Path) -> None:
    """A flat match may be long, but not longer than this."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MOST_LINES_OF_A_FUNCTION, f"{name(path)}:{node.lineno}: {node.name} has {length} lines"


def test_no_public_class_name_stands_twice() -> None:
    """A name means one thing in the whole project, so that it can be looked for."""
    homes: dict[str, list[str]] = {}
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name(path))

    assert {each: places for each, places in homes.items() if len(places) > 1} == {}


@pytest.mark.parametrize("path", CODE, ids=name)
def test_nothing_is_left_to_be_done_in_a_comment(path: Path) -> None:
    """Open ends belong into an issue."""
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    found = [
        number for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if marks.search(line)
    ]

    assert found == []


@pytest.mark.parametrize("path", [*DOCS, *CODE, *TESTS], ids=name)
def test_texts_name_no_path_outside_the_repository(path: Path) -> None:
    """The repository stands alone: what it speaks of is in it, or is public."""
    foreign = re.compile(r"(?<![\w.])/(?:wo" r"rk|home|Users|root)/\w")
    text = path.read_text(encoding="utf-8")

    assert [match.group() for match in foreign.finditer(text)] == []


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_the_files_a_document_points_to_exist(path: Path) -> None:
    """A link that leads nowhere is worse than none."""
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8"))

    assert [link for link in links if not (path.parent / link).exists()] == []


def test_only_what_belongs_there_stands_at_the_root() -> None:
    """The top level is the project's table of contents."""
    there = {path.name for path in ROOT.iterdir() if not (path.name.startswith(".") and path.name.endswith("_cache"))}

    assert there - ALLOWED_AT_ROOT - {".hypothesis", ".coverage"} == set()
