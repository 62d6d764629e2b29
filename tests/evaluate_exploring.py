"""Does exploring find past bugs of order that seeds alone do not? The same number of runs for each way to choose them.

``python -m tests.evaluate_exploring --out found.jsonl`` runs, ``--table found.jsonl`` prints what came of it
(``docs/explanation/past-bugs.md`` has it). What is done was fixed before anything was run:

* Bugs: the exhibits of the past bug whose plan holds messages other than fetches back, without these lines. (To hold
  fetches back for seconds makes a follower slow; that is no matter of order.) All the rest of the plan stays.
* Strategies: the seeds' own orders (``plain``), ``ties``, ``pct`` and ``delays``, with what ``kemu explore`` sets by
  itself; nobody is told which messages matter.
* Budget: ``RUNS`` runs for each bug, strategy and stretch, of which there are ``STRETCHES``, with other seeds each.
  ``plain`` runs each seed of the stretch once; the others take turns with the first ``SEEDS`` of them, whose own orders
  count among their runs.
* Found is what the checker finds that the past bugs names, in the way it names.

It takes up again where it ended: what a file has already is not run again.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median_high

import attrs
from attrs import frozen

from kemu.emulator.exploring.explorer import Explorer
from kemu.emulator.exploring.schedules import STRATEGIES
from kemu.emulator.exploring.trial import Trials
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.plan.actions import Hold
from kemu.emulator.plan.entries import At, When
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario

RUNS, STRETCHES, SEEDS = 10, 5, 2
FETCHES = ("Fetch", "FetchReply")


@frozen
class Trial:
    """One bug, one strategy, one stretch of seeds."""

    issue: str
    strategy: str
    stretch: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those that its runs have."""
        first = 1 + self.stretch * RUNS
        return tuple(range(first, first + (RUNS if self.strategy == "plain" else SEEDS)))

    def found_by(self) -> int | None:
        """The number of the run that shows the bug; None: none of them does."""
        bug = PAST_BUGS[self.issue]
        explorer = Explorer(
            without_its_order(load_scenario(self.issue)),
            self.strategy,
            self.seeds,
            Trials(),
            keep=f"{bug.caught_by}:{bug.kind}",
        )
        found = explorer.explore(RUNS).found
        return None if found is None else found.number


def is_of_order(entry: At | When) -> bool:
    """Whether a line of a plan makes an order: it holds something back that is no fetch."""
    return isinstance(entry.action, Hold) and entry.action.api not in FETCHES


def without_its_order(scenario: Scenario) -> Scenario:
    """An exhibit without the lines that make its order."""
    return attrs.evolve(scenario, plan=tuple(entry for entry in scenario.plan if not is_of_order(entry)))


@cache
def order_bugs() -> tuple[str, ...]:
    """Those that this is about."""
    return tuple(issue for issue in PAST_BUGS if any(map(is_of_order, load_scenario(issue).plan)))


def trials() -> Iterator[Trial]:
    """All of them, stretch after stretch, so that a part of them is as fair as the whole."""
    for stretch in range(STRETCHES):
        for issue in order_bugs():
            for strategy in STRATEGIES:
                yield Trial(issue, strategy, stretch)


def read(path: Path) -> dict[Trial, int | None]:
    """What is known already."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = map(json.loads, lines)
    return {Trial(row["issue"], row["strategy"], row["stretch"]): row["run"] for row in rows}


def whole_stretches(known: Mapping[Trial, int | None]) -> tuple[int, ...]:
    """Those of which everything was run."""
    missing = {trial.stretch for trial in trials() if trial not in known}
    return tuple(stretch for stretch in range(STRETCHES) if stretch not in missing)


def table(known: Mapping[Trial, int | None]) -> Iterator[str]:
    """As Markdown: the run that showed it in each whole stretch ("-": none), and the median if most stretches did."""
    whole = whole_stretches(known)
    yield "| issue | " + " | ".join(f"`{strategy}`" for strategy in STRATEGIES) + " |"
    yield "|---" * (1 + len(STRATEGIES)) + "|"
    for issue in order_bugs():
        cells = []
        for strategy in STRATEGIES:
            runs = [known[Trial(issue, strategy, stretch)] for stretch in whole]
            middle = median_high(RUNS + 1 if run is None else run for run in runs)
            each = ", ".join("-" if run is None else str(run) for run in runs)
            cells.append(f"{'> ' + str(RUNS) if middle > RUNS else middle} ({each})")
        yield f"| {issue} | " + " | ".join(cells) + " |"
    counted = [at.strategy for at, run in known.items() if run is not None and at.stretch in whole]
    found = [str(counted.count(strategy)) for strategy in STRATEGIES]
    yield f"| found, of {len(order_bugs()) * len(whole)} | " + " | ".join(found) + " |"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="run, and write a line for each bug, strategy and stretch")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing more after so long")
    parser.add_argument("--table", type=Path, help="print the table of such a file")
    given = parser.parse_args()
    if given.table is not None:
        known = read(given.table)
        if not whole_stretches(known):
            parser.error(f"{given.table}: no stretch is whole yet: --out goes on")
        print("\n".join(table(known)))
        return
    if given.out is None:
        parser.error("--out FILE or --table FILE")
    known, began_s = read(given.out), time.monotonic()
    with given.out.open("a", encoding="utf-8") as out:
        for trial in trials():
            if trial in known:
                continue
            if time.monotonic() - began_s > given.seconds:
                break
            print(json.dumps({**attrs.asdict(trial), "run": trial.found_by()}), file=out, flush=True)


if __name__ == "__main__":
    main()
