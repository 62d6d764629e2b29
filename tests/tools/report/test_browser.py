"""Pages of six presets in a real browser: named elements, filter, zoom, jumps, no error and no request.

The browser is found on the machine, or named by ``KEMU_CHROMIUM``; without one these tests are skipped.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from kemu.emulator.findings import Violation
from kemu.emulator.watching.waiting_at_end import StillWaiting
from kemu.tools.report.frames import frame_of
from kemu.tools.report.page import page_of
from lab.browser import VARIABLE, Browser, OpenPage, chromium
from tests.tools.report.presets import ONE_PROCESS, SIX, made

pytestmark = [
    pytest.mark.skipif(not chromium(), reason=f"no Chromium on this machine: ${VARIABLE} may name one"),
    ONE_PROCESS,
]

SECTIONS = {
    "rolling-restart-dynamic": ["events", "members", "partitions", "lag", "messages"],
    "cooperative-rolling-restart": ["events", "members", "partitions", "lag", "messages"],
    "broker-crash-and-return": ["events", "leaders", "members", "partitions", "lag", "messages"],
    "streams-scale-down-by-half": ["events", "tasks", "members", "partitions", "lag", "messages"],
    "reassign-controller-dies": ["events", "reassignments", "members", "partitions", "leaders", "lag", "messages"],
    "catch-up-second-crash": ["events", "ranges", "members", "partitions", "lag", "messages"],
}
"""The pictures of each page, in their order: the run's own system first."""

