"""``kemu assign`` and ``kemu compare-assignors`` print the assignments that assignors compute for a group."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TextIO

import click

from kemu.emulator.text.custom_assignors import is_custom, load_assignor
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.protocol.assign.base import Assignor, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.assign.checked import CheckedAssignor, InvalidAssignment, NotAnAssignor
from kemu.protocol.assign.cooperative import NeverSettles, settle
from kemu.protocol.assign.optimal import OPTIMAL
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.assign.search.score import balance_score, is_balanced, moved, spread
from kemu.protocol.frozen import evolve
from kemu.protocol.names import MemberId, consumer_host, partitions_text
from kemu.protocol.profiles import PROFILES
from kemu.tools.exits import BAD_INPUT
from kemu.tools.kafka_files.group_lines import BadLine, GroupLine, read_group
from kemu.tools.kafka_files.input_files import numbered_lines
from kemu.tools.report.layout import TableColumn, print_lines, table

REPEATS = 3
"""Number of timed calls of each assignor in a comparison, which prints the median time."""


class AssignorFailed(Exception):
    """An assignor returned no valid assignment, or raised; the message states the reason."""


@click.command()
@click.option("--assignor", "name", required=True, metavar="NAME", help="Name of an assignor, or module:Class.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    metavar="RELEASE",
    help="Use the assignor of this release (kemu describe profiles; default: the newest).",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), help="Default: text on a terminal, else json.")
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), default="-")
def assign(name: str, profile: str | None, form: str | None, file: TextIO) -> None:
    """Compute the assignment of one group, as its leader would.

    FILE (or standard input) holds one group per line, as JSON. Each answer is one line of JSON, or a table.
    With a cooperative assignor, "first_pass" is the assignment of the first rebalance, and "assignment" is the
    assignment after the last follow-up rebalance. For a bad line, the answer is {"line": number, "error": reason}.
    The command answers the other lines, and exits with code 2.

    Releases of sticky assign the partitions of a leaving member differently. For KIP-54's example 1, only sticky with
    --profile kafka-2.4, sticky-first and optimal compute the assignment of the KIP.
    """
    form = form or form_for_stdout()
    assignor = find_assignor(name, ASSIGNORS if profile is None else PROFILES[profile].assignors)
    failed = False
    for number, text in numbered_lines(file):
        try:
            answer = _answer(read_group(text), assignor)
        except (BadLine, AssignorFailed) as error:
            failed = True
            answer = {"line": number, "error": str(error)}
        if form == "json":
            click.echo(json.dumps(answer))
        else:
            print_lines(_answer_text(number, answer))
    if failed:
        sys.exit(BAD_INPUT)


def form_for_stdout() -> str:
    """The default of ``--format``: text if stdout is a terminal, else JSON."""
    return "text" if sys.stdout.isatty() else "json"


def _answer_text(number: int, answer: Mapping[str, Any]) -> Iterator[str]:
    """The lines of an answer: a table with a row for each member, then the figures."""
    if "error" in answer:
        yield f"line {number}: {click.style('error', fg='red')}: {answer['error']}"
        return
    owned = answer["assignment"]
    rows = [(member, f"{len(parts)}", partitions_text(sorted(parts))) for member, parts in owned.items()]
    yield f"line {number}"
    yield from table(
        (TableColumn("member"), TableColumn("count", right=True), TableColumn("partitions", wraps=True)), rows
    )
    rounds = f", {answer['rounds']} rebalances" if "rounds" in answer else ""
    balanced = "balanced" if answer["balanced"] else "not balanced"
    yield f"  {balanced}, score {answer['balance_score']}, {answer['moved']} moved{rounds}, {answer['micros']} us"


@click.command("compare-assignors")
@click.argument("source")
@click.option(
    "--assignor",
    "names",
    multiple=True,
    metavar="NAME",
    help="Compare only this assignor, or module:Class; repeatable.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def compare_assignors(source: str, names: tuple[str, ...], form: str) -> None:
    """Compare the assignments of several assignors for the same group.

    SOURCE is a file of groups as for "kemu assign" (- for standard input), or a scenario. For each group of a scenario,
    the command compares assignments at the start, after a member left, and after a member joined.

    Columns: "score" is KIP-54's balance score. "max-min" is the largest number of partitions of a member minus the
    smallest number. "moved" is the number of partitions that change their member. "least" is the smallest possible
    number of moves at the lowest score; an assignment with a higher score may move fewer partitions. "time" is the
    duration of one assignment.
    """
    assignors = {name: find_assignor(name) for name in names or ASSIGNORS}
    failed = False
    shown: list[dict[str, Any]] = []
    for title, situation in _situations(source):
        if isinstance(situation, BadLine):
            failed = True
            shown.append({"group": title, "error": str(situation)})
        else:
            rows = [compare(name, assignor, situation) for name, assignor in assignors.items()]
            failed = failed or any("error" in row for row in rows)
            shown.append({"group": title, "assignors": rows})
        if form == "text":
            _print_comparison(shown[-1])
    if form == "json":
        click.echo(json.dumps(shown, indent=2))
    if failed:
        sys.exit(BAD_INPUT)


def find_assignor(name: str, assignors: Mapping[str, Assignor] = ASSIGNORS) -> Assignor:
    """Return the assignor with a name of ``assignors``, or the user's assignor ``module:Class``.

    Raises:
        ScenarioError: no assignor has this name, or the class is no assignor.
    """
    if name in assignors:
        return assignors[name]
    if not is_custom(name):
        raise ScenarioError([Problem(("assignor",), f'"{name}" is no assignor{nearest(name, assignors)}')])
    try:
        return load_assignor(name)
    except NotAnAssignor as error:
        raise ScenarioError([Problem(("assignor",), str(error))]) from error


@contextmanager
def blaming(assignor: Assignor) -> Iterator[None]:
    """Raise errors of a custom assignor as ``AssignorFailed``; errors of built-in assignors stay unchanged."""
    try:
        yield
    except (InvalidAssignment, NotAnAssignor, NeverSettles) as error:
        raise AssignorFailed(str(error)) from error
    except Exception as error:
        if not isinstance(assignor, CheckedAssignor):
            raise
        raise AssignorFailed(f"assignor {assignor.name} raised {type(error).__name__}: {error}") from error


def _answer(group: GroupLine, assignor: Assignor) -> dict[str, Any]:
    with blaming(assignor):
        members = group.members_for(assignor)
        started = time.perf_counter()
        result = settle(assignor, group.topics, members)
    micros = round((time.perf_counter() - started) * 1e6)
    answer: dict[str, Any] = {
        "assignment": result.assignment,
        "balance_score": balance_score(map(len, result.assignment.values())),
        "balanced": is_balanced(group.members, result.assignment),
        "moved": moved(group.owned, result.assignment),
        "micros": micros,
    }
    if RebalanceProtocol.COOPERATIVE in assignor.protocols:
        answer |= {"rounds": result.rounds, "first_pass": result.first_pass}
    return answer


Situation = Callable[[Assignor], GroupLine]
"""Returns a group before a rebalance. The partitions that members own may depend on the assignor."""


def _situations(source: str) -> Iterator[tuple[str, Situation | BadLine]]:
    if source == "-" or (Path(source).suffix != ".toml" and Path(source).is_file()):
        with click.open_file(source, encoding="utf-8", errors="replace") as file:
            yield from _from_lines(file)
    else:
        yield from _from_scenario(source)


def _from_lines(file: IO[str]) -> Iterator[tuple[str, Situation | BadLine]]:
    for number, text in numbered_lines(file):
        try:
            group = read_group(text)
        except BadLine as error:
            yield f"line {number}", error
        else:
            yield f"line {number}", _always(group)


def _always(group: GroupLine) -> Situation:
    return lambda _: group


def _from_scenario(source: str) -> Iterator[tuple[str, Situation | BadLine]]:
    from kemu.emulator.scenario.files import load_scenario

    scenario = load_scenario(source)
    replicas = [scenario.brokers.rack_of(number) for number in range(scenario.brokers.count)]
    for name, spec in scenario.groups.items():
        counts = {topic: one.partitions for topic, one in scenario.topics.items()}
        racks = {topic: ((*dict.fromkeys(replicas),),) * count for topic, count in counts.items()}
        topics = Topics(counts, racks if any(replicas) else None)

        read = spec.subscribed_to(counts)

        def member(number: int, spec: Any = spec, read: tuple[str, ...] = read) -> Subscriber:
            rack = spec.racks[number % len(spec.racks)] if spec.racks else None
            return Subscriber(read, rack=rack, instance_id=consumer_host(number) if spec.static else None)

        start = GroupLine(topics, {consumer_host(number): member(number) for number in range(spec.members)})
        yield f"{name}: start", _always(start)
        if spec.members > 1:
            yield f"{name}: one member leaves", _after(start, lambda owning: dict(list(owning.items())[1:]))
        new: dict[MemberId, Subscriber] = {consumer_host(spec.members): member(spec.members)}
        yield f"{name}: one member joins", _after(start, _joined_by(new))


def _joined_by(
    new: Mapping[MemberId, Subscriber],
) -> Callable[[dict[MemberId, Subscriber]], dict[MemberId, Subscriber]]:
    return lambda owning: {**owning, **new}


def _after(start: GroupLine, change: Callable[[dict[MemberId, Subscriber]], dict[MemberId, Subscriber]]) -> Situation:
    """Return a group whose members own partitions from a first assignment, and then change by ``change``."""

    def situation(assignor: Assignor) -> GroupLine:
        assignment = settle(assignor, start.topics, start.members_for(assignor)).assignment
        owning = {
            member: evolve(one, owned=tuple(assignment[member]), generation=1) for member, one in start.members.items()
        }
        return evolve(start, members=change(owning))

    return situation


def compare(name: str, assignor: Assignor, situation: Situation) -> dict[str, Any]:
    """The row of one assignor in a comparison: the figures, or the error."""
    micros: list[float] = []
    try:
        with blaming(assignor):
            group = situation(assignor)
            members = group.members_for(assignor)
            assignment = settle(assignor, group.topics, members).assignment
            for _ in range(REPEATS):
                started = time.perf_counter()
                assignor.assign(group.topics, members)
                micros.append((time.perf_counter() - started) * 1e6)
    except AssignorFailed as error:
        return {"assignor": name, "error": str(error)}
    return {
        "assignor": name,
        "score": balance_score(map(len, assignment.values())),
        "max_min": spread(assignment),
        "moved": moved(group.owned, assignment),
        "least_moves": moved(group.owned, OPTIMAL.assign(group.topics, group.members)),
        "micros": round(statistics.median(micros)),
    }


COLUMNS: Mapping[str, str] = {
    "score": "score",
    "max_min": "max-min",
    "moved": "moved",
    "least_moves": "least",
    "micros": "time/us",
}


def _print_comparison(shown: Mapping[str, Any]) -> None:
    print_lines([click.style(shown["group"], bold=True)])
    if "error" in shown:
        print_lines([f"  {click.style('error', fg='red')}: {shown['error']}"])
        return
    rows: Sequence[Mapping[str, Any]] = shown["assignors"]
    columns = [TableColumn("assignor"), *(TableColumn(title, right=True) for title in COLUMNS.values())]
    cells = [[row["assignor"], *(f"{row[key]:,}" for key in COLUMNS)] for row in rows if "error" not in row]
    if cells:
        print_lines(table(columns, cells))
    print_lines(
        f"  {row['assignor']}  {click.style('error', fg='red')}: {row['error']}" for row in rows if "error" in row
    )
