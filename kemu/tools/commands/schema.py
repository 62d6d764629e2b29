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
    from kemu.tools.files import write_text

    text = json.dumps(scenario_schema(), indent=2) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    write_text(out, text)
    click.echo(f"schema written to {out}", err=True)
