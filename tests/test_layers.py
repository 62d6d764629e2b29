"""The one rule of the architecture, as a test: who may import whom. Reads sources only, so it needs nothing to run."""

import ast
import importlib
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.sources import ONE_PROCESS, PACKAGES, ROOT, nodes, place, sources

pytestmark = ONE_PROCESS

MAY_IMPORT = {
    "kemu/protocol": {"kemu.protocol"},
    "kemu/actors": {"kemu.protocol", "kemu.actors"},
    "kemu/emulator": {"kemu.protocol", "kemu.actors", "kemu.emulator"},
    "kemu/tools": {"kemu.protocol", "kemu.actors", "kemu.emulator", "kemu.tools"},
    "lab": {"kemu.protocol", "kemu.actors", "kemu.emulator", "kemu.tools", "lab"},
}
"""Imports go leftwards only: protocol <- actors <- emulator <- tools <- lab."""

IMPURE = {"trio", "time", "random", "secrets", "datetime", "os", "uuid", "socket", "threading", "asyncio", "subprocess"}
"""Clock, chance and I/O: nothing of it in ``kemu/protocol/`` and in machines."""

ONLY_IN = {
    "trio": ("kemu/emulator/engine/", "lab/bench/"),
    "duckdb": ("kemu/tools/pipeline/",),
    "pyspark": ("kemu/tools/pipeline/",),
    "hypothesis": ("kemu/tools/testkit/",),
    "pytest": ("kemu/tools/testkit/",),
}
"""Third parties with one place to live (tests are not looked at); () = only in tests. The bench measures Trio."""


ALL = sources(*PACKAGES)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import in a file, also those inside functions."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in (
            "import_module",
            "__import__",
        ):
            # A module named in a string is an import too.
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def test_a_module_imports_only_from_its_own_layer_and_those_left_of_it() -> None:
    """ARCHITECTURE.md, the rule."""
    wrong = []
    for path in ALL:
        own = next(each for each in PACKAGES if place(path).startswith(f"{each}/"))
        for line, module in imports(path):
            layer = ".".join(module.split(".")[: 2 if module.startswith("kemu.") else 1])
            if layer.partition(".")[0] in ("kemu", "tests", "lab") and layer not in MAY_IMPORT[own]:
                wrong.append(f"{place(path)}:{line}: {own} must not import {module}")

    assert wrong == []


def modules() -> dict[str, set[str]]:
    """Which module imports which, by their places without the ending; also only for types, also inside functions."""
    known = {place(path).removesuffix(".py").removesuffix("/__init__"): path for path in ALL}

    def at(name: str) -> str:
        return name.replace(".", "/")

    found: dict[str, set[str]] = {}
    for module, path in known.items():
        named: set[str] = set()
        for node in nodes(path):
            if isinstance(node, ast.Import):
                named |= {at(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                source = at(node.module or "")
                members = {f"{source}/{alias.name}" for alias in node.names}
                named |= {member if member in known else source for member in members}
        found[module] = (named & known.keys()) - {module}
    return found


def rooms() -> dict[str, set[str]]:
    """Which room imports from which. A folder is a room; a module that stands in a layer's root is one by itself."""

    def room(module: str) -> str:
        folder = module if (ROOT / module).is_dir() else module.rpartition("/")[0]
        return module if folder in PACKAGES else folder

    found: dict[str, set[str]] = {}
    for module, imported in modules().items():
        found.setdefault(room(module), set()).update({room(other) for other in imported} - {room(module)})
    return found


def assert_no_circles(imported: dict[str, set[str]]) -> None:
    """They can be read one after the other."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def test_no_circles_between_rooms() -> None:
    """Rooms can be read one after the other; only the assignors and their search know each other."""
    imported = rooms()
    imported["kemu/protocol/assign/search"].discard("kemu/protocol/assign")

    assert_no_circles(imported)


def test_no_circles_between_modules_not_even_of_types() -> None:
    """What a part needs of who owns it is a protocol that stands left of both."""
    assert_no_circles(modules())


def test_machines_and_the_language_know_no_clock_no_chance_and_no_io() -> None:
    """The same events give the same effects, on any machine and in any process."""
    wrong = []
    for path in sources("kemu/protocol", "kemu/actors"):
        for line, module in imports(path):
            if module.partition(".")[0] in IMPURE:
                wrong.append(f"{place(path)}:{line}: {module} in a pure layer")
        for node in nodes(path):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if called in ("open", "input", "print"):
                wrong.append(f"{place(path)}:{node.lineno}: I/O in a pure layer")

    assert wrong == []


def test_a_third_party_stays_in_its_place() -> None:
    """The engine knows Trio; only the pipeline knows Spark and DuckDB; only the test kit knows test tools."""
    wrong = []
    for path in ALL:
        for line, module in imports(path):
            allowed = ONLY_IN.get(module.partition(".")[0])
            if allowed is not None and not any(place(path).startswith(start) for start in allowed):
                wrong.append(f"{place(path)}:{line}: {module}")

    assert wrong == []


def test_no_module_is_named_like_one_of_the_standard_library() -> None:
    """A script run from inside a folder would import ours instead of Python's."""
    clashes = [place(path) for path in ALL if path.stem in sys.stdlib_module_names]

    assert clashes == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_import_name_is_this_repositorys(package: str) -> None:
    """What is tested is what stands here, not an installed copy."""
    module = importlib.import_module(package.replace("/", "."))

    assert module.__file__ is not None
    assert Path(module.__file__).resolve().is_relative_to(ROOT / package)
