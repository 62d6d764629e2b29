"""The modules that a command imports: the time to start, as a test that no load of the machine can fail."""

import ast
import json
import subprocess
import sys
from collections.abc import Collection

import pytest

from tests.sources import ROOT, nodes, place, sources

VERSION = {
    "kemu",
    "kemu.tools",
    "kemu.tools.cli",
    "kemu.tools.errors",
    "kemu.tools.estimate",
    "kemu.tools.exits",
    "kemu.tools.interrupt",
    "kemu.tools.output",
    "kemu.tools.progress",
}
"""The modules of kemu that ``kemu --version`` may import."""

NOT_OF_A_RUN = (
    "kemu.actors.broker.replica",
    *(
        f"kemu.actors.consumer.{module}"
        for module in ("catch_up", "child", "modern_d", "modern_m", "passes", "reconciler")
    ),
    "kemu.actors.controller.context",
    "kemu.actors.coordinator.consumer_group.",
    "kemu.actors.coordinator.migration",
    "kemu.actors.coordinator.modern_group",
    "kemu.api",
    "kemu.emulator.allowances",
    "kemu.emulator.exploring",
    *(f"kemu.emulator.past_bugs.{room}" for room in ("bug", "controller", "groups", "replication", "streams")),
    "kemu.emulator.replay",
    "kemu.emulator.scenario.script",
    "kemu.protocol.assign.search.flow",
    *(f"kemu.protocol.consumer_group.{module}" for module in ("assignors", "balancing", "reconciling", "shares")),
    "kemu.protocol.re2j",
    *(f"kemu.protocol.streams.{module}" for module in ("learner", "metadata", "registry", "threads")),
    "kemu.strategies",
    "kemu.tools.determinism",
    "kemu.tools.intervals",
    "kemu.tools.jobs",
    "kemu.tools.kafka_files",
    "kemu.tools.pipeline",
    *(f"kemu.tools.report.{module}" for module in ("lag_lane", "lanes", "messages", "strip", "transcript")),
    "kemu.tools.testkit",
    "kemu.tools.words",
)
"""Beginnings of the names of modules that one run with its report does not import: classic groups, no replicas."""

OF_OTHERS = {
    "kemu --version": {"click"},
    "kemu run": {
        *("attr", "attrs", "click", "msgpack", "trio"),
        *("exceptiongroup", "idna", "outcome", "sniffio", "sortedcontainers"),  # of trio
    },
}
"""Packages of others that a command may import."""

SLOW = {"asyncio", "email", "importlib.metadata", "multiprocessing", "sqlite3", "unittest", "xml"}
"""Modules of Python with many modules below them, which no run needs."""


def imported_by(*arguments: str) -> list[str]:
    """The modules in ``sys.modules`` after ``kemu ARGUMENTS``, in a process of its own."""
    return found_after(arguments, "set(sys.modules) - before")


def found_after(arguments: Collection[str], names: str) -> list[str]:
    """The sorted names that an expression gives after ``kemu ARGUMENTS``, in a process of its own."""
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom kemu.tools.cli import main\n"
        f"try:\n    main({list(arguments)!r})\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"names = sorted({names})\nimport json\nprint(json.dumps(names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def packages(modules: Collection[str]) -> set[str]:
    """Packages outside of kemu and of Python's library."""
    tops = {name.partition(".")[0] for name in modules}
    return {top for top in tops - set(sys.stdlib_module_names) - {"kemu"} if "cython" not in top}


def test_the_version_imports_only_the_list_of_commands():
    """The table of commands holds texts, so that only the called command is imported."""
    modules = imported_by("--version")

    assert {name for name in modules if name.partition(".")[0] == "kemu"} <= VERSION
    assert packages(modules) <= OF_OTHERS["kemu --version"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_run_imports_what_it_uses(form):
    """No sweep, no pipeline, no test kit, no package metadata: these are for other commands."""
    modules = imported_by("run", "steady-group", "--format", form, "--set", "duration=2s")

    assert [name for name in modules if name.startswith(NOT_OF_A_RUN)] == []
    assert packages(modules) <= OF_OTHERS["kemu run"]
    assert [name for name in modules if name in SLOW] == []
    assert ("json" in modules) == (form == "json")


def test_a_run_lets_attrs_make_no_class_of_kemu():
    """attrs takes a third of a millisecond for a class. ``kemu.protocol.frozen`` completes a class only at its use."""
    of_frozen = "vars(sys.modules['kemu.protocol.frozen'])"
    asked = f"type(vars(made)['__attrs_attrs__']) is not {of_frozen}['_Later']"
    made = found_after(
        ("run", "steady-group", "--set", "duration=2s"),
        f"made.__qualname__ for made in {of_frozen}['_WRITTEN'] if {asked}",
    )

    assert made == []


SLOW_MAKERS = {"attrs": {"define", "frozen"}}
"""Makers of classes that ``kemu.protocol.frozen`` replaces."""


def test_classes_are_made_by_the_quick_makers():
    """Except where attrs must not be imported, and in the pipeline, whose start is Spark's."""
    found = [
        f"{place(path)} imports {each.name} from {node.module}"
        for path in sources("kemu/protocol", "kemu/actors", "kemu/emulator", "kemu/tools")
        if place(path) != "kemu/protocol/frozen.py" and "/pipeline/" not in place(path)
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and ".".join(path.relative_to(ROOT).with_suffix("").parts) not in VERSION
        for each in node.names
        if each.name in SLOW_MAKERS.get(node.module or "", ())
    ]

    assert found == []
