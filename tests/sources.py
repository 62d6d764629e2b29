"""The sources as those tests see them that read them."""

import ast
from functools import cache
from pathlib import Path

import pytest

from lab.prose import tree_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kemu/protocol", "kemu/actors", "kemu/emulator", "kemu/tools", "lab")


def sources(*packages: str) -> list[Path]:
    """Every module of these packages."""
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def place(path: Path) -> str:
    """A file's path from the root, with forward slashes."""
    return path.relative_to(ROOT).as_posix()


@cache
def text(path: Path) -> str:
    """What is in a file."""
    return path.read_text(encoding="utf-8")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All that Python sees in a module."""
    return tuple(ast.walk(tree_of(path)))


ONE_PROCESS = pytest.mark.xdist_group("sources")
"""The mark of tests that read all sources, so that one process parses them, once."""
