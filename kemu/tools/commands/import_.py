"""``kemu import`` makes a scenario from the output of Kafka's tools."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import duration_us
from kemu.tools.kafka_files.import_scenario import Imported, compose
from kemu.tools.kafka_files.kafka_output import Found, Line, OutputReader
from kemu.tools.kafka_files.kafka_properties import looks_like_properties, read_properties

ACCEPTED = (
    "accepted are the output of kafka-topics --describe and of kafka-consumer-groups --describe "
    "(offsets, --members --verbose, --state), and .properties files of a consumer, broker or producer"
)
_STDIN = "-"
_SHOWN = 100


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the scenario to this file.")
@click.option("--name", help="Name of the scenario (default: the name of the --out file, or of the first group).")
@click.option(
    "--apart", metavar="TIME", help="Time between the first and the last --describe of a group, to compute rates."
)
def import_(files: tuple[str, ...], out: Path | None, name: str | None, apart: str | None) -> None:
    """Make a scenario from the output of Kafka's tools; FILE may be - (standard input).

    \b
    kafka-topics.sh --describe > topics.txt
    kafka-consumer-groups.sh --describe --group G --members --verbose > members.txt
    kemu import topics.txt members.txt consumer.properties --out mine.toml
    kemu run mine.toml

    The command lists unreadable lines on standard error, each with the name of the file and the line number.
    """  # noqa: D301 (click's own mark)
    apart_s = _seconds(apart)
    imported, unread = import_files(files, name or (out.stem if out else None), apart_s)
    for line in unread:
        click.echo(line, err=True)
    for remark in imported.remarks:
        click.echo(f"note: {remark}", err=True)
    if out is None:
        click.echo(imported.toml, nl=False)
    else:
        try:
            out.write_text(imported.toml, encoding="utf-8")
        except OSError as error:
            raise ScenarioError([Problem((), f"cannot be written: {error.strerror}")], str(out)) from None
    left = f"; {len(unread)} {'line' if len(unread) == 1 else 'lines'} not used" if unread else ""
    click.echo(f"{imported.summary}{left}" + (f"; written to {out}" if out else ""), err=True)


def import_files(files: Sequence[str], name: str | None, apart_s: float | None = None) -> tuple[Imported, list[str]]:
    """The scenario of these files, and ``file:line: text`` of every line that was not used.

    Raises:
        ScenarioError: a file is unreadable or holds no known output, or the settings make no valid scenario.
    """
    found, properties, unread = Found(), [], list[str]()
    for source in files:
        lines = _lines(source)
        if looks_like_properties(source, lines):
            one = read_properties(source, lines)
            if one is None:
                raise ScenarioError([Problem((), f"has no key that is emulated; {ACCEPTED}")], source)
            properties.append(one)
            unread += [f"{source}:{line.number}: {line.text}" for line in one.unused]
        else:
            unread += _read_output(source, lines, found)
    if apart_s is not None and all(group.offset_tables < 2 for group in found.groups.values()):
        raise ScenarioError(
            [Problem((), "needs the offsets of a group described twice, the earlier one first")], "--apart"
        )
    imported = compose(found, properties, files, name, apart_s)
    scenario_from_toml(imported.toml, source="the imported scenario")  # never return a scenario that does not load
    return imported, unread


def _read_output(source: str, lines: Sequence[Line], found: Found) -> list[str]:
    reader = OutputReader(found)
    reader.read(lines)
    if not reader.understood:
        raise ScenarioError([Problem((), f"nothing in it was recognised; {ACCEPTED}")], source)
    return [f"{source}:{line.number}: not understood: {line.text.strip()[:_SHOWN]}" for line in reader.rest]


def _lines(source: str) -> list[Line]:
    try:
        data = sys.stdin.buffer.read() if source == _STDIN else Path(source).read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ScenarioError([Problem((), f"cannot be read: {error.strerror}")], source) from None
    except UnicodeDecodeError:
        raise ScenarioError([Problem((), f"is not UTF-8 text; {ACCEPTED}")], source) from None
    return [Line(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), start=1)]


def _seconds(apart: str | None) -> float | None:
    if apart is None:
        return None
    try:
        us = duration_us(apart)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--apart") from None
    if us == 0:
        raise click.BadParameter("must be more than 0", param_hint="--apart")
    return us / 1_000_000
