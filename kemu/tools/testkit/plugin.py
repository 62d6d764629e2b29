"""The pytest plugin: the fixtures ``kemu``, ``kemu_serve`` and ``kemu_serve_async``, the mark ``kemu``, options, and
the report of a failure.

Every pytest in an environment with kemu imports this plugin. The plugin imports the rest of kemu only for a test that
needs kemu. Options of the command line override environment variables, which override the mark.
"""

import inspect
import os
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario
    from kemu.tools.testkit.cluster import EmulatedCluster
    from kemu.tools.testkit.served import AsyncServe, Serve

MARK = "kemu(scenario, *, seeds, swarm, profile, allow_unfired): the scenario and the seeds of the fixture kemu"
SHRINK_RUNS = 100
TRACES = "kemu-traces"
"""Name of the folder for traces in pytest's cache."""
_CLUSTER = pytest.StashKey["EmulatedCluster"]()
_COROUTINE = pytest.StashKey[Callable[..., Any]]()
"""Key for the coroutine function of an async test, during collection."""

OPTIONS = (
    ("--kemu-seed", "KEMU_SEED", "N", "Run tests that use kemu only with this seed."),
    ("--kemu-seeds", "KEMU_SEEDS", "A:B", "Run tests that use kemu with each of these seeds, both ends included."),
    (
        "--kemu-shrink",
        "KEMU_SHRINK",
        "RUNS",
        f"Shrink a failure with at most RUNS runs (default {SHRINK_RUNS}; 0: do not).",
    ),
    ("--kemu-trace-dir", "KEMU_TRACE_DIR", "DIR", "Folder for traces of failed tests (default: in pytest's cache)."),
)
"""(option, environment variable, placeholder for the value, help text)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin; each option has an equivalent environment variable."""
    group = parser.getgroup("kemu", "emulated Kafka clusters (kemu)")
    for option, variable, metavar, text in OPTIONS:
        group.addoption(option, metavar=metavar, default=None, help=f"{text} ({variable})")


def pytest_configure(config: pytest.Config) -> None:
    """Check the options, so that an invalid option ends the session before the first test."""
    config.addinivalue_line("markers", MARK)
    _seeds_asked_for(config)
    _shrink_runs(config)


def _setting(config: pytest.Config, option: str) -> str | None:
    variable = next(variable for name, variable, _, _ in OPTIONS if name == option)
    given = config.getoption(option)
    return given if given is not None else os.environ.get(variable) or None


def _whole(option: str, text: str) -> int:
    if not text.isdecimal():
        raise pytest.UsageError(f'{option} "{text}" must be a whole number')
    return int(text)


def _seeds_asked_for(config: pytest.Config) -> tuple[int, ...] | None:
    one, several = _setting(config, "--kemu-seed"), _setting(config, "--kemu-seeds")
    if one is not None:
        return (_whole("--kemu-seed", one),)
    if several is None:
        return None
    first, colon, last = several.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal()) or int(last) < int(first):
        raise pytest.UsageError(f'--kemu-seeds "{several}" must be A:B with A not above B, such as 1:50')
    return tuple(range(int(first), int(last) + 1))


def _shrink_runs(config: pytest.Config) -> int:
    given = _setting(config, "--kemu-shrink")
    return SHRINK_RUNS if given is None else _whole("--kemu-shrink", given)


# --- running ---------------------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for each seed of the mark or of the options."""
    if "kemu_seed" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("kemu")
    seeds = _seeds_asked_for(metafunc.config) or (_seeds_of(mark) if mark else None)
    if seeds:
        metafunc.parametrize("kemu_seed", seeds, ids=[f"seed{seed}" for seed in seeds], scope="function")


def _seeds_of(mark: pytest.Mark) -> tuple[int, ...] | None:
    seeds = mark.kwargs.get("seeds")
    return None if seeds is None else tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Mark each async test of kemu for pytest-trio, and hide its coroutine function from other plugins.

    In auto mode, pytest-asyncio would run every coroutine function that it finds during collection.
    """
    made = yield
    for node in made if isinstance(made, list) else [made]:
        is_ours = isinstance(node, pytest.Function) and node.get_closest_marker("kemu")
        if is_ours and inspect.iscoroutinefunction(node.obj):
            if not collector.config.pluginmanager.hasplugin("trio"):
                from kemu.tools.extras import missing

                raise pytest.UsageError(f"{node.nodeid}: {missing('pytest-trio', 'test')}")
            node.add_marker("trio")
            node.stash[_COROUTINE] = node.obj
            node.obj = _collected
    return made


def _collected() -> None:
    raise AssertionError("a coroutine function stands here before the first test runs")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Restore coroutine functions, and refuse tests that have the mark ``kemu`` but not the fixture ``kemu``."""
    for item in items:
        if isinstance(item, pytest.Function) and _COROUTINE in item.stash:
            item.obj = item.stash[_COROUTINE]
        if item.get_closest_marker("kemu") and "kemu" not in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid}: marked with kemu, but it does not take the fixture kemu")


