"""Applies a change of the source to a process that has imported the package, by replacing the code of live functions.

So a forked child needs no imports. Only code inside functions can be changed.
"""

import ast
import gc
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import TypeAlias

from attrs import frozen

from lab.operators import ROOT, Mutant

LiveFunctions: TypeAlias = dict[tuple[str, int, str], list[FunctionType]]
"""(file, first line, qualified name) -> functions."""


class CannotPatch(Exception):
    """The changed code has other closure variables, or no live function has the code."""


def live_functions() -> LiveFunctions:
    """All functions of the package by file, first line and qualified name.

    All objects are frozen afterwards: a garbage collection of a forked child would copy the pages of every object.
    """
    found: LiveFunctions = {}
    gc.unfreeze()  # ``get_objects`` leaves frozen objects out
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and (each.__module__ or "").startswith("kemu."):
            code = each.__code__
            found.setdefault((_place(code.co_filename), code.co_firstlineno, code.co_qualname), []).append(each)
    gc.freeze()
    return found


def _place(filename: str) -> str:
    path = Path(filename)
    return path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else filename


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of functions and methods. A nested function is a part of the enclosing function."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if _is_class(each):
                yield from _codes(each)
            else:
                yield each


def _is_class(code: CodeType) -> bool:
    return "__qualname__" in code.co_names and "__module__" in code.co_names


def replace(mutant: Mutant, functions: LiveFunctions) -> None:
    """Apply a mutant to this process.

    Raises:
        CannotPatch: the changed code has other closure variables, or is outside of live functions.
    """
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    try:
        changed_text = compile(mutant.applied(text), mutant.file, "exec")
    except SyntaxError as error:
        raise CannotPatch(mutant.name) from error
    old = list(_codes(compile(text, mutant.file, "exec")))
    new = list(_codes(changed_text))
    if len(old) != len(new):
        raise CannotPatch(mutant.name)
    changed = 0
    for was, becomes in zip(old, new, strict=True):
        if was != becomes:
            changed += _put(mutant.file, was, becomes, functions)
    if not changed:
        raise CannotPatch(mutant.name)


def _put(file: str, was: CodeType, becomes: CodeType, functions: LiveFunctions) -> int:
    found = functions.get((file, was.co_firstlineno, was.co_qualname), [])
    if was.co_freevars != becomes.co_freevars:
        raise CannotPatch(f"{file}: {was.co_qualname}")
    for function in found:
        function.__code__ = becomes
    return len(found)


class _Probes(ast.NodeTransformer):
    """Inserts a mark before each statement of a function."""

    def __init__(self) -> None:
        self.inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        before, self.inside = self.inside, True
        self.generic_visit(node)
        node.body = self._marked(node.body)
        self.inside = before
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self.inside and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    setattr(node, name, self._marked(block))
        return node

    def _marked(self, block: list[ast.stmt]) -> list[ast.stmt]:
        marked: list[ast.stmt] = []
        for each in block:
            if not isinstance(each, ast.Global | ast.Nonlocal):
                probe = ast.parse(f"__lines__[{each.lineno}] = 1").body[0]
                for part in ast.walk(probe):
                    ast.copy_location(part, each)
                marked.append(probe)
            marked.append(each)
        return marked


@frozen
class LineMarks:
    """Marks for the statements of files, in force after ``install``. Creating the marks takes seconds; ``install``
    takes no time.
    """

    marks: dict[str, bytearray]
    codes: tuple[tuple[FunctionType, CodeType, bytearray], ...]

    def install(self) -> None:
        """Mark every statement of the files that this process executes from now on."""
        for function, code, lines in self.codes:
            function.__globals__["__lines__"] = lines
            function.__code__ = code

    def reached(self) -> dict[str, list[int]]:
        """The marked lines by file."""
        return {file: [line for line, seen in enumerate(lines) if seen] for file, lines in self.marks.items()}


def watch_of(files: Iterable[str], functions: LiveFunctions) -> LineMarks:
    """Create marks for the statements of these files."""
    marks: dict[str, bytearray] = {}
    codes: list[tuple[FunctionType, CodeType, bytearray]] = []
    for file in files:
        text = (ROOT / file).read_text(encoding="utf-8")
        lines = marks[file] = bytearray(text.count("\n") + 2)
        tree = ast.fix_missing_locations(_Probes().visit(ast.parse(text)))
        old, new = (list(_codes(compile(each, file, "exec"))) for each in (text, tree))
        for was, becomes in zip(old, new, strict=True):
            for function in functions.get((file, was.co_firstlineno, was.co_qualname), []):
                if function.__code__.co_freevars == becomes.co_freevars:
                    codes.append((function, becomes, lines))
    return LineMarks(marks, tuple(codes))
