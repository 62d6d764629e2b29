"""Marks of entered functions. Each watched module is compiled with code that sets the marks.

All interpreters share a file of marks, one byte for each function, so no mark is lost when an interpreter is killed.
``lab.reach_marks`` does not import kemu, because its import hook must precede the import of kemu.
"""

import ast
import builtins
import json
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

FOLDER = "KEMU_REACH"
"""The environment variable that names the folder of the two files."""
INDEX = "index.json"
MARKS = "marks"
_MARK = "__reach__"
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """A function that can be entered: file, line of the ``def``, and qualified name."""

    path: str
    line: int
    name: str


def functions_of(path: Path) -> Iterator[Function]:
    """The functions of a file that have a body.

    The result omits functions with only a docstring or three dots, and functions that only raise
    ``NotImplementedError`` or ``AssertionError``.
    """
    yield from _below(ast.parse(path.read_bytes()), str(path), ())


def _below(node: ast.AST, path: str, around: tuple[str, ...]) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, _Definition | ast.ClassDef)
        inside = (*around, child.name) if isinstance(child, _Definition | ast.ClassDef) else around
        if isinstance(child, _Definition) and not all(map(_says_only, child.body)):
            yield Function(path, child.lineno, ".".join(inside))
        yield from _below(child, path, inside if named else around)


def _says_only(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise) and statement.exc is not None:
        return ast.unparse(statement.exc).startswith(("NotImplementedError", "AssertionError"))
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def index_text(functions: Sequence[Function]) -> str:
    """``{path: {line: number of its mark}}`` as JSON."""
    index: dict[str, dict[str, int]] = {}
    for number, function in enumerate(functions):
        index.setdefault(function.path, {})[str(function.line)] = number
    return json.dumps(index)


def marked(source: bytes, path: str, numbers: dict[str, int]) -> CodeType:
    """The code of a module in which each of these functions sets its mark right after the docstring."""
    tree = ast.parse(source, path)
    for node in ast.walk(tree):
        number = numbers.get(str(node.lineno)) if isinstance(node, _Definition) else None
        if isinstance(node, _Definition) and number is not None:
            first = node.body[0]
            behind = 1 if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else 0
            mark = ast.parse(f"{_MARK}[{number}] = 1").body[0]
            for part in ast.walk(mark):
                ast.copy_location(part, node.body[behind])
            node.body.insert(behind, mark)
    return compile(tree, path, "exec", dont_inherit=True)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, numbers: dict[str, int]) -> None:
        super().__init__(name, path)
        self._numbers = numbers

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return marked(self.get_data(path), path, self._numbers)


class _Finder(MetaPathFinder):
    def __init__(self, index: dict[str, dict[str, int]]) -> None:
        self._index = index

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("kemu."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin:
            numbers = self._index.get(os.path.realpath(spec.origin))
            if numbers is not None:
                spec.loader = _Loader(fullname, spec.origin, numbers)
        return spec


def install() -> None:
    """Install an import hook, after which imported functions of the indexed files set marks in the folder of
    ``FOLDER``.
    """
    folder = Path(os.environ[FOLDER])
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    with (folder / MARKS).open("r+b") as file:
        setattr(builtins, _MARK, mmap.mmap(file.fileno(), 0))
    sys.meta_path.insert(0, _Finder(index))
