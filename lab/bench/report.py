"""The page of a run: its size, the time to make it against the time of the run, and its speed in a browser.

A browser is measured if the machine has one (``lab.browser``).
"""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kemu.emulator.plan.actions import Crash, Pause, RollingRestart
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.tools.report.collecting import Collector, RunReport
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
    for number in range(1 if quick else 2):
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
    }


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
    """Times of the page's script, without the rasterizing; {} without a browser."""
    program = chromium()
    if not program:
        say("no browser: set KEMU_CHROMIUM")
        return {}
    say("in a browser")
    with TemporaryDirectory(prefix="kemu-bench-") as place:
        file = Path(place) / "page.html"
        file.write_text(page, encoding="utf-8")
        browser = Browser(program, Path(place) / "profile")
        try:
            ready_ms = min(OpenPage(browser, file).get("report.readyMs") for _ in range(2))
            shown = OpenPage(browser, file)
            whole_ms = _least_ms(shown, "report.page.axis.show(0, report.page.axis.end)")
            close_ms = _least_ms(shown, "report.page.axis.show(report.page.axis.end * 0.4, report.page.axis.end * 0.5)")
        finally:
            browser.close()
    held = ready_ms <= MOST_READY_MS and whole_ms <= MOST_ZOOM_MS and close_ms <= MOST_CLOSE_ZOOM_MS
    figures = {"ready_ms": ready_ms, "zoom_whole_ms": whole_ms, "zoom_tenth_ms": close_ms}
    return {**{name: round(value) for name, value in figures.items()}, "browser_held": held}


def _least_ms(shown: OpenPage, change: str) -> float:
    found: list[float] = []
    for _ in range(5):
        found.append(shown.get(f"({change}, report.page.draw(), report.page.drawMs)"))
    return min(found)
