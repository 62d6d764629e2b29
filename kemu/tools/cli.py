"""The command ``kemu``: people's way in. Commands live in modules of their own, imported when they are called."""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click
from attrs import frozen

from kemu.tools.exits import BAD_INPUT


@frozen
class Row:
    """One command: where it is, and its line in the help (so that the help imports nothing)."""

    place: str
    """module:attribute"""
    summary: str


COMMANDS: Mapping[str, Row] = {
    "run": Row(
        "kemu.tools.commands.run:run", "Run a scenario and say what happened, what it cost and what was violated."
    ),
    "scale": Row(
        "kemu.tools.commands.scale:scale", "Scale a Streams application up or down, in a scenario or in a live run."
    ),
    "compare": Row(
        "kemu.tools.commands.compare:compare", "Compare what protocols and assignors cost under the same faults."
    ),
    "scenarios": Row("kemu.tools.commands.describe:scenarios", "List the scenarios that come with the package."),
    "describe": Row(
        "kemu.tools.commands.describe:describe", "Explain config keys, faults, actions, checkers and exit codes."
    ),
    "bugs": Row("kemu.tools.commands.bugs:bugs", "List Kafka's past bugs, and show what one did."),
    "schema": Row("kemu.tools.commands.schema:schema", "Print a JSON Schema of scenario files, for editors."),
    "import": Row("kemu.tools.commands.import_:import_", "Turn the output of Kafka's own tools into a scenario."),
    "replay": Row(
        "kemu.tools.commands.replay:replay", "Feed a trace to today's machines and stop at the first difference."
    ),
    "swarm": Row(
        "kemu.tools.commands.swarm:swarm",
        "Draw clusters, loads and faults from seeds, and see whether all that must holds.",
    ),
    "explore": Row(
        "kemu.tools.commands.explore:explore", "Run a scenario in many orders of its messages, and look for a bad one."
    ),
    "shrink": Row(
        "kemu.tools.commands.shrink:shrink", "Make a failing run small: a scenario and a test that fail the same way."
    ),
    "history": Row(
        "kemu.tools.commands.history:history", "Say which of Jepsen's Kafka anomalies a run's history has, and why."
    ),
    "explain": Row("kemu.tools.commands.explain:explain", "Print a trace as a transcript people can read."),
    "assign": Row("kemu.tools.commands.assign:assign", "Compute the assignment of one group, as its leader would."),
    "compare-assignors": Row(
        "kemu.tools.commands.assign:compare_assignors", "Compare what assignors do with the same group."
    ),
    "assign-tasks": Row(
        "kemu.tools.commands.assign_tasks:assign_tasks", "Compute who gets which task of a Kafka Streams application."
    ),
    "plan-reassignment": Row(
        "kemu.tools.commands.plan_reassignment:plan_reassignment_command",
        "Plan a partition reassignment in batches (KIP-435), without running anything.",
    ),
    "coverage": Row(
        "kemu.tools.commands.coverage:coverage", "Say which states, messages, transitions and rare events runs came to."
    ),
    "campaign": Row(
        "kemu.tools.commands.campaign:campaign", "Run many scenarios, profiles, settings and seeds on Spark."
    ),
    "analyze": Row("kemu.tools.commands.analyze:analyze", "Turn campaigns and traces into tables and comparisons."),
    "query": Row("kemu.tools.commands.analyze:query", "Ask analyzed tables in SQL."),
}


class _LazyGroup(click.Group):
    """Commands by name from a table; ``kemu run`` need not import what ``kemu import`` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        module, _, attribute = row.place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            from kemu.emulator.text.tables import nearest

            raise click.UsageError(f'"{name}" is no command{nearest(name, COMMANDS)}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.summary) for name, row in COMMANDS.items()])


def _version() -> str:
    try:
        return version("kemu")
    except PackageNotFoundError:
        return "from a source tree that is not installed"


def _print_version(ctx: click.Context, _: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"kemu {_version()}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Say which.")
def kemu() -> None:
    """Whole emulated Kafka consumer groups in one process: real protocol, virtual time, one seed, injected faults.

    Start with "kemu run steady-group", then "kemu scenarios".
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits with a code of ``tools.exits``. Bad input is one clear message, never a traceback."""
    from kemu.emulator.text.tables import ScenarioError

    try:
        kemu.main(args=arguments, prog_name="kemu")
    except ScenarioError as error:
        for line in str(error).splitlines():
            click.echo(f"{click.style('error', fg='red')}: {line}", err=True)
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        # Whoever read our output has gone (kemu explain ... | head); what is left is for nobody.
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
