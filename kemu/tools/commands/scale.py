"""``kemu scale`` scales a Streams application, in a scenario or in a live run, as KIP-429's scaling tool would."""

import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.emulator.scenario.files import load_scenario, with_entries, with_values
from kemu.emulator.scenario.groups import MOST_MEMBERS
from kemu.emulator.scenario.scenario import Scenario, known_names
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.emulator.text.units import duration_text, percentage
from kemu.protocol.frozen import evolve
from kemu.tools.commands.durations import DURATION
from kemu.tools.commands.run import run_all
from kemu.tools.commands.run_options import RunOptions, request_of, run_options
from kemu.tools.estimate import ask_before
from kemu.tools.exits import worst
from kemu.tools.report.layout import print_lines

if TYPE_CHECKING:
    from kemu.emulator.runner import RunResult

ANSWER_WITHIN_S = 60.0


@click.command()
@click.argument("words", metavar="[SCENARIO] [NAME]...", nargs=-1)
@click.option("--down-to", "to", metavar="PERCENT", help='Share of instances that stay: with "80%", 8 of 40 leave.')
@click.option("--leave", metavar="NAME...", multiple=True, help="Instances that leave; repeatable, or a list.")
@click.option("--add", "count", type=click.IntRange(1, MOST_MEMBERS), metavar="N", help="Number of instances to add.")
@click.option(
    "--live",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Scale the live run with this socket, instead of SCENARIO.",
)
@click.option("--group", metavar="G", help="Group of the application (default: the only application).")
@click.option(
    "--at",
    "at_us",
    type=DURATION,
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Time of the action in the scenario.",
)
@run_options
def scale(
    words: tuple[str, ...],
    to: str | None,
    leave: tuple[str, ...],
    count: int | None,
    live: Path | None,
    group: str | None,
    at_us: int,
    options: RunOptions,
) -> None:
    """Scale a Kafka Streams application: down to a PERCENT, down by the NAMEs of instances, or up by N.

    Instances that leave transfer their tasks to learners, and close without tasks. The command runs SCENARIO, scales
    at TIME, and prints the report of "kemu run". With --live PATH, the command scales the run of
    "kemu run SCENARIO --live --control PATH" at once. The command refuses the whole action if a NAME is unknown.
    """
    scenario, names = ("", words) if live is not None else ((words or ("",))[0], words[1:])
    leaving = tuple(name for text in (*leave, *names) for name in text.split(",") if name)
    if names and not leave:
        raise click.UsageError(f'"{names[0]}": names follow --leave')
    if sum((to is not None, bool(leave), count is not None)) != 1:
        raise click.UsageError("give one of --down-to PERCENT, --leave NAME..., --add N")
    if to is not None and percentage(to) is None:
        raise click.UsageError(f'--down-to "{to}" must be a percentage from 1% to 100%, such as 80%')
    row: dict[str, Any] = {"do": "add-members", "count": count} if count else {"do": "scale-down"}
    row |= {"to": to} if to else {"hosts": list(leaving)} if leaving else {}
    if live is not None:
        _order(live, row, group, options.form)
        return
    if not scenario:
        raise click.UsageError("name a SCENARIO, or give --live PATH")
    loaded = with_values(load_scenario(scenario), options.settings)
    row["group"] = _application(loaded, group)
    _known(loaded, row)
    request, at = request_of(scenario, options), duration_text(at_us)
    request = evolve(
        request,
        scenario=with_entries(request.scenario, [{"at": at, **row}], "kemu scale"),
        actions=(*request.actions, _as_action(at, row)),
    )
    ask_before([(request.scenario, len(request.seeds))], 1)
    results = run_all(request, options.form, options.verbose, accept=_refused)
    sys.exit(worst(result.verdict for result in results))


def _application(scenario: Scenario, group: str | None) -> str:
    """The name of the group of Streams instances to scale."""
    found = [name for name, each in scenario.groups.items() if each.streams is not None]
    if group is not None and group not in found:
        raise _error(f'--group: "{group}" is no group of Streams instances{nearest(group, found)}')
    if group is None and len(found) != 1:
        many = f"name one with --group: {', '.join(found)}" if found else "[groups.NAME.streams] makes one"
        raise _error(f"{len(found)} groups of Streams instances: {many}")
    return group or found[0]


def _known(scenario: Scenario, row: dict[str, Any]) -> None:
    """Refuse unknown instances with one error that lists all unknown names."""
    instances = known_names(scenario).members_of(row["group"])
    adds = any(entry.action.__class__.__name__ == "AddMembers" for entry in scenario.plan)
    unknown = [] if adds else [name for name in row.get("hosts", ()) if name not in instances]
    if unknown:
        said = ", ".join(f'"{name}"' for name in unknown)
        are = "is no instance" if len(unknown) == 1 else "are no instances"
        raise _error(f"--leave: {said} {are} of {row['group']}{nearest(unknown[0], instances)}")


def _error(text: str) -> ScenarioError:
    return ScenarioError([Problem((), text)])


def _as_action(at: str, row: dict[str, Any]) -> str:
    """The action in the syntax of ``kemu run --do``, for the command that repeats the run."""
    rest = [f"{key}={','.join(item) if isinstance(item, list) else item}" for key, item in row.items() if key != "do"]
    return " ".join([row["do"], f"at={at}", *rest])


def _refused(results: "list[RunResult]", story: Sequence[str]) -> None:
    """Refuse an action that had no effect in the last run because its target was not running.

    Raises:
        ScenarioError: the action had no effect.
    """
    last = results[-1].faults[-1]
    if not last.fired:
        why = [line.partition("no effect")[2] for line in story if "no effect" in line]
        raise _error(f"{last.text}: no effect{why[-1] if why else ' at that time'}")


# --- a run that is under way -----------------------------------------------------------------------------------------


def _order(path: Path, row: dict[str, Any], group: str | None, form: str) -> None:
    answer = _answer(path, {**row, **({"group": group} if group else {})})
    if form == "json":
        click.echo(json.dumps(answer))
    if "error" in answer:
        raise _error(f"{path}: refused: {answer['error']}")
    if form == "text":
        whom = f": {', '.join(answer['hosts'])}" if answer["hosts"] else ""
        print_lines([f"{answer['at_us'] / 1e6:.3f} s  {answer['done']}{whom}"])


def _answer(path: Path, row: dict[str, Any]) -> dict[str, Any]:
    said = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.settimeout(ANSWER_WITHIN_S)
        try:
            door.connect(str(path))
            door.sendall(json.dumps(row).encode() + b"\n")
            while not said.endswith(b"\n") and (data := door.recv(65_536)):
                said += data
        except OSError as error:
            how = "kemu run SCENARIO --live --control PATH starts one"
            raise _error(f"--live {path}: no run accepts orders there ({error.strerror or error}); {how}") from None
    if not said:
        raise _error(f"--live {path}: the run ended before it answered")
    answer: dict[str, Any] = json.loads(said)
    return answer
