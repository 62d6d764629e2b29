"""The command line ``kemu``. A subcommand's module is imported only when a user calls the subcommand."""

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from kemu.tools.errors import BadInput, bad_input_text, report_bug, say_error, show_error
from kemu.tools.estimate import YES
from kemu.tools.exits import BAD_INPUT, BUG, MEANING, NO_OUTPUT, exits_of
from kemu.tools.interrupt import ALLOWS_CODE, ARGUMENTS, exit_code, is_interrupt, same_command, signals_interrupt
from kemu.tools.output import OutputFailed, open_outputs
from kemu.tools.progress import QUIET


class Row(NamedTuple):
    """One subcommand: the address of its function and its line in ``kemu --help``, which imports no subcommand."""

    place: str
    """The function as ``module:attribute``, below ``kemu.tools.commands``."""
    summary: str
    progress: bool = False
    """Whether the subcommand shows a progress bar; such a subcommand has the option ``--quiet``."""


SECTIONS: Mapping[str, Mapping[str, Row]] = {
    "Run and compare": {
        "run": Row("run:run", "Run a scenario; report its events, costs and violations.", progress=True),
        "compare": Row("compare:compare", "Compare the costs of protocols and assignors under equal faults.", True),
        "advise": Row("advise:advise", "Tell which change would have helped in an incident, and its price.", True),
        "scale": Row("scale:scale", "Scale a Streams application up or down, in a scenario or in a live run."),
        "serve": Row("serve:serve", "Let real Kafka clients join a cluster over TCP, in real time."),
        "console": Row("console:console", "Show a live run in the terminal, and give it orders."),
        "scriptify": Row("scriptify:scriptify", "Turn the real clients of a served trace into scripted clients."),
        "import": Row("import_:import_", "Make a scenario from the output of Kafka's tools."),
        "import-log": Row("import_log:import_log", "Read logs of brokers and clients: events, generations, releases."),
        "scenarios": Row("scenarios:scenarios", "List the scenarios that come with the package."),
    },
    "Test and explore": {
        "swarm": Row("swarm:swarm", "Draw clusters, loads and faults from seeds, and check every run.", progress=True),
        "explore": Row("explore:explore", "Run a scenario in many orders of its messages to find a violation.", True),
        "shrink": Row("shrink:shrink", "Reduce a failing run to a small scenario and a test.", progress=True),
        "bugs": Row("bugs:bugs", "List past bugs of Kafka, or show the effect of a bug.", progress=True),
    },
    "Inspect": {
        "report": Row("report:report", "Draw a trace: one HTML file that explains the run."),
        "explain": Row("explain:explain", "Print a trace as text, one line for each step."),
        "replay": Row("replay:replay", "Feed recorded events to today's machines; stop at the first difference."),
        "diagnose": Row("diagnose:diagnose_command", "Name the causes that a trace or logs show."),
        "reproduce": Row("reproduce:reproduce_command", "Make a scenario that repeats the incident of logs."),
        "history": Row("history:history", "Name the anomalies in a run's history, as Jepsen's Kafka tests do."),
        "coverage": Row("coverage:coverage", "List the states, messages and rare events that runs reached.", True),
    },
    "Groups and plans": {
        "assign": Row("assign:assign", "Compute the assignment of one group, as its leader would."),
        "compare-assignors": Row("assign:compare_assignors", "Compare the assignments of several assignors."),
        "assign-tasks": Row("assign_tasks:assign_tasks", "Assign the tasks of a Kafka Streams application."),
        "plan-reassignment": Row(
            "plan_reassignment:plan_reassignment_command", "Plan a partition reassignment in batches (KIP-435)."
        ),
    },
    "Pipeline": {
        "campaign": Row("campaign:campaign", "Run many scenarios, profiles, settings and seeds on Spark.", True),
        "analyze": Row("analyze:analyze", "Compute tables and comparisons from campaigns and traces.", True),
        "query": Row("query:query", "Query analyzed tables in SQL.", progress=True),
    },
    "Reference": {
        "help": Row("help:help_", "Define a word of the reports, or show the help of a command."),
        "describe": Row("describe:describe", "Explain config keys, faults, actions, checkers and exit codes."),
        "schema": Row("schema:schema", "Print a JSON Schema of scenario files, for editors."),
    },
}
"""Every command, by its purpose."""

COMMANDS: Mapping[str, Row] = {name: row for rows in SECTIONS.values() for name, row in rows.items()}


_LOADING = {
    "run",
    "serve",
    "compare",
    "advise",
    "scale",
    "swarm",
    "explore",
    "shrink",
    "replay",
    "history",
    "coverage",
    "import",
}
"""Commands that read a scenario from a file, which may name code of the user."""
_ASKING = {
    *("run", "compare", "scale", "advise", "swarm", "explore", "shrink", "bugs", "reproduce", "replay", "history"),
    *("coverage", "campaign"),
}
"""Commands that ask before runs that cost much."""
_CLASS = re.compile(r"(?<![\w.])[\w.]+:\w+")
"""A class in the command line: the user names it, so it may be loaded."""


