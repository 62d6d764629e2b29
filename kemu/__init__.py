"""Emulate whole Kafka clusters in one process: real state machines, virtual time, one seed, injected faults.

The public names are those of ``kemu.api``: ``import kemu`` and ``kemu.run(...)``. A name is imported at its first use,
so that the command line starts quickly. ``kemu_test`` and ``strategies`` need the extra ``kemu[test]``. The packages
``kemu.protocol``, ``kemu.actors``, ``kemu.emulator`` and ``kemu.tools`` are internal and may change with any release.
"""

TYPE_CHECKING = False  # as typing's, whose import takes longer than the rest of this file

if TYPE_CHECKING:
    from kemu import strategies as strategies
    from kemu.api import *  # noqa: F403
    from kemu.emulator.plan.actions.classes import *  # noqa: F403
    from kemu.tools.testkit.marking import kemu_test as kemu_test
else:
    # Type checkers skip this branch, and report a name that ``kemu.api`` lacks.
    from importlib import import_module

    _OF_TESTS = {"kemu_test": "kemu.tools.testkit.marking", "strategies": "kemu.strategies"}
    """Name -> module, for names that need pytest or Hypothesis (``kemu[test]``)."""

    def __getattr__(name):
        if name in _OF_TESTS:
            module = import_module(_OF_TESTS[name])
            return module if name == "strategies" else getattr(module, name)
        if name != "api" and not name.startswith("_"):
            api = import_module("kemu.api")
            if name in api.__all__:
                return getattr(api, name)
        raise AttributeError(f"module 'kemu' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *_OF_TESTS, *import_module("kemu.api").__all__})
