"""``kemu assign-tasks`` prints the assignments that task assignors of Kafka Streams compute, without a run."""

import json
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import click

from kemu.emulator.text.custom_assignors import find_task_assignor
from kemu.emulator.text.tables import nearest
from kemu.protocol.assign.checked import NotAnAssignor
from kemu.protocol.streams.learner import StreamsAssignment, assign_learners
from kemu.protocol.streams.registry import TASK_ASSIGNORS, KafkasTaskAssignor, Learners, TaskAssignor, problems
from kemu.protocol.streams.tasks import TaskAssignment
from kemu.tools.commands.assign import form_for_stdout
from kemu.tools.commands.run_options import refuse_unknown_profile
from kemu.tools.exits import BAD_INPUT
from kemu.tools.kafka_files.task_lines import BadCase, Case, RebalanceRound, read_case
from kemu.tools.report.layout import print_lines


@click.command("assign-tasks")
@click.option("--assignor", "name", metavar="NAME", help=f"{', '.join(TASK_ASSIGNORS)}, or module:Class of your own.")
@click.option(
    "--profile",
    metavar="NAME",
    help="Use the task assignors of this release (default: visit tasks in order).",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), help="Default: text on a terminal, else json.")
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), default="-")
def assign_tasks(name: str | None, profile: str | None, form: str | None, file: TextIO) -> None:
    """Compute the assignment of the tasks of a Kafka Streams application.

    FILE (or standard input) holds one case per line, as JSON: clients with their former tasks and lags, or rebalances
    of members with their subscriptions (KIP-429's walk-throughs). Each answer is one line of JSON, or a table.
    Without --assignor, the command uses the assignor that the case names, or else "learner". For a bad line, the
    answer is {"line": number, "error": reason}. The command answers the other lines, and exits with code 2.
    """
    form = form or form_for_stdout()
    known = TASK_ASSIGNORS if profile is None else _of_release(profile)
    chosen = None if name is None else known.get(name) or _found(name)
    failed = False
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            answer = _answer(read_case(text), name, chosen, known)
        except BadCase as error:
            failed = True
            answer = {"line": number, "error": str(error)}
        if form == "json":
            click.echo(json.dumps(answer))
        else:
            print_lines(_text(answer).splitlines())
    if failed:
        sys.exit(BAD_INPUT)


def _found(name: str) -> TaskAssignor:
    try:
        return find_task_assignor(name)
    except NotAnAssignor as error:
        raise click.BadParameter(str(error), param_hint="--assignor") from None


def _of_release(profile: str) -> Mapping[str, TaskAssignor]:
    from kemu.protocol.profiles import PROFILES

    refuse_unknown_profile(profile)
    return PROFILES[profile].streams.task_assignors


def _answer(
    case: Case, name: str | None, chosen: TaskAssignor | None, known: Mapping[str, TaskAssignor]
) -> dict[str, Any]:
    if chosen is None:
        name = case.assignor or "learner"
        if name not in known:
            raise BadCase(f'assignor: "{name}" is no task assignor{nearest(name, known)}')
        chosen = known["prior" if name == "sticky" and case.must_preserve_active else name]
    learns = isinstance(chosen, Learners)
    head = {**case.label, "assignor": name}
    if case.by_rounds:
        rounds = [
            {"n": each.number, "assigned": _learned(case, each) if learns else _by_client(_given(case, each, chosen))}
            for each in case.rebalances
        ]
        return {**head, "rebalances": rounds}
    (only,) = case.rebalances
    if learns:
        return {**head, "assignment": _learned(case, only)}
    given = _given(case, only, chosen)
    return {**head, "assignment": _by_client(given), "probing": given.probing and not case.must_preserve_active}


def _learned(case: Case, rebalance: RebalanceRound) -> dict[str, Any]:
    stateless = [task for task in case.tasks if task not in case.stateful]
    given = assign_learners(
        rebalance.members, case.stateful, stateless, last_instances=rebalance.last_instances, config=case.learners
    )
    return {name: _row(each) for name, each in given.items()}


def _row(given: StreamsAssignment) -> dict[str, Any]:
    row: dict[str, Any] = {
        key: [str(task) for task in getattr(given, key)]
        for key in ("assigned", "revoked", "learning", "being_learned", "standby")
    }
    return {**row, "active": row["assigned"], "shutdown": given.shutdown}


def _given(case: Case, rebalance: RebalanceRound, assignor: TaskAssignor) -> TaskAssignment:
    try:
        given = assignor.assign(rebalance.clients, case.tasks, case.stateful, case.config)
        own = isinstance(assignor, KafkasTaskAssignor)  # the assignor of 2.3 assigns standbys to tasks without state
        wrong = [] if own else problems(given, rebalance.clients, case.tasks, case.stateful)
    except Exception as error:  # a user's assignor may raise any exception
        raise BadCase(f"the assignor raised {type(error).__name__}: {error}") from error
    if wrong:
        raise BadCase("; ".join(f"{error.name}: {what} {error.value}" for error, what in wrong[:5]))
    return given


def _by_client(given: TaskAssignment) -> dict[str, Any]:
    return {
        name: {"active": [str(task) for task in given.active.get(name, ())],
               "standby": [str(task) for task in given.standby.get(name, ())]}
        for name in sorted(given.active)
    }  # fmt: skip


def _text(answer: Mapping[str, Any]) -> str:
    if "error" in answer:
        return f"line {answer['line']}: {answer['error']}"
    lines = [f"{answer.get('id') or answer.get('name') or 'case'}  ({answer['assignor']})"]
    rounds = answer.get("rebalances") or [{"n": 0, "assigned": answer["assignment"]}]
    for each in rounds:
        if each["n"]:
            lines.append(f"  rebalance {each['n']}")
        for name, row in each["assigned"].items():
            shown = [
                f"{key} {' '.join(row[key])}"
                for key in ("active", "learning", "being_learned", "revoked", "standby")
                if row.get(key)
            ]
            lines.append(f"    {name}  {', '.join(shown) or 'nothing'}{'  shuts down' if row.get('shutdown') else ''}")
    if "probing" in answer:
        lines.append(f"  probing rebalance: {'yes' if answer['probing'] else 'no'}")
    return "\n".join(lines)
