"""The page of a comparison in a real browser; skipped without one, as ``test_browser`` says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kemu.emulator.metrics.metrics import FIGURES
from kemu.tools.report.comparison import ComparisonReport, page_of_comparison, summary_of, with_differences
from lab.browser import VARIABLE, Browser, OpenPage, chromium

pytestmark = [
    pytest.mark.skipif(not chromium(), reason=f"no Chromium on this machine: ${VARIABLE} may name one"),
    pytest.mark.xdist_group("pages"),
]
SEEDS = list(range(1, 9))


def row(name: str, scenario: str, plus: int, failing: int = 0) -> dict[str, Any]:
    """A cell whose figures rise with the seed; ``failing``: number of failed runs."""
    by_seed: dict[str, list[float | None]] = {figure: [0] * 8 for figure in FIGURES}
    by_seed |= {
        "downtime_sum": [1_000_000 * seed + plus for seed in SEEDS],
        "service_lost": [plus + seed for seed in SEEDS],
    }
    by_seed |= {"moved": [7] * 8, "delay_p99": [None] * 8, "lost": [plus // 1_000_000] * 8}
    return {
        "scenario": scenario, "variant": name, "seeds": SEEDS, "runs": 8, "by_seed": by_seed, "did_not_work": "",
        "verdicts": {"holds": 8 - failing, **({"violated": failing} if failing else {})}, "never_fired": [],
        "figures": {figure: summary_of(values) for figure, values in by_seed.items()},
        "causes": {"JOIN": 3_000_000, "FETCH": 1_000_000 + plus},
        "failing": [{"seed": seed, "verdict": "violated", "reason": "<b>one-owner</b>", "page": f"runs/{seed}.html",
                     "command": f"kemu run x --seed {seed}"} for seed in SEEDS[:failing]],
    }  # fmt: skip


def page_of(kind: str, *rows: dict[str, Any]) -> str:
    """The page of these cells."""
    for scenario in {each["scenario"] for each in rows}:
        with_differences([each for each in rows if each["scenario"] == scenario])
    return page_of_comparison(
        ComparisonReport(kind=kind, title="it", summary="", command="kemu compare it", note="", rows=rows)
    )


@pytest.fixture
def opened(tmp_path: Path) -> Iterator["Opened"]:
    """Opens pages, and demands that none had a fault."""
    browser = Browser(chromium(), tmp_path / "profile")
    opener = Opened(browser, tmp_path)
    yield opener
    faults = [fault for page in opener.pages for fault in page.faults]
    browser.close()
    assert faults == []


class Opened:
    """The pages of one test."""

    def __init__(self, browser: Browser, place: Path) -> None:
        self._browser = browser
        self._place = place
        self.pages: list[OpenPage] = []

    def __call__(self, page: str, at: str = "") -> OpenPage:
        """Open a page; ``at``: the part of the address behind the file."""
        file = self._place / f"{len(self.pages)}.html"
        file.write_text(page, encoding="utf-8")
        self.pages.append(OpenPage(self._browser, file, at=at))
        return self.pages[-1]


def test_equal_rows_keep_their_figures_and_the_page_says_that_they_are_equal(opened: Opened) -> None:
    """Otherwise a setting without effect would give a page without figures."""
    same, other = (opened(page_of("campaign", row("a", "s", 0), row("b", "s", plus))) for plus in (0, 5_000_000))

    said = "[...document.querySelectorAll('#equal')].map((each) => each.textContent)"
    assert same.get(said) == ["With every seed, all rows have the same figures."]
    assert same.get("document.querySelectorAll('#table tbody td').length") > 0
    assert other.get(said) == []


def test_a_comparison_shows_what_differs_and_draws_what_is_chosen(opened: Opened) -> None:
    """Shares only of figures that a seed changes; a click draws another figure, and the address keeps it."""
    text = page_of("compare", row("kafka-2.4", "s", 0), row("kafka-3.4", "s", 5_000_000))
    page = opened(text)
    cells = (
        "[...document.querySelectorAll('#table tbody tr')].map((each) => each.cells[0].querySelector('b').textContent)"
    )
    drawn = "[...document.querySelectorAll('#{} .chart b')].map((each) => each.textContent)"

    assert page.get("document.getElementById('verdict').textContent") == "all hold"
    assert page.get(cells) == ["kafka-2.4", "kafka-3.4"]
    assert page.get(drawn.format("medians")) == ["service lost", "lost"]
    assert page.get(drawn.format("shares")) == ["service lost"], "lost is always the same"
    assert page.get("document.querySelector('#table td.worse small').textContent").endswith("worse")
    button = (
        "[...document.querySelectorAll('#others button.figure')].find((each) => each.textContent === 'downtime sum')"
    )
    page.get(f"{button}.click()")
    assert "downtime sum" in page.get(drawn.format("medians"))
    kept = page.get("location.hash")
    assert page.get(drawn.format("medians")) == opened(text, kept).get(drawn.format("medians"))
    hits = page.get("report.page.charts.map((chart) => chart.hits.length)")
    assert all(hits) and page.get("document.documentElement.scrollWidth <= innerWidth")


def test_a_campaign_leads_to_its_failed_runs(opened: Opened) -> None:
    """One scenario at a time; the text of a run is never markup."""
    page = opened(page_of("campaign", row("a", "first", 0), row("b", "first", 9), row("c", "second", 0, failing=2)))

    assert page.get("document.getElementById('verdict').textContent") == "2 of 24 failed"
    assert page.get("[...document.querySelectorAll('.scenario b')].map((each) => each.textContent)") == [
        "first",
        "second",
    ]
    assert page.get("[...document.querySelectorAll('#failures a')].map((each) => each.getAttribute('href'))") == [
        "runs/1.html", "runs/2.html",
    ]  # fmt: skip
    assert "<b>one-owner</b>" in page.get("document.querySelector('#failures').textContent")
    page.click("button.scenario:nth-child(2)")
    assert page.get("document.querySelectorAll('#table tbody tr').length") == 1
    assert page.get("location.hash") == "#scenario=second"
    assert page.get("report.page.charts.length") >= 3
