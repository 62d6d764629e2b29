"""The pytest plugin, as a user's tests meet it: options, seeds, what a failure says, other plugins."""

import pytest

import kemu.tools.testkit.failure
import kemu.tools.testkit.strategies  # noqa: F401
from kemu.emulator.replay import repeatable, replay
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.traces import read_trace
from tests.tools.report.reading import read_page

pytest_plugins = ("pytester",)

ASYNC = """
    from kemu import kemu_test, stable

    @kemu_test(seeds=2)
    async def test_a_group_gets_stable(kemu):
        group = await kemu.group("g", members=2)
        await group.until(stable, within_ms=20_000)
        assert group.members == ("c1", "c2")
"""

VIOLATED = """
    from kemu import kemu_test
    from tests.emulator.exploring.failing import failing

    @kemu_test(failing, seeds=[4])
    def test_that_fails(kemu):
        kemu.run()
"""


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    """How many passed, failed, and so on."""
    return result.parseoutcomes()


def test_an_async_test_runs_once_for_each_seed(inner: pytest.Pytester) -> None:
    """Of its mark, of options, of the environment; options come first."""
    inner.makepyfile(ASYNC)

    assert outcomes(inner.runpytest("-v")) == {"passed": 2}
    several = inner.runpytest("-v", "--kemu-seeds=5:7")
    assert outcomes(several) == {"passed": 3}
    several.stdout.fnmatch_lines("*test_a_group_gets_stable?seed6?*")


MARKED = """
    import kemu as package
    import pytest
    import trio
    from kemu import kemu_test, stable

    SHORT = package.Scenario(
        name="short", duration_us="8s", topics={"t": package.TopicSpec(partitions=1)},
        groups={"g": package.GroupSpec(topics="t", members=1)},
    )

    async def is_stable(kemu):
        group = await kemu.group("g")
        await group.until(stable, within_ms=20_000)
        assert trio.lowlevel.current_task()

    @pytest.mark.kemu(SHORT, seeds=2)
    async def test_by_mark(kemu):
        await is_stable(kemu)

    @kemu_test(SHORT, seeds=[4])
    async def test_by_decorator(kemu):
        await is_stable(kemu)

    @pytest.mark.kemu(SHORT)
    class TestOfAClass:
        async def test_by_mark_of_the_class(self, kemu):
            await is_stable(kemu)
"""


def test_a_mark_is_the_decorator(inner: pytest.Pytester) -> None:
    """Of functions and of classes; a number of seeds means 1 to so many."""
    inner.makepyfile(MARKED)

    assert outcomes(inner.runpytest()) == {"passed": 4}


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_async_tests_work_beside_pytest_asyncio(inner: pytest.Pytester, mode: str) -> None:
    """Its own async tests too."""
    pytest.importorskip("pytest_asyncio")
    inner.makeini(f"[pytest]\nasyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\n")
    inner.makepyfile(MARKED)
    inner.makepyfile(
        test_asyncio="""
        import asyncio
        import pytest

        @pytest.mark.asyncio
        async def test_of_asyncio():
            await asyncio.sleep(0)
        """
    )

    assert outcomes(inner.runpytest()) == {"passed": 5}


def test_an_async_test_without_pytest_trio_is_refused(inner: pytest.Pytester) -> None:
    """With the command that installs it."""
    inner.makepyfile(MARKED)

    result = inner.runpytest("-p", "no:trio")

    assert result.ret in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    said = result.stdout.str() + result.stderr.str()
    assert "this needs pytest-trio: " in said
    assert "-m pip install --editable" in said


