"""Whole emulated Kafka clusters in one process: real state machines, virtual time, one seed, injected faults.

The public names are those of ``kemu.api``, read from here: ``import kemu`` and ``kemu.run(...)``. They are imported
when the first of them is used, so that the command line need not wait for what it does not need; ``kemu_test`` and
``strategies`` need the extra ``kemu[test]``. What lies deeper
(``kemu.protocol``, ``kemu.actors``, ``kemu.emulator``, ``kemu.tools``) is internal and may change with any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kemu import strategies as strategies
    from kemu.api import *  # noqa: F403
    from kemu.emulator.plan.actions import *  # noqa: F403
    from kemu.tools.testkit.marking import kemu_test as kemu_test

_OF_TESTS = {"kemu_test": "kemu.tools.testkit.marking", "strategies": "kemu.strategies"}
"""Name -> where it is: what needs pytest or Hypothesis (``kemu[test]``)."""


def __getattr__(name: str) -> Any:
    if name in _OF_TESTS:
        module = import_module(_OF_TESTS[name])
        return module if name == "strategies" else getattr(module, name)
    if name != "api" and not name.startswith("_"):
        api = import_module("kemu.api")
        if name in api.__all__:
            return getattr(api, name)
    raise AttributeError(f"module 'kemu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_TESTS, *import_module("kemu.api").__all__})