LINES = {
    "rolling-restart-dynamic": ["operations", "rebalances", "down, paused", "without service", "waiting records"],
    "broker-crash-and-return": [
        *("faults", "rebalances", "down, paused", "controller"),
        *("without service", "leaderless", "under-replicated", "waiting records"),
    ],
    "streams-scale-down-by-half": [
        *("operations", "rebalances", "down, paused", "without service", "tasks stopped", "waiting records"),
    ],
}
"""The rows of the first picture; rows without content are absent."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all pages."""
    started = Browser(chromium(), tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator["Opened"]:
    """Opens pages, closes them, and demands that none had a fault."""
    opener = Opened(browser, tmp_path)
    yield opener
    faults = [fault for page in opener.pages for fault in page.faults]
    for page in opener.pages:
        page.close()
    assert faults == []


class Opened:
    """The pages of one test."""

    def __init__(self, browser: Browser, place: Path) -> None:
        self._browser = browser
        self.place = place
        self.pages: list[OpenPage] = []

    def __call__(self, page: str, at: str = "", *, dark: bool = False, wide: int = 1200) -> OpenPage:
        """Open a page; ``at``: the part of the address behind the file."""
        file = self.place / f"{len(self.pages)}.html"
        file.write_text(page, encoding="utf-8")
        self.pages.append(OpenPage(self._browser, file, at=at, dark=dark, wide=wide))
        return self.pages[-1]


def window(page: OpenPage) -> list[float]:
    """The shown span in seconds."""
    found: list[float] = page.get("[report.page.axis.from / 1e6, report.page.axis.until / 1e6]")
    return found


def inked(page: OpenPage, section: str) -> int:
    """The number of colours that a picture has."""
    page.box(f"#{section}")
    count: int = page.get(
        f"""(() => {{
          const {{width, height}} = document.querySelector("#{section} canvas");
          const ink = document.querySelector("#{section} canvas").getContext("2d");
          return new Set(new Uint32Array(ink.getImageData(0, 0, width, height).data.buffer)).size; }})()"""
    )
    return count


@pytest.mark.parametrize("preset", SIX)
def test_a_page_has_the_pictures_of_its_systems(preset: str, opened: Opened) -> None:
    """In order, each with ink; the verdict, tiles and the command above; nothing wraps or is covered at 1200 pixels."""
    report, text, _ = made(preset)
    page = opened(text)

    assert page.get("document.getElementById('verdict').textContent") == report.result.verdict
    assert page.get("document.getElementById('command').textContent") == report.command
    assert page.get("[...document.querySelectorAll('.picture')].map((each) => each.id)") == SECTIONS[preset]
    assert all(inked(page, section) > 4 for section in SECTIONS[preset])
    tiles = page.get("[...document.querySelectorAll('.tile')].map((each) => each.getBoundingClientRect().top)")
    assert 3 <= len(tiles) <= 5 and len(set(tiles)) == 1
    assert page.get("document.documentElement.scrollWidth <= innerWidth")
    if preset in LINES:
        assert page.get("report.run.sections[0].lines.map((line) => line.name)") == LINES[preset]


def test_the_page_counts_what_the_file_has(opened: Opened) -> None:
    """The script decodes the columns as Python encoded them."""
    report, text, read = made("rolling-restart-dynamic")
    page = opened(text)

    for frame in ("ownership", "down", "messages", "members", "story", "lag"):
        assert page.get(f"report.run.F.{frame}.n") == len(read.frames[frame])
    page.get("D = report.run.F.down")
    spent = page.get("[...D.until_us].reduce((sum, us, row) => sum + us - D.from_us[row], 0)")
    assert spent == sum(report.result.figures.downtime_us.values())
    assert page.get("report.run.F.messages.say('api', 0)") == read.frames["messages"].columns["api"][0]
    assert page.get("document.querySelectorAll('#rebalances .card').length") == len(report.result.figures.rebalances)


def test_dragging_zooms_all_pictures_and_the_address_keeps_it(opened: Opened) -> None:
    """One window: a reader sends the address of what is seen."""
    _, text, _ = made("rolling-restart-dynamic")
    page = opened(text)
    left, top, width, _ = page.box("#events canvas")
    share = (width - 2 - 134) / 181  # pixels of a second; the run takes 181 s

    page.drag(left + 134 + 30 * share, top + 60, left + 134 + 60 * share, top + 60)

    since, until = window(page)
    assert abs(since - 30) < 2 and abs(until - 60) < 2
    kept = page.get("location.hash")
    assert kept.startswith("#t=")
    again = opened(text, kept)
    assert window(again) == pytest.approx(window(page), abs=0.001)
    again.click("#whole")
    assert window(again) == [0, pytest.approx(181, abs=1)]
    assert again.get("location.hash") == ""


def test_the_filter_hides_rows_and_empty_pictures(opened: Opened) -> None:
    """A member's name leaves the member and the partitions that it ever owned."""
    page = opened(made("broker-crash-and-return").page)

    page.fill("#filter", "c2")

    assert page.get("report.run.sections.find((each) => each.id === 'members').shown.map((row) => row.label)") == ["c2"]
    owned = page.get("report.run.sections.find((each) => each.id === 'partitions').shown.length")
    assert owned == 2
    assert page.get("document.getElementById('leaders').hidden")
    assert page.get("location.hash") == "#filter=c2"


def test_messages_are_filtered_by_api_error_and_host(opened: Opened) -> None:
    """The number of shown messages; arrows where they are few; hosts without a message have no lane."""
    read = made("rolling-restart-dynamic").read
    page = opened(made("rolling-restart-dynamic").page, "#api=JoinGroup")
    page.box("#messages")
    joins = read.frames["messages"].columns["api"].count("JoinGroup")

    assert page.get("report.run.sections.find((each) => each.id === 'messages').inView.length") == joins
    page.fill("#messages-error", "errors")
    refused = sum(
        1
        for api, error in zip(*(read.frames["messages"].columns[name] for name in ("api", "error")), strict=True)
        if api == "JoinGroup" and error
    )
    assert page.get("report.run.sections.find((each) => each.id === 'messages').inView.length") == refused
    assert "hosts: " in page.get("document.querySelector('#messages .note').textContent")


def test_a_click_on_a_mark_holds_its_details(opened: Opened) -> None:
    """And a button zooms in on it."""
    page = opened(made("catch-up-second-crash").page)
    left, top, *_ = page.box("#members canvas")
    at = page.get("report.page.axis.x(20e6)")

    page.click_at(left + at, top + 12)

    told = page.get("document.getElementById('detail').textContent")
    assert "c1: host down power" in told and "6.0 s" in told
    page.click("#detail button")
    assert window(page)[0] > 10
    page.press("Escape")
    assert page.get("document.getElementById('detail').hidden")


def test_a_card_of_a_rebalance_leads_to_its_pictures(opened: Opened) -> None:
    """From the end of the page back to the first picture, which shows the rebalance."""
    report, text, _ = made("rolling-restart-dynamic")
    page = opened(text)

    page.click("#rebalances .card:nth-child(4)")

    rebalance = report.result.figures.rebalances[3]
    since, until = window(page)
    assert since < rebalance.started_us / 1e6 and (rebalance.ended_us or 0) / 1e6 < until < since + 10
    assert 0 <= page.get("document.querySelector('#events canvas').getBoundingClientRect().top") < 100


def test_keys_move_the_window(opened: Opened) -> None:
    """n to the next rebalance, 0 to the whole run, + and arrows."""
    page = opened(made("rolling-restart-dynamic").page)

    page.press("n")
    first = window(page)
    page.press("n")
    second = window(page)
    page.press("p")
    back = window(page)
    page.press("+")
    closer = window(page)
    page.press("0")

    assert first[0] < second[0] and first[1] < 30 < second[1]
    assert back == pytest.approx(first)
    assert closer[1] - closer[0] == pytest.approx((back[1] - back[0]) / 2, rel=0.01)
    assert window(page)[0] == 0


def test_idle_time_can_be_skipped(opened: Opened) -> None:
    """Idle spans are narrow; a time and its place in pixels stay each other's inverse."""
    page = opened(made("reassign-controller-dies").page)
    before = page.get("report.page.axis.x(40e6) - report.page.axis.x(39e6)")

    page.press("i")

    assert page.get("report.run.axis.idle.length") >= 1
    assert page.get("report.page.axis.x(40e6) - report.page.axis.x(39e6)") > before * 1.2
    for us in (1_000_000, 20_500_000, 75_000_000, 89_000_000):
        assert page.get(f"report.page.axis.time(report.page.axis.x({us}))") == pytest.approx(us, abs=1_000)
    assert page.get("location.hash") == "#idle=1"


def test_a_violation_stands_above_and_leads_to_its_time(opened: Opened) -> None:
    """With the steps around it; the text of a run is never markup."""
    report = made("catch-up-second-crash").report
    wrong = Violation("one-owner", 24_000_000, 220, ("c1",), "<b>two owners</b> of events-0", kind="two-owners")
    result = evolve(report.result, verdict="violated", violations=(wrong,))
    page = opened(page_of(evolve(report, result=result), {220: [" before", ">here it is", " after"]}))

    assert page.get("document.getElementById('verdict').className") == "pill bad"
    assert "<b>two owners</b>" in page.get("document.querySelector('#violations article').textContent")
    assert page.get("document.querySelector('#violations .here').textContent") == "here it is\n"
    page.click("#violation-0")
    since, until = window(page)
    assert since < 24 < until and until - since < 5
    assert "step 220" in page.get("document.getElementById('detail').textContent")


def test_what_is_still_wrong_stands_under_the_tiles(opened: Opened) -> None:
    """And leads to the time since which it is."""
    report = made("catch-up-second-crash").report
    waits = StillWaiting("member c1 of g", 60_000_000, "joins: asked b0, whose process ended at 59 s")
    page = opened(page_of(evolve(report, result=evolve(report.result, waiting=(waits,)))))

    assert "member c1 of g for 20.0 s: joins" in page.get("document.getElementById('still').textContent")
    page.click("#still button")
    assert window(page)[0] == pytest.approx(58, abs=0.1)


def owned(rows: list[tuple[int, int, str, str]]) -> str:
    """A page whose partitions of events were owned so: (from, until) in seconds, the partition, the owner."""
    report = made("catch-up-second-crash").report
    names = ("from_us", "until_us", "group", "partition", "owner", "generation", "ended")
    told = [(a * 1_000_000, b * 1_000_000, "g", at, owner, 1, "") for a, b, at, owner in sorted(rows)]
    return page_of(evolve(report, frames={**report.frames, "ownership": frame_of(names, told)}))


def test_of_many_partitions_only_those_that_moved_are_drawn(opened: Opened) -> None:
    """Above 1,000; the note counts the others."""
    stayed = [(0, 80, f"t-{number}", "c1") for number in range(1_195)]
    moved = [row for number in range(5) for row in ((0, 30, f"u-{number}", "c1"), (30, 80, f"u-{number}", "c2"))]
    page = opened(owned(stayed + moved))

    drawn = page.get("report.run.sections.find((each) => each.id === 'partitions').rows.map((row) => row.label)")
    assert drawn == [f"u-{number}" for number in range(5)]
    assert "1,195 partitions that never changed owner" in page.get(
        "document.querySelector('#partitions .note').textContent"
    )


def test_two_owners_are_a_span_of_their_own(opened: Opened) -> None:
    """From the second owner's begin to the first one's end; not where one follows the other, or owns it again."""
    rows = [(0, 30, "t-0", "c1"), (20, 50, "t-0", "c2"), (50, 60, "t-0", "c1"), (60, 80, "t-0", "c1")]
    page = opened(owned(rows))

    twice = page.get("report.run.sections.find((each) => each.id === 'partitions').rows[0].twice")
    assert twice == [[20_000_000, 30_000_000]]


@pytest.mark.parametrize("dark", [False, True])
def test_pictures_are_legible_by_day_and_by_night(dark: bool, opened: Opened) -> None:
    """Text and ground differ enough (WCAG AA, 4.5), and so do the states of members."""
    page = opened(made("broker-crash-and-return").page, dark=dark)
    contrast = """(a, b) => {
      const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      const light = (hex) => [1, 3, 5].map((at) => linear(parseInt(hex.slice(at, at + 2), 16) / 255))
        .reduce((sum, v, place) => sum + v * [0.2126, 0.7152, 0.0722][place], 0);
      const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); }"""

    for ink, ground, least in [
        ("ink", "paper", 7), ("dim", "paper", 4.5), ("ink", "card", 7), ("red", "card", 3), ("bar", "card", 3),
        ("owned", "stable", 4.5), ("joining", "stable", 1.25), ("joining", "red", 1.8), ("home", "away", 1.7),
    ]:  # fmt: skip
        assert page.get(f"({contrast})(P.{ink}, P.{ground})") >= least, (ink, ground)
    for broker in range(8):
        assert page.get(f"({contrast})(P.brokers[{broker}], P.paper)") >= 4.0, broker


def test_the_page_of_a_run_that_continues_reloads_and_keeps_its_window(opened: Opened) -> None:
    """A page that holds details does not reload under the reader's hands. The last page does not reload."""
    report, text, _ = made("catch-up-second-crash")
    page = opened(page_of(report, reload_s=0.3), "#t=10.000000-20.000000")
    file = opened.place / "0.html"
    assert page.get("document.getElementById('verdict').textContent") == "running"
    page.get("scrollTo(0, 600)")

    file.write_text(text, encoding="utf-8")
    page.wait("document.getElementById('verdict') && document.getElementById('verdict').textContent === 'holds'")

    assert window(page) == pytest.approx([10, 20])
    assert page.get("scrollY") == 600
    held = opened(page_of(report, reload_s=0.3))
    held.get("report.page.hold({ lines: ['held'] })")
    (opened.place / "1.html").write_text(text, encoding="utf-8")
    held.get("new Promise((done) => setTimeout(done, 700))")
    assert held.get("document.getElementById('verdict').textContent") == "running"