class _LazyGroup(click.Group):
    """A group of commands that imports the module of a command when a user calls the command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        module, _, attribute = row.place.partition(":")
        command: click.Command = getattr(import_module(f"kemu.tools.commands.{module}"), attribute)
        if row.progress and not any(each.name == "quiet" for each in command.params):
            command.params.append(_quiet_option())
        if cmd_name in _LOADING and not any(each.name == "allow_code" for each in command.params):
            command.params.append(_code_option())
        if cmd_name in _ASKING and not any(each.name == "yes" for each in command.params):
            command.params.append(_yes_option())
        own = _exits_text(cmd_name)
        if not (command.epilog or "").endswith(own):
            command.epilog = "\n\n".join(part for part in (command.epilog, own) if part)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            from kemu.emulator.text.tables import nearest

            raise click.UsageError(f'"{name}" is no command{nearest(name, COMMANDS)}')
        from kemu.emulator.text.allowed_code import allow_classes

        ctx.meta[ARGUMENTS] = list(args)
        allow_classes(_CLASS.findall(" ".join(args)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an interrupt is one line and an exit code, a trace that cannot be read is bad input."""
        try:
            from kemu.emulator.text.allowed_code import Code, code_allowed

            with code_allowed(Code.INSTALLED):
                return super().invoke(ctx)
        except (KeyboardInterrupt, BaseExceptionGroup) as error:
            if not is_interrupt(error):
                raise
            notes = [*getattr(error, "__notes__", ()), f"repeat with: {same_command()}"]
            click.echo("; ".join(["interrupted", *notes]), err=True)
            sys.exit(exit_code())
        except (ValueError, OSError) as error:
            text = bad_input_text(error)
            if text is None or hasattr(error, "problems"):  # ``main`` prints each problem of a scenario
                raise
            raise BadInput(text) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, rows in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", row.summary) for name, row in rows.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(f"{code:>3}", meaning) for code, meaning in MEANING.items()])
        formatter.write_paragraph()
        formatter.write_text('Shell completion: eval "$(_KEMU_COMPLETE=bash_source kemu)", or zsh_source, fish_source.')


def _exits_text(command: str) -> str:
    """The exit codes of a command, for its help."""
    said = "; ".join(f"{code} {MEANING[code]}" for code in exits_of(command))
    return f'Exit codes: {said}. "kemu describe exits" lists those of every command.'


def _quiet_option() -> click.Option:
    return click.Option(
        ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set_quiet, help="Show no progress bar."
    )


def _code_option() -> click.Option:
    return click.Option(
        ["--allow-code"],
        is_flag=True,
        expose_value=False,
        callback=_allow_code,
        help="Load classes that the files name (module:Class); else only those of installed packages.",
    )


def _yes_option() -> click.Option:
    return click.Option(
        ["--yes"], is_flag=True, expose_value=False, callback=_set_yes, help="Do not ask before runs that cost much."
    )


def _set_yes(ctx: click.Context, _: Any, wanted: bool) -> None:
    ctx.meta[YES] = wanted


def _allow_code(ctx: click.Context, _: Any, wanted: bool) -> None:
    if wanted:
        from kemu.emulator.text.allowed_code import allow_any_code

        allow_any_code()
        ctx.meta[ALLOWS_CODE] = True


def _set_quiet(ctx: click.Context, _: Any, wanted: bool) -> None:
    if wanted:
        ctx.meta[QUIET] = True


def _set_color(ctx: click.Context, _: Any, wanted: bool | None) -> None:
    ctx.color = False if wanted is None and os.environ.get("NO_COLOR") else wanted


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kemu")
    except PackageNotFoundError:
        return "from a source tree that is not installed"


def _print_version(ctx: click.Context, _: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"kemu {_version()}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
@click.option(
    "--color/--no-color",
    default=None,
    expose_value=False,
    callback=_set_color,
    help="Colour the output always or never (default: only on a terminal, and not if NO_COLOR is set).",
)
def kemu() -> None:
    """Emulate whole Kafka clusters in one process: real protocol, virtual time, one seed, injected faults.

    Start with "kemu run steady-group", then "kemu scenarios". "kemu help WORD" defines a word of the reports.
    """


def main(arguments: list[str] | None = None, imported: Callable[[], object] = lambda: None) -> None:
    """Run the command line; exit with a code of ``tools.exits``. No error prints a traceback.

    ``imported`` is called when an interrupt can be handled.
    """
    code = _run(sys.argv[1:] if arguments is None else arguments, imported)
    if arguments is None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done: nothing is left to interrupt
    sys.exit(code)


def _run(arguments: list[str], imported: Callable[[], object]) -> int:
    """Run a command; return its exit code."""
    try:
        imported()
        open_outputs()
        with signals_interrupt():
            try:
                code = kemu.main(args=arguments, prog_name="kemu", standalone_mode=False)
            except SystemExit as ended:
                code = ended.code
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        show_error(error)
        return error.exit_code
    except OutputFailed as error:
        say_error(f"the output cannot be written: {error}")
        return NO_OUTPUT
    except BaseException as error:
        if is_interrupt(error):
            click.echo(f"interrupted; repeat with: {shlex.join(['kemu', *arguments])}", err=True)
            return exit_code()
        if (text := bad_input_text(error)) is not None:
            say_error(text)
            return BAD_INPUT
        say_error(report_bug(error, arguments))
        return BUG
