"""The report of a campaign, from its analysis: values of each seed, medians, causes, failed runs. Spark does not run.

The tables ``runs``, ``violations`` and ``faults`` and the summaries ``headline`` and ``downtime_by_cause`` are read
with DuckDB (``query.ask``). The report of a failed run is a page beside the campaign's page, if its trace was kept.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.trace.traces import Trace, read_runs
from kemu.emulator.watching.interruptions import Cause
from kemu.protocol.frozen import frozen
from kemu.tools.pipeline.campaign import SPEC, Campaign, load
from kemu.tools.pipeline.cells import Spec
from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.query import analysis_of, ask
from kemu.tools.pipeline.worker import TRACES
from kemu.tools.report.comparison import ComparisonReport, summary_of, with_differences

HOLDS = "holds"
TORN = "torn"
"""The verdict of a run whose trace ends early."""
MOST_SEEDS = 1_000
"""Seeds of a cell whose values are in the page. Medians and intervals are of all seeds."""
COLUMNS = {name: each.column for name, each in FIGURES.items() if each.column}


@frozen
class RunOfCampaign:
    """A run with a trace: where the trace is, and its command."""

    cell: str
    seed: int
    trace: Path
    command: str

    def read(self) -> Trace | None:
        """The trace of the run; None if the file does not have it.

        Raises:
            TraceError: the file is damaged.
        """
        return next((trace for trace in read_runs(self.trace) if trace.header.seed == self.seed), None)


def campaign_report(folder: Path) -> ComparisonReport:
    """The report of an analyzed campaign.

    Args:
        folder: the campaign, or its analysis.

    Raises:
        CampaignError: no analysis is there, or it is damaged.
        ModuleNotFoundError: DuckDB is not installed.
    """
    place = analysis_of(folder)
    asked = ", ".join(f'"{column}"' for column in COLUMNS.values())
    runs = ask(
        place,
        "select run_id, campaign, cell, scenario, profile, settings, seed, verdict, broke, traced, command, "
        f"{asked} from runs order by campaign, run_id, seed",
        0,
    ).dicts()
    if not runs:
        raise CampaignError(f"{place} has no run: kemu analyze makes its tables")
    told = _Told.of(place)
    of_cell: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in sorted(runs, key=lambda run: (run["campaign"] or "", *_number(run["run_id"]), run["seed"])):
        of_cell.setdefault((run["campaign"], run["cell"]), []).append(run)
    campaigns = list(dict.fromkeys(campaign for campaign, _ in of_cell))
    rows = [_row(key, mine, told, several=len(campaigns) > 1) for key, mine in of_cell.items()]
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        with_differences([row for row in rows if row["scenario"] == scenario])
    spec = load(folder).spec if (folder / SPEC).is_file() else None
    seeds = [run["seed"] for run in runs]
    cut = max(len(mine) for mine in of_cell.values()) > MOST_SEEDS
    few = f"; pictures of seeds: the first {MOST_SEEDS:,} of each cell" if cut else ""
    if cut:
        rows = [_cut(row) for row in rows]
    return ComparisonReport(
        kind="campaign",
        title=", ".join(filter(None, campaigns)) or folder.resolve().name,
        summary="",
        command=command_of(spec, folder) if spec is not None else shlex.join(["kemu", "analyze", str(folder)]),
        note=f"seeds {min(seeds)} to {max(seeds)}{few}",
        rows=rows,
    )


def failed_runs(folder: Path, report: ComparisonReport, most: int) -> Iterator[tuple[dict[str, Any], RunOfCampaign]]:
    """The failed runs of a campaign whose traces were kept, cell by cell: the first ones of each cell.

    ``most``: the largest number of runs.
    """
    if not (folder / SPEC).is_file():
        return
    campaign = load(folder)
    wanted = max(1, most // max(1, sum(bool(row["failing"]) for row in report.rows)))
    left = most
    for row in report.rows:
        for failing in [each for each in row["failing"] if each["traced"]][:wanted]:
            trace = _trace_of(campaign, row["cell"], failing["seed"])
            if trace is not None and left:
                left -= 1
                yield failing, RunOfCampaign(row["cell"], failing["seed"], trace, failing["command"])


def relative(page: Path, out: Path) -> str:
    """The address of a page, as a page beside it writes it."""
    return Path(os.path.relpath(page.resolve(), out.resolve().parent)).as_posix()


def command_of(spec: Spec, folder: Path) -> str:
    """The command that makes a campaign, or the command that reads it if its cells are no product of options."""
    cells = spec.cells
    sources, profiles = (
        list(dict.fromkeys(values)) for values in zip(*((c.source, c.profile) for c in cells), strict=True)
    )
    axes = [list(dict.fromkeys(values)) for values in zip(*(cell.settings for cell in cells), strict=True)]
    product = len(sources) * len(profiles)
    for axis in axes:
        product *= len(axis)
    actions = {cell.actions for cell in cells}
    if product != len(cells) or len(actions) != 1:
        return shlex.join(["kemu", "report", str(folder)])
    words = ["kemu", "campaign", *sources, "--profiles", ",".join(profiles)]
    for axis in axes:
        key = axis[0].partition("=")[0]
        words += ["--grid", f"{key}={','.join(text.partition('=')[2] for text in axis)}"]
    words += [word for action in actions.pop() for word in ("--do", action)]
    return shlex.join([*words, "--seeds", f"{spec.first_seed}:{spec.last_seed}", "--out", str(folder)])


@frozen
class _Told:
    """The content of tables and summaries other than ``runs``."""

    violations: Mapping[str, str]
    """Id of a run -> its first violation."""
    causes: Mapping[tuple[str, str], Mapping[str, int]]
    why: Mapping[tuple[str, str], str]
    """Cell -> the reason why it has no figures."""
    never_fired: Mapping[tuple[str, str], list[str]]

    @staticmethod
    def of(place: Path) -> "_Told":
        """Read them."""
        violations = ask(
            place, "select run_id, arg_min(checker || ': ' || text, (at_us, seq)) from violations group by run_id", 0
        )
        parts = [cause.name.lower() for cause in Cause]
        shares = ", ".join(f'sum(partition_s * "{part}" * 1e6)' for part in parts)
        causes = ask(place, f"select campaign, cell, {shares} from downtime_by_cause group by campaign, cell", 0)
        headline = ask(place, "select campaign, cell, did_not_work, why from headline where why is not null", 0)
        unfired = ask(
            place,
            "select r.campaign, r.cell, f.fault_index, any_value(f.text) from faults f join runs r using (run_id) "
            "group by all having coalesce(sum(f.fired), 0) = 0 order by all",
            0,
        )
        never_fired: dict[tuple[str, str], list[str]] = {}
        for campaign, cell, _, text in unfired.rows:
            never_fired.setdefault((campaign, cell), []).append(text)
        return _Told(
            dict(violations.rows),
            {
                (campaign, cell): {
                    part.upper(): round(us) for part, us in zip(parts, spent, strict=True) if us and round(us)
                }
                for campaign, cell, *spent in causes.rows
            },
            {(campaign, cell): f"in {count} runs; {why}" for campaign, cell, count, why in headline.rows},
            never_fired,
        )


def _row(key: tuple[str, str], runs: Sequence[Mapping[str, Any]], told: _Told, several: bool) -> dict[str, Any]:
    """A cell as ``comparison`` wants it."""
    campaign, cell = key
    scenario, why = runs[0]["scenario"], told.why.get(key, "")
    verdicts: dict[str, int] = {}
    for run in runs:
        verdict = run["verdict"] or TORN
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    by_seed = {} if why else {name: [run[column] for run in runs] for name, column in COLUMNS.items()}
    return {
        "scenario": f"{campaign}: {scenario}" if several else scenario,
        "cell": cell,
        "variant": cell.removeprefix(f"{scenario} "),
        "profile": runs[0]["profile"],
        "seeds": [run["seed"] for run in runs],
        "runs": len(runs),
        "verdicts": dict(sorted(verdicts.items(), key=lambda item: (item[0] != HOLDS, item[0]))),
        "figures": {name: summary_of(values) for name, values in by_seed.items()},
        "by_seed": by_seed,
        "causes": {} if why else told.causes.get(key, {}),
        "failing": [
            {
                "seed": run["seed"],
                "verdict": run["verdict"] or TORN,
                "reason": _first_line(run["broke"] or "") or told.violations.get(run["run_id"], ""),
                "command": run["command"] or "",
                "page": "",
                "traced": bool(run["traced"]),
            }
            for run in runs
            if run["verdict"] != HOLDS
        ],
        "did_not_work": why,
        "never_fired": told.never_fired.get(key, []),
    }


def _cut(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "seeds": row["seeds"][:MOST_SEEDS],
        "by_seed": {name: values[:MOST_SEEDS] for name, values in row["by_seed"].items()},
    }


def _number(run_id: str) -> tuple[int, str]:
    """The number of a run's cell in its campaign, for the order of cells."""
    parts = run_id.split("/")
    number = int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() and len(parts[1]) < 10 else 1 << 30
    return (number, run_id if len(parts) != 3 else "")


def _first_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else ""


def _trace_of(campaign: Campaign, cell: str, seed: int) -> Path | None:
    """The file that has the trace of a run."""
    for chunk in campaign.chunks:
        if campaign.spec.cells[chunk.cell].name == cell and chunk.first <= seed <= chunk.last:
            path = campaign.out / "chunks" / chunk.folder / TRACES
            return path if path.is_file() else None
    return None
