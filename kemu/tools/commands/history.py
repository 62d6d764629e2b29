"""``kemu history`` finds Jepsen's Kafka anomalies in the history of a run."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.emulator.trace.blocks import TraceError
from kemu.tools.commands.run_options import RunOptions, refuse_missing_trace, request_of
from kemu.tools.errors import BadInput
from kemu.tools.exits import BROKEN, CORRECTNESS, HOLDS
from kemu.tools.report.history_report import RunHistory, as_dict, as_text
from kemu.tools.report.layout import print_lines

if TYPE_CHECKING:
    from kemu.emulator.trace.traces import Trace


@click.command()
@click.argument("source", metavar="TRACE|SCENARIO")
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the run (default: the scenario's).")
@click.option("--profile", metavar="P", help="Emulate this profile (kemu describe profiles; default: the scenario's).")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to the plan; repeatable.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def history(
    source: str,
    seed: int | None,
    profile: str | None,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    form: str,
) -> None:
    """Find Jepsen's Kafka anomalies in the acknowledged writes and the polled records of a run.

    Anomalies: lost write, unseen, duplicate, poll skip and nonmonotonic poll (these two also inside one poll,
    "internal"). The command reads a trace of one or more runs, or runs a preset, a past bug (KAFKA-1211) or a .toml
    file. The table counts each anomaly by its explanation, such as a rebalance or an expected loss. A list has each
    unexplained anomaly with partition, offsets, member and time.
    """
    path = Path(source)
    refuse_missing_trace(source)
    if path.is_file() and path.suffix != ".toml":
        given = [name for name, value in (("--seed", seed), ("--profile", profile)) if value is not None]
        given += [name for name, value in (("--set", settings), ("--do", actions)) if value]
        if given:
            raise click.UsageError(f"{given[0]} needs a scenario, but {source} is a trace")
        histories = _of_file(path)
    else:
        histories = [_of_run(source, RunOptions(seed=seed, profile=profile, settings=settings, actions=actions))]
    if form == "json":
        click.echo(json.dumps({"runs": [as_dict(each) for each in histories]}, indent=2))
    else:
        for each in histories:
            print_lines(as_text(each))
    if any(each.broke for each in histories):
        sys.exit(BROKEN)
    sys.exit(CORRECTNESS if any(each.unexplained for each in histories) else HOLDS)


def _of_run(source: str, options: RunOptions) -> RunHistory:
    from kemu.emulator.exploring.history import History
    from kemu.emulator.runner import run
    from kemu.emulator.watching.panel import Panel

    request = request_of(source, options)
    panel = Panel()
    listening = History(panel)
    result = run(
        request.scenario,
        seed=request.seeds[0],
        profile=request.profile,
        loop="bare",
        observers=(listening,),
        panel=panel,
    )
    found = listening.finish(result.virtual_us, result.losses)
    return RunHistory(source, result.seed, result.profile, result.verdict, result.virtual_us, found, result.broke)


def _of_file(path: Path) -> list[RunHistory]:
    from kemu.emulator.trace.traces import read_runs

    histories = [history_of(trace) for trace in read_runs(path)]
    if not histories:
        raise BadInput(f"{path}: the file holds no run")
    return histories


def history_of(trace: "Trace") -> RunHistory:
    """Judge the history of a recorded run. Raises ``TraceError``."""
    from kemu.emulator.checkers import checkers_for
    from kemu.emulator.exploring.history import History
    from kemu.emulator.judging import Judging
    from kemu.emulator.replay import scenario_of
    from kemu.emulator.text.allowed_code import Code, code_allowed
    from kemu.emulator.trace.traces import Broken, Footer, Record, Torn, facts_of_records

    end: Footer | Torn | None = None
    broke = ""

    def watched() -> Iterator[Record]:
        nonlocal end, broke
        for record in trace.records():
            if isinstance(record, Footer | Torn):
                end = record
            elif isinstance(record, Broken):
                broke = record.text
            yield record

    with trace.interpreted(), code_allowed(Code.NONE):
        scenario = scenario_of(trace.header)
        judging = Judging(
            checkers_for(scenario, trace.header.profile, trace.header.source),
            expect=scenario.expect,
            source=trace.header.source,
        )
        listening = History(judging.panel)
        for seen in facts_of_records(watched(), judging.wants):
            judging.see(seen)
            listening.see(seen)
    if not isinstance(end, Footer):
        raise TraceError(f"{trace.path}: {end.words if end else 'no records'}")
    judgement = judging.finish(end.virtual_us, broke)
    found = listening.finish(end.virtual_us, judgement.losses)
    header: Any = trace.header
    return RunHistory(str(trace.path), header.seed, header.profile, end.verdict, end.virtual_us, found, broke)