@pytest.fixture
def kemu_seed() -> int:
    """The seed of a test; pytest makes one test for each seed."""
    return 1


@pytest.fixture
def kemu(request: pytest.FixtureRequest, kemu_seed: int) -> "Iterator[EmulatedCluster]":
    """An ``EmulatedCluster`` for one test; after the test, checkers judge the cluster."""
    from kemu.tools.testkit.cluster import EmulatedCluster

    mark = request.node.get_closest_marker("kemu")
    given = mark.kwargs if mark else {}
    scenario = _scenario(mark.args[0] if mark and mark.args else given.get("scenario"))
    if given.get("swarm"):
        from kemu.emulator.exploring.swarm import swarm_case

        scenario = swarm_case(kemu_seed, scenario, profile=given.get("profile")).scenario
    allow_unfired = bool(given.get("allow_unfired") or given.get("swarm"))  # a drawn fault may have no effect
    cluster = EmulatedCluster(
        seed=kemu_seed, scenario=scenario, profile=given.get("profile"), allow_unfired=allow_unfired
    )
    request.node.stash[_CLUSTER] = cluster
    yield cluster


@pytest.fixture
def kemu_serve(tmp_path: Path) -> "Iterator[Serve]":
    """A function that serves a scenario to real clients: ``kemu_serve(scenario, *options)``.

    The function returns a ``ServedCluster``. After the test, each cluster ends, and a broken rule is an error.
    """
    from kemu.tools.testkit.served import serving_several

    with serving_several(tmp_path) as serve:
        yield serve


@pytest.fixture
def kemu_serve_async(kemu_serve: "Serve") -> "AsyncServe":
    """``kemu_serve`` for async tests: ``await kemu_serve_async(scenario, *options)``.

    The function returns an ``AsyncServedCluster``. pytest-asyncio, anyio and pytest-trio may run the test.
    """
    from kemu.emulator.engine.threads import in_thread
    from kemu.tools.testkit.served import AsyncServedCluster

    async def serve(scenario: str | Path, *options: str) -> AsyncServedCluster:
        return AsyncServedCluster(await in_thread(lambda: kemu_serve(scenario, *options), lambda: None))

    return serve


def _scenario(given: Any) -> "Scenario | None":
    from kemu.emulator.scenario.files import load_scenario

    if isinstance(given, str | Path):
        return load_scenario(given)
    made: Scenario | None = given() if callable(given) else given
    return made


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """After a passed test, end all faults, let the cluster recover, and raise an error for a violation."""
    __tracebackhide__ = True
    done = yield
    cluster = pyfuncitem.stash.get(_CLUSTER, None)
    if cluster is not None and cluster.began:
        cluster.finish()
    return done


# --- failing ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure: seed, violations, a short story, the trace, and the command that repeats the test."""
    report = yield
    cluster = item.stash.get(_CLUSTER, None)
    if call.when == "call" and report.failed and cluster is not None and cluster.began:
        report.sections.append(("kemu", "\n".join(_failure_lines(item, cluster))))
    return report


def _failure_lines(item: pytest.Item, cluster: "EmulatedCluster") -> Iterator[str]:
    from kemu.tools.testkit.failure import failure_text

    name = re.sub(r"[^\w.-]+", "-", item.nodeid.rpartition("/")[2]).strip("-").removesuffix(f"-seed{cluster.seed}")
    chosen, cache = _setting(item.config, "--kemu-trace-dir"), getattr(item.config, "cache", None)
    place = Path(chosen) if chosen else cache.mkdir(TRACES) if cache else item.config.rootpath / f".{TRACES}"
    place = place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place
    nodeid = item.nodeid.replace(f"[seed{cluster.seed}]", "").replace(f"seed{cluster.seed}-", "")
    command = f'pytest "{nodeid}" --kemu-seed={cluster.seed}'
    yield from failure_text(cluster, place / f"{name}-seed{cluster.seed}.kemu", command, _shrink_runs(item.config))
