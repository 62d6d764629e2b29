"""Pages: size, time to make them, and speed in a browser.

The page of a run is compared with the time of the run. The pages of a comparison and of a campaign have drawn values.
A browser is measured if the machine has one (``lab.browser``).
"""

import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.plan.actions import Crash, Pause, RollingRestart
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.tools.report.collecting import Collector, RunReport
from kemu.tools.report.comparison import ComparisonReport, page_of_comparison, summary_of, with_differences
from kemu.tools.report.page import packed, page_of
from lab.browser import Browser, OpenPage, chromium

SECOND = 1_000_000
MOST_MB_PER_100K = 1.0
MOST_MB_OF_NOTHING = 0.15
MOST_READY_MS = 1_500
MOST_ZOOM_MS = 150
MOST_CLOSE_ZOOM_MS = 40
MOST_SHARE_OF_RUN = 0.25
"""The limits of the page: megabytes per 100,000 messages, megabytes without any, and the times in a browser."""


def busy(members: int, partitions: int, seconds: int) -> Scenario:
    """Members on partitions of one topic: all are redeployed, one pauses, the coordinator's broker loses power."""
    every_us = max(1, (seconds - 60) * SECOND // members)
    return Scenario(
        name=f"busy-{members}-{partitions}",
        duration_us=seconds * SECOND,
        topics={"t": TopicSpec(partitions=partitions, records_per_s=230)},
        groups={"g": GroupSpec(topics=("t",), members=members, start_spread_us=2 * SECOND)},
        plan=(
            At(at_us=20 * SECOND, action=RollingRestart(group="g", every_us=every_us, down_us=4 * SECOND)),
            At(at_us=40 * SECOND, action=Pause(host="c2", for_us=15 * SECOND)),
            At(at_us=50 * SECOND, action=Crash(host="coordinator of g", mode="power", for_us=15 * SECOND)),
        ),
    )


def measure(say: Callable[[str], None], *, quick: bool = False) -> dict[str, Any]:
    """All figures; ``say`` shows progress."""
    scenario = busy(6, 24, 60) if quick else busy(50, 500, 320)
    plain_s: list[float] = []
    drawn_s: list[float] = []
    for number in range(1 if quick else 3):
        say(f"{scenario.name}: without a report, then with one ({number + 1})")
        plain_s.append(_timed(lambda: run(scenario, seed=1, loop="bare"))[0])
        took_s, (report, page) = _timed(lambda: _drawn(scenario))
        drawn_s.append(took_s)
    say("its parts")
    result = report.result
    few = {name: frame for name, frame in report.frames.items() if name != "messages"}
    page_mb, allowed_mb = len(page) / 1e6, MOST_MB_OF_NOTHING + MOST_MB_PER_100K * result.messages / 1e5
    run_s = min(plain_s)  # other work of the machine only adds to the least time
    share = min(drawn_s) / run_s - 1
    return {
        "messages": result.messages,
        "steps": result.steps,
        "run_s": round(run_s, 2),
        "report_share_of_run": round(share, 3),
        "page_mb": round(page_mb, 3),
        "page_mb_allowed": round(allowed_mb, 3),
        "mb_of_columns_without_messages": round(len(packed(few).data) / 1e6, 3),
        "page_held": page_mb <= allowed_mb,
        "share_held": share <= MOST_SHARE_OF_RUN,
        **_in_a_browser(page, say),
        "compare": _of_many_runs("compare", 1, 3, 6 if quick else 200, say),
        "campaign": _of_many_runs("campaign", 2 if quick else 20, 3, 6 if quick else 100, say),
    }


def _of_many_runs(kind: str, scenarios: int, variants: int, seeds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The page of a comparison or a campaign: of each scenario, some variants with the same seeds."""
    say(f"{kind}: {scenarios} scenarios, {variants} variants, {seeds} seeds")
    draw = random.Random(1)
    rows: list[dict[str, Any]] = []
    for scenario in range(scenarios):
        cells = [_cell(f"s{scenario}", f"v{variant}", seeds, draw) for variant in range(variants)]
        with_differences(cells)
        rows += cells
    report = ComparisonReport(kind=kind, title="bench", summary="", command="kemu", note="", rows=rows)
    took_s, page = _timed(lambda: page_of_comparison(report))
    figures: dict[str, Any] = {"page_s": round(took_s, 2), "page_mb": round(len(page) / 1e6, 3)}
    with _browser(say) as opens:
        if opens is not None:
            ready_ms = min(opens(page).cpu_ms() for _ in range(2))
            figures |= {"ready_ms": round(ready_ms), "ready_held": ready_ms <= MOST_READY_MS}
    return figures


def _cell(scenario: str, variant: str, seeds: int, draw: random.Random) -> dict[str, Any]:
    numbers = list(range(1, seeds + 1))
    by_seed: dict[str, list[float | None]] = {
        figure: [float(draw.randrange(10**7)) for _ in numbers] for figure in FIGURES
    }
    return {
        "scenario": scenario, "variant": variant, "seeds": numbers, "runs": seeds, "by_seed": by_seed,
        "did_not_work": "", "verdicts": {"holds": seeds}, "never_fired": [], "failing": [],
        "figures": {figure: summary_of(values) for figure, values in by_seed.items()},
        "causes": {"JOIN": draw.randrange(10**7), "FETCH": draw.randrange(10**7)},
    }  # fmt: skip


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds, the result): other work of the machine does not count."""
    gc.collect()
    began = time.process_time()
    made = work()
    return time.process_time() - began, made


def _drawn(scenario: Scenario) -> tuple[RunReport, str]:
    collector = Collector(pictures=True)
    result: RunResult = run(scenario, seed=1, loop="bare", readers=collector.readers, recorder=collector.recorder)
    report = collector.finish(result, scenario, "kemu run")
    return report, page_of(report)


def _in_a_browser(page: str, say: Callable[[str], None]) -> dict[str, Any]:
    """CPU times of the thread of a run's page, without the rasterizing; {} without a browser."""
    with _browser(say) as opens:
        if opens is None:
            return {}
        ready_ms = min(opens(page).cpu_ms() for _ in range(2))
        shown = opens(page)
        shown.box("#messages")  # the picture with the most marks; the page draws only pictures near the window
        whole_ms = _least_ms(shown, "report.page.axis.show(0, report.page.axis.end)")
        close_ms = _least_ms(shown, "report.page.axis.show(report.page.axis.end * 0.4, report.page.axis.end * 0.5)")
    held = ready_ms <= MOST_READY_MS and whole_ms <= MOST_ZOOM_MS and close_ms <= MOST_CLOSE_ZOOM_MS
    figures = {"ready_ms": ready_ms, "zoom_whole_ms": whole_ms, "zoom_tenth_ms": close_ms}
    return {**{name: round(value) for name, value in figures.items()}, "browser_held": held}


@contextmanager
def _browser(say: Callable[[str], None]) -> Iterator[Callable[[str], OpenPage] | None]:
    """A function that opens a page in a browser; None without a browser."""
    program = chromium()
    if not program:
        say("no browser: set KEMU_CHROMIUM")
        yield None
        return
    say("in a browser")
    with TemporaryDirectory(prefix="kemu-bench-") as place:
        file = Path(place) / "page.html"
        browser = Browser(program, Path(place) / "profile")

        def opens(page: str) -> OpenPage:
            file.write_text(page, encoding="utf-8")
            return OpenPage(browser, file)

        try:
            yield opens
        finally:
            browser.close()


def _least_ms(shown: OpenPage, change: str) -> float:
    found: list[float] = []
    for _ in range(5):
        before_ms = shown.cpu_ms()
        shown.get(f"({change}, report.page.draw(), 0)")
        found.append(shown.cpu_ms() - before_ms)
    return min(found)
