"""The table of allowances is true: its code, its rules and its tests exist, and its share of the judge is measured."""

import ast
from pathlib import Path

import pytest

from kemu.emulator.allowances import ALLOWANCES, Allowance
from kemu.emulator.findings import kinds_by_checker
from lab.prose import tree_of
from tests.sources import ONE_PROCESS, ROOT, nodes, text

pytestmark = ONE_PROCESS
JUDGE = ("kemu/emulator/checkers", "kemu/emulator/watching", "kemu/emulator/findings.py")
"""What counts as the judge."""


def lines_of_code(path: Path, part: ast.AST) -> set[int]:
    """Lines of this part of a file that are code: no blank lines, no comments, no docstrings."""
    rows = text(path).splitlines()
    lines = set(range(_first_line(part), (_last_line(part) or len(rows)) + 1))
    prose: set[int] = set()
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return {line for line in lines - prose if rows[line - 1].strip() and not rows[line - 1].lstrip().startswith("#")}


def _first_line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def _last_line(node: ast.AST) -> int:
    return getattr(node, "end_lineno", None) or 0


def part_of(code: str) -> tuple[Path, set[int]]:
    """The file and the lines of code that a row's ``code`` names."""
    module, _, name = code.partition(":")
    path = ROOT / (module.replace(".", "/") + ".py")
    node: ast.AST = tree_of(path)
    for each in [part for part in name.split(".") if part]:
        found = [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.ClassDef | ast.FunctionDef) and child.name == each
        ]
        assert found, f"{code}: there is no {each} in {path.name}"
        node = found[0]
    return path, lines_of_code(path, node)


def shares() -> tuple[int, int]:
    """Lines of code of the allowances, and of the judge."""
    allowed: dict[Path, set[int]] = {}
    for row in ALLOWANCES:
        for code in row.code:
            path, lines = part_of(code)
            allowed.setdefault(path, set()).update(lines)
    files = [file for each in JUDGE for file in ([ROOT / each] if each.endswith(".py") else (ROOT / each).glob("*.py"))]
    total = sum(len(lines_of_code(file, tree_of(file))) for file in files)
    return sum(len(lines) for lines in allowed.values()), total


def test_allowances_are_at_most_15_percent_of_the_judges_code() -> None:
    allowed, total = shares()
    assert allowed <= 0.15 * total, f"{allowed} of {total} lines of code are allowances"


@pytest.mark.parametrize("row", ALLOWANCES, ids=lambda row: row.name)
def test_each_allowance_bounds_a_rule_and_has_two_tests(row: Allowance) -> None:
    for rule in row.rules:
        checker, _, kind = rule.partition(": ")
        assert kind in kinds_by_checker()[checker], f"{row.name}: {checker} has no kind {kind}"
    for code in row.code:
        assert part_of(code)[1], f"{row.name}: no code in {code}"
    for test in filter(None, (row.needed_by, row.bounded_by)):
        file, _, name = test.partition("::")
        tests = {node.name: node for node in nodes(ROOT / file) if isinstance(node, ast.FunctionDef)}
        assert name in tests, f"{row.name}: {test} does not exist"
        both = row.bounded_by or "parametrize" in "".join(map(ast.unparse, tests[name].decorator_list))
        assert both, f"{row.name}: {test} is one case only"


def test_no_two_allowances_have_the_same_name() -> None:
    names = [row.name for row in ALLOWANCES]
    assert len(set(names)) == len(names)