def test_the_environment_says_what_options_say(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """And an option comes before it."""
    inner.makepyfile(ASYNC)
    monkeypatch.setenv("KEMU_SEED", "9")

    inner.runpytest("-v").stdout.fnmatch_lines("*?seed9?*PASSED*")
    inner.runpytest("-v", "--kemu-seed=8").stdout.fnmatch_lines("*?seed8?*PASSED*")


def test_a_failure_says_all_that_one_needs(inner: pytest.Pytester) -> None:
    """Seed, violation, the shrunk story, the scenario to paste, the command, the trace."""
    inner.makepyfile(VIOLATED)

    result = inner.runpytest("--kemu-trace-dir=kept", "--kemu-shrink=12")

    assert outcomes(result) == {"failed": 1}
    result.stdout.fnmatch_lines(
        [
            "*Violated: liveness: liveness (not-at-rest) at *",
            "dies too late, seed 4, *",
            "violated: liveness not-at-rest at * s: group g did not come to rest*",
            "shrunk in * runs to what shows: liveness not-at-rest*",
            "  lines of the plan * 4 * 1",
            "*crash c*",
            "scenario = kemu.Scenario(*",
            "kemu.check(scenario, seeds=*4*)",
            'repeat with: pytest "test_a_failure_says_all_that_one_needs.py::test_that_fails" --kemu-seed=4',
            "trace: kept/*-seed4.kemu *",
            "report: kept/*-seed4.html *",
        ]
    )
    page, trace = sorted((inner.path / "kept").iterdir())
    assert trace.stat().st_size > 1_000
    texts = read_page(page.read_text(encoding="utf-8")).texts
    assert (texts["verdict"], texts["violations"][0]["kind"]) == ("liveness", "not-at-rest")
    assert any(line.startswith(">") for line in texts["violations"][0]["around"])


def test_a_trace_of_a_test_replays_and_is_not_run_again(inner: pytest.Pytester) -> None:
    """What the test did is not in its plan."""
    inner.makepyfile(VIOLATED)
    inner.runpytest("--kemu-trace-dir=kept", "--kemu-shrink=0")
    (path,) = (inner.path / "kept").glob("*.kemu")

    assert replay(read_trace(path)).difference is None
    with pytest.raises(TraceError, match="run the test again"):
        repeatable(read_trace(path))


def test_a_test_that_does_nothing_bad_but_leaves_something_bad_fails(inner: pytest.Pytester) -> None:
    """The cluster is judged after the test: here its group cannot come to rest in time."""
    inner.makepyfile(
        """
        from kemu import kemu_test, stable
        from tests.emulator.exploring.failing import failing

        @kemu_test(failing)
        async def test_waits(kemu):
            group = await kemu.group("g")
            await group.until(stable, within_ms=10_000)
            kemu.do("crash", host="c4")
        """
    )

    result = inner.runpytest("--kemu-shrink=0", "-p", "no:cacheprovider")

    assert outcomes(result) == {"failed": 1}
    result.stdout.fnmatch_lines(
        ["*did not come to rest*", "events:", "trace: .kemu-traces/*", "report: .kemu-traces/*"]
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kemu-seed=x",), '*--kemu-seed "x" must be a whole number*'),
        (("--kemu-seeds=5",), '*--kemu-seeds "5" must be A:B*'),
        (("--kemu-seeds=5:3",), '*--kemu-seeds "5:3" must be A:B*'),
        (("--kemu-shrink=much",), '*--kemu-shrink "much" must be a whole number*'),
    ],
)
def test_bad_options_are_one_clear_error(inner: pytest.Pytester, arguments: tuple[str, ...], said: str) -> None:
    """Before any test runs."""
    result = inner.runpytest(*arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert "Traceback" not in result.stderr.str()


def test_a_mark_without_the_fixture_is_refused(inner: pytest.Pytester) -> None:
    """It would run nothing and pass."""
    inner.makepyfile("from kemu import kemu_test\n\n@kemu_test('steady-group')\ndef test_nothing(): pass\n")

    result = inner.runpytest()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*marked with kemu, but it does not take the fixture kemu*"])


def test_the_plugin_costs_a_project_without_such_tests_nothing(inner: pytest.Pytester) -> None:
    """Nothing of kemu but the plugin is imported with it; a user's own names are his."""
    inner.makepyfile(
        """
        import sys
        import pytest

        @pytest.fixture
        def kemu():
            return "the user's"

        def test_own(kemu):
            assert kemu == "the user's"
            loaded = {name for name in sys.modules if name.startswith("kemu")}
            assert loaded <= {"kemu", "kemu.tools", "kemu.tools.testkit", "kemu.tools.testkit.plugin"}
        """
    )

    assert outcomes(inner.runpytest_subprocess()) == {"passed": 1}


def test_tests_are_shared_out_by_xdist(inner: pytest.Pytester) -> None:
    """Each worker has the plugin, and seeds are in the ids."""
    inner.makepyfile(ASYNC)

    assert outcomes(inner.runpytest_subprocess("-n1", "--kemu-seeds=1:1")) == {"passed": 1}


def test_hypothesis_shrinks_plans(inner: pytest.Pytester) -> None:
    """What is left of a failing plan is one fault, as early and as short as it goes."""
    inner.makepyfile(
        """
        import attrs
        import kemu
        from hypothesis import given, settings, Phase

        SCENARIO = kemu.Scenario(
            name="s",
            duration_us="10s",
            topics={"t": kemu.TopicSpec(partitions=1)},
            groups={"g": kemu.GroupSpec(topics="t")},
        )

        @settings(derandomize=True, database=None, max_examples=100, deadline=None)
        @given(kemu.strategies.plans(SCENARIO))
        def test_no_crash(plan):
            made = attrs.evolve(SCENARIO, plan=plan)
            assert not any(isinstance(entry.action, kemu.Pause) for entry in made.plan), kemu_says(made)

        def kemu_says(made):
            return "LEFT: " + "; ".join(entry.action.words() for entry in made.plan)

        @settings(derandomize=True, database=None, max_examples=10, deadline=None)
        @given(kemu.strategies.scenarios(), kemu.strategies.configs())
        def test_all_are_legal(scenario, config):
            kemu.GroupSpec(topics="t", config=config)
            assert scenario.topics and scenario.groups
        """
    )

    result = inner.runpytest("-p", "no:cacheprovider")

    assert outcomes(result) == {"failed": 1, "passed": 1}
    result.stdout.fnmatch_lines(["*LEFT: pause c1 for 1s"])
