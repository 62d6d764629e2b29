"""``kemu shrink``: from a failing run to a small scenario that fails in the same way, as TOML and as a Python test."""

import json
from collections.abc import Callable
from pathlib import Path

import attrs
import click

from kemu.emulator.exploring.pasteable import as_test, as_toml, identifier
from kemu.emulator.exploring.shrinking import (
    DEFAULT_RUNS,
    NothingToShrink,
    ScenarioSize,
    Shrinker,
    ShrinkProgress,
    Shrunk,
    size_of,
)
from kemu.emulator.exploring.trial import Trials
from kemu.emulator.replay import repeatable
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import duration_text
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.traces import read_trace
from kemu.tools.commands.run_options import RunOptions, refuse_missing_trace, request_of
from kemu.tools.progress import progress
from kemu.tools.report.layout import print_lines
from kemu.tools.report.shrunk_report import shrunk_text


@click.command()
@click.argument("source", metavar="TRACE|SCENARIO")
@click.option("--seed", type=click.IntRange(min=0), help="Of a scenario: the seed that fails (default: its own).")
@click.option("--profile", metavar="P", help="Of a scenario: a release or KIP page.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change the scenario first; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to its plan first; repeatable.")
@click.option("--keep", metavar="CHECKER[:KIND]", default="", help="The violation to keep (default: the verdict's).")
@click.option("--runs", type=click.IntRange(min=1), default=DEFAULT_RUNS, show_default=True, help="At most so many.")
@click.option("--tries", type=click.IntRange(1, 100), default=1, show_default=True, help="Seeds for each attempt.")
@click.option("--out", metavar="NAME", help="Write NAME.toml and test_NAME.py (default: SCENARIO-shrunk).")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def shrink(
    source: str,
    seed: int | None,
    profile: str | None,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    keep: str,
    runs: int,
    tries: int,
    out: str | None,
    form: str,
) -> None:
    """Make a failing run small: TRACE is a file of "kemu run --trace", SCENARIO a preset or a .toml file.

    Lines of the plan (random ones too), groups, members, topics, partitions, records, brokers, settings and time are
    taken away while the same rule is broken: the same checker and kind, about the same group, a member of it, a
    partition of the same topic, a broker. Numbers get rounder. Two files are written, both ready to be kept: a scenario
    (kemu run NAME.toml shows it) and a test that fails until it is mended.

    The same input gives the same result. Ctrl-C ends it and writes the smallest so far.
    """
    scenario, seed, profile = _what(source, seed, profile, settings, actions)
    path = Path(out if out is not None else f"{identifier(scenario.name).replace('_', '-')}-shrunk")
    toml, test = path.with_name(f"{path.name}.toml"), path.with_name(f"test_{identifier(path.name)}.py")
    if toml.exists() and Path(source).exists() and toml.samefile(source):
        raise click.UsageError(f"--out {out} would write over {source}: give another name")
    if not path.parent.is_dir():
        raise click.UsageError(f"--out {out}: there is no folder {path.parent}")
    try:
        shrunk = _shrink(scenario, seed, profile, keep, runs, tries)
    except NothingToShrink as error:
        raise ScenarioError([Problem((), str(error))], source) from None
    try:
        toml.write_text(as_toml(shrunk), encoding="utf-8")
        test.write_text(as_test(shrunk), encoding="utf-8")
    except OSError as error:
        raise ScenarioError([Problem((), f"cannot be written: {error.strerror}")], str(error.filename)) from None
    if form == "json":
        click.echo(json.dumps(_as_dict(shrunk, toml, test), indent=2))
        return
    print_lines([*shrunk_text(shrunk), "", f"written: {toml}", f"written: {test}", f"repeat with: kemu run {toml}"])


def _what(
    source: str, seed: int | None, profile: str | None, settings: tuple[str, ...], actions: tuple[str, ...]
) -> tuple[Scenario, int, str]:
    """The scenario, seed and profile of a trace, or of what options say."""
    refuse_missing_trace(source)
    if source.endswith(".toml") or not Path(source).is_file():
        request = request_of(source, RunOptions(seed=seed, profile=profile, settings=settings, actions=actions))
        return request.scenario, request.seeds[0], request.profile
    if seed is not None or profile is not None or settings or actions:
        raise click.UsageError("a trace has its own seed, profile, settings and plan: give none, or a scenario")
    try:
        trace = read_trace(source)
        scenario = repeatable(trace)
    except TraceError as error:
        raise ScenarioError([Problem((), str(error).removeprefix(f"{source}: "))], source) from None
    except OSError as error:
        raise ScenarioError([Problem((), f"cannot be read: {error.strerror}")], source) from None
    return scenario, trace.header.seed, trace.header.profile


def _shrink(scenario: Scenario, seed: int, profile: str, keep: str, runs: int, tries: int) -> Shrunk:
    """Do it; an interrupt ends it with what is there."""
    with progress("runs", runs) as advance:
        told = _Told(size_of(scenario), advance)
        shrinker = Shrinker(
            attrs.evolve(scenario, profile=profile),
            seed,
            Trials(profile=profile),
            keep=keep,
            runs=runs,
            tries=tries,
            tell=told.tell,
        )
        print_lines([f"keeping {shrinker.signature.words()}"], err=True)
        try:
            return shrinker.shrink()
        except KeyboardInterrupt:
            click.echo("interrupted: this is the smallest so far", err=True)
            return shrinker.shrunk()


class _Told:
    """ShrinkProgress: a bar where there is a terminal, and a line whenever the scenario got smaller."""

    def __init__(self, size: ScenarioSize, advance: Callable[[str, bool], None]) -> None:
        self._size = size
        self._advance = advance

    def tell(self, now: ShrinkProgress) -> None:
        """One more attempt."""
        size = now.size
        self._advance(f"{now.step}: {_in_short(size)}", False)
        if size != self._size:
            self._size = size
            click.echo(f"  run {now.runs:>4}  {_in_short(size)}", err=True)


def _in_short(size: ScenarioSize) -> str:
    return (
        f"{size.plan} lines, {size.members} members, {size.partitions} partitions, {size.brokers} brokers, "
        f"{duration_text(size.duration_us)}, {size.settings} settings"
    )


def _as_dict(shrunk: Shrunk, toml: Path, test: Path) -> dict[str, object]:
    return {
        "scenario": shrunk.scenario.to_dict(),
        "seed": shrunk.scenario.seed,
        "violation": attrs.asdict(shrunk.violation),
        "before": attrs.asdict(shrunk.before),
        "after": attrs.asdict(shrunk.after),
        "runs": shrunk.runs,
        "complete": shrunk.complete,
        "toml": str(toml),
        "test": str(test),
    }
