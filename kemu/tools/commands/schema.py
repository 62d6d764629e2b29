"""``kemu schema`` prints the JSON Schema of scenario files, for editors."""

import json
from pathlib import Path

import click


@click.command()
@click.option(
    "--out", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write the schema to this file."
)
def schema(out: Path | None) -> None:
    """Print the JSON Schema (draft 2020-12) of a scenario file, including the actions of plans and Kafka's keys.

    An editor with this schema completes keys and marks errors. Taplo, for example, finds the schema by a comment in the
    first line of the scenario file: "#:schema scenario.schema.json".
    """
    from kemu.emulator.scenario.json_schema import scenario_schema

    text = json.dumps(scenario_schema(), indent=2) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"{out} cannot be written: {error.strerror}", param_hint="--out") from None
    click.echo(f"schema written to {out}", err=True)
