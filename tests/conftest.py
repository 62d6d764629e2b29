"""Settings of the whole suite: its three sets, the order of long tests, and the cost of each room.

Every test is in exactly one set. ``soak``: sweeps with commands of their own. ``full``: tests that cost seconds and are
run before a release (``python -m lab.check --all``). ``short``: all others (``python -m lab.check``).

``tests/full.txt`` lists costly test functions: the short set runs only some of their cases, evenly spread. A test of
the full set joins the short set if ``tests/short.txt`` has its node id.
"""

import gc
import resource
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kemu.emulator.engine.mail import Decoding
from tests.examples import FULL_EXAMPLES, SHORT_EXAMPLES
from tests.terminal import terminal_signals

pytest_plugins = ("kemu.tools.testkit.plugin",)
"""The project's own, also where it is not installed."""

LONG = (
    "tests/tools/pipeline/",
    "tests/test_mutation_canary.py",
    "tests/emulator/test_streams.py",
    "tests/emulator/cluster/",
    "tests/emulator/injection/",
)
"""The longest files begin first, so that no worker is idle at the end."""
COSTLY = Path(__file__).parent / "full.txt"
PROMOTED = Path(__file__).parent / "short.txt"
FEWEST_ROOMS = 4
"""The cost of rooms is printed only if tests of so many rooms ran."""
DEAR_CPU_S = 3.0
"""A test of the short set that needs more CPU time is named at the end."""

# A test must not fail on a slow machine: benches measure time.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Two runs of one commit have one verdict. ``pytest --hypothesis-profile random`` draws other examples.
settings.register_profile("short", UNTIMED, max_examples=SHORT_EXAMPLES, derandomize=True)
settings.register_profile("full", UNTIMED, max_examples=FULL_EXAMPLES, derandomize=True)
settings.register_profile("random", UNTIMED, max_examples=FULL_EXAMPLES)


def lines_of(path: Path) -> list[str]:
    """The lines of a list, without empty ones and comments."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def promoted() -> frozenset[str]:
    """The node ids in ``tests/short.txt``."""
    return frozenset(lines_of(PROMOTED))


def costly() -> dict[str, int]:
    """Test function -> number of its cases in the short set, from ``tests/full.txt``."""
    rows = [line.split() for line in lines_of(COSTLY)]
    return {function: int(kept) for _, kept, function in rows}


def cases_beyond(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases of costly functions that only the full set runs."""
    kept = costly()
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        function = item.nodeid.partition("[")[0].partition("@")[0]
        if function in kept and item.get_closest_marker("soak") is None:
            cases.setdefault(function, []).append(item)
    for function, each in cases.items():
        chosen = {len(each) * place // kept[function] for place in range(kept[function])}
        yield from (item for place, item in enumerate(each) if place not in chosen)


def pytest_configure(config: pytest.Config) -> None:
    """In the short set draw fewer Hypothesis examples, and decode messages only where a test asks (``decoded``)."""
    short = config.getoption("markexpr", "") == "short"
    settings.load_profile(config.getoption("hypothesis_profile", None) or ("short" if short else "full"))
    Decoding.always = not short


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode every message of the test from its bytes, as all tests of the full set do; users get the sent objects."""
    monkeypatch.setattr(Decoding, "always", True)


@pytest.fixture
def in_a_terminal() -> Iterator[None]:
    """Signals end the process of the test and its child processes, also if the tests run in the background."""
    with terminal_signals():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the short set before ``-m`` is applied; move long files to the front.

    pytest-xdist runs the tests of a file in one process (``--dist loadgroup``), so that they share fixtures and caches.
    """
    listed = promoted()
    for item in cases_beyond(items):
        item.add_marker(pytest.mark.full("see tests/full.txt"))
    for item in items:
        if item.get_closest_marker("soak") is None and (
            item.get_closest_marker("full") is None or listed & {item.nodeid, item.nodeid.rpartition("@")[0]}
        ):
            item.add_marker("short")
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


# --- the cost of rooms -----------------------------------------------------------------------------------------------


def cpu_s() -> float:
    """CPU time of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, None, None]:
    """Note the CPU time when a test begins; ``pytest_runtest_makereport`` reports the difference."""
    item.stash[BEGAN_CPU_S] = cpu_s()
    yield


BEGAN_CPU_S = pytest.StashKey[float]()
CPU_S = "cpu_s"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Attach the CPU time to the last report of a test, which pytest-xdist sends to the main process."""
    if call.when == "teardown":
        item.user_properties.append((CPU_S, cpu_s() - item.stash[BEGAN_CPU_S]))


def room_of(nodeid: str) -> str:
    """The folder of a test below ``tests``, at most two levels deep."""
    folders = nodeid.partition("::")[0].split("/")[1:-1]
    return "/".join(folders[:2]) or "tests"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print why tests were skipped, how many tests each room has and what they cost, the dearest room first."""
    reasons = Counter(each.longrepr[2] for each in terminalreporter.stats.get("skipped", ()))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} tests: {reason}")
    tests: Counter[str] = Counter()
    wall_s: Counter[str] = Counter()
    used_s: Counter[str] = Counter()
    dear: list[tuple[float, str]] = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport):
                continue
            room = room_of(report.nodeid)
            wall_s[room] += report.duration
            if report.when == "teardown":
                tests[room] += 1
                cost_s = dict(report.user_properties).get(CPU_S, 0.0)
                used_s[room] += cost_s
                if cost_s > DEAR_CPU_S:
                    dear.append((cost_s, report.nodeid))
    if len(tests) < FEWEST_ROOMS:
        return
    terminalreporter.section("time by room")
    terminalreporter.write_line(f"{'tests':>6} {'CPU s':>7} {'wall s':>7}  room")
    for room in sorted(tests, key=lambda each: -wall_s[each]):
        terminalreporter.write_line(f"{tests[room]:6} {used_s[room]:7.1f} {wall_s[room]:7.1f}  {room}")
    total = f"{tests.total():6} {used_s.total():7.1f} {wall_s.total():7.1f}  all rooms"
    terminalreporter.write_line(f"{total} (CPU time includes finished child processes)")
    if dear and config.getoption("markexpr", "") == "short":
        terminalreporter.section(f"tests of the short set that need more than {DEAR_CPU_S:g} s of CPU time")
        for cost_s, nodeid in sorted(dear, reverse=True):
            terminalreporter.write_line(f"{cost_s:6.1f}  {nodeid}")


@pytest.fixture(scope="module")
def few_objects() -> Iterator[None]:
    """Exclude existing objects from garbage collections.

    A benchmark collects garbage before each figure. The suite's own objects, some hundred thousand, would slow it down.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude what collection made, hundreds of thousands of objects, from the garbage collections of the tests."""
    gc.collect()
    gc.freeze()
