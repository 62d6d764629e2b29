"""``kemu import`` makes a scenario from the output of Kafka's tools."""

from collections.abc import Sequence
from pathlib import Path

import click

from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.text.tables import Problem, ScenarioError, printable
from kemu.tools.commands.durations import POSITIVE_DURATION
from kemu.tools.files import check_out, write_text
from kemu.tools.kafka_files.import_scenario import Imported, compose
from kemu.tools.kafka_files.input_files import BadFile, read_text, text_of
from kemu.tools.kafka_files.kafka_output import Found, Line, OutputReader
from kemu.tools.kafka_files.kafka_properties import Properties, looks_like_properties, read_properties

ACCEPTED = (
    "accepted are the output of kafka-topics --describe, of kafka-consumer-groups --describe "
    "(offsets, --members --verbose, --state) and --list --type, of kafka-groups --list, and .properties files of a "
    "consumer, broker or producer"
)
TOPICS = "the output of kafka-topics.sh --describe, or of kafka-consumer-groups.sh --describe with offsets"
LIST_GROUPS = "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --list prints the groups of a cluster"
MOST_LINES = 500_000
"""Maximum number of lines in a file."""
MOST_GROUPS = 500
_SHOWN = 100
_SHOWN_LINES = 50


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the scenario to this file.")
@click.option("--name", help="Name of the scenario (default: the name of the --out file, or of the first group).")
@click.option(
    "--apart",
    "apart_us",
    type=POSITIVE_DURATION,
    metavar="TIME",
    help="Time between the first and the last --describe of a group, to compute rates.",
)
def import_(files: tuple[str, ...], out: Path | None, name: str | None, apart_us: int | None) -> None:
    """Make a scenario from the output of Kafka's tools; FILE may be - (standard input).

    \b
    kafka-topics.sh --describe > topics.txt
    kafka-consumer-groups.sh --describe --group G --members --verbose > members.txt
    kemu import topics.txt members.txt consumer.properties --out mine.toml
    kemu run mine.toml

    The command lists unreadable lines on standard error, each with the name of the file and the line number.
    """  # noqa: D301 (click's own mark)
    if out is not None:
        check_out(out, files)
    imported, unread = import_files(
        files, name or (out.stem if out else None), None if apart_us is None else apart_us / 1_000_000
    )
    for line in unread[:_SHOWN_LINES]:
        click.echo(printable(line), err=True)
    if len(unread) > _SHOWN_LINES:
        click.echo(f"... and {len(unread) - _SHOWN_LINES} more lines that were not used", err=True)
    for remark in imported.remarks:
        click.echo(f"note: {printable(remark)}", err=True)
    if out is None:
        click.echo(imported.toml, nl=False)
    else:
        write_text(out, imported.toml, files)
    left = f"; {len(unread)} {'line' if len(unread) == 1 else 'lines'} not used" if unread else ""
    click.echo(f"{imported.summary}{left}" + (f"; written to {out}" if out else ""), err=True)


def import_files(files: Sequence[str], name: str | None, apart_s: float | None = None) -> tuple[Imported, list[str]]:
    """The scenario of these files, and ``file:line: text`` of every line that was not used.

    Raises:
        ScenarioError: a file is unreadable or holds no known output, or the settings make no valid scenario.
    """
    return _imported([(source, _text(source)) for source in files], name, apart_s)


def import_text(data: bytes) -> Imported:
    """The scenario of one file with these bytes, for fuzzers.

    Raises:
        ScenarioError: as ``import_files``.
    """
    try:
        return _imported([("the input", text_of(data))], None, None)[0]
    except BadFile as error:
        raise ScenarioError([Problem((), str(error))], "the input") from None


def _imported(texts: Sequence[tuple[str, str]], name: str | None, apart_s: float | None) -> tuple[Imported, list[str]]:
    found, properties, unread, remarks = Found(), list[Properties](), list[str](), list[str]()
    outputs: list[OutputReader] = []
    for source, text in texts:
        lines = _lines(source, text)
        if looks_like_properties(source, lines):
            one = read_properties(source, lines)
            if one is None:
                raise ScenarioError([Problem((), f"has no key that is emulated; {ACCEPTED}")], source)
            properties.append(one)
            unread += [f"{source}:{line.number}: {line.text}" for line in one.unused]
        else:
            outputs.append(_read_output(source, lines, found))
            rest, understood = outputs[-1].rest, outputs[-1].understood
            unread += [f"{source}:{line.number}: not understood: {_short(line)}" for line in rest]
            if len(rest) > understood:
                remarks.append(f"{source}: {understood} of {understood + len(rest)} lines were understood")
    if outputs and all(topic.startswith("__") for topic in found.topics):
        raise ScenarioError([Problem((), f"the input has no topic; add {TOPICS}")])
    if len(found.groups) > MOST_GROUPS:
        raise ScenarioError([Problem((), f"the input has more than {MOST_GROUPS} groups; describe some with --group")])
    if apart_s is not None and all(group.offset_tables < 2 for group in found.groups.values()):
        raise ScenarioError(
            [Problem((), "needs the offsets of a group described twice, the earlier one first")], "--apart"
        )
    found.remarks[:0] = remarks
    imported = compose(found, properties, [source for source, _ in texts], name, apart_s)
    scenario_from_toml(imported.toml, source="the imported scenario")  # never return a scenario that does not load
    return imported, unread


def _read_output(source: str, lines: Sequence[Line], found: Found) -> OutputReader:
    """Read an output into ``found``.

    Raises:
        ScenarioError: a group does not exist, or the output has no fact.
    """
    reader = OutputReader(found)
    reader.read(lines)
    if reader.missing:
        missing = reader.missing[0]
        raise ScenarioError(
            [Problem((), f'group "{missing.text}" does not exist; {LIST_GROUPS}')],
            f"{source}:{missing.number}",
        )
    if not reader.understood:
        raise ScenarioError([Problem((), f"nothing in it was recognised; {ACCEPTED}")], source)
    if not reader.useful:
        first = f"; line {reader.rest[0].number} is not understood: {_short(reader.rest[0])}" if reader.rest else ""
        raise ScenarioError([Problem((), f"has the header of a table, and no row that was understood{first}")], source)
    return reader


def _short(line: Line) -> str:
    return line.text.strip()[:_SHOWN]


def _text(source: str) -> str:
    try:
        return read_text(source, f"; {ACCEPTED}")
    except BadFile as error:
        raise ScenarioError([Problem((), str(error))], source) from None


def _lines(source: str, text: str) -> list[Line]:
    if text.count("\n") >= MOST_LINES:
        raise ScenarioError([Problem((), f"has more than {MOST_LINES:,} lines")], source)
    return [Line(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), start=1)]
