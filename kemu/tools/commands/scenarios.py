"""``kemu scenarios`` lists the scenarios of the package."""

import json

import click

from kemu.emulator.scenario.presets import presets
from kemu.tools.report.layout import TableColumn, print_lines, table


@click.command()
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def scenarios(form: str) -> None:
    """List the scenarios that come with the package; "kemu run NAME" runs a scenario."""
    listed = presets()
    if form == "json":
        click.echo(json.dumps([{"name": preset.name, "summary": preset.summary} for preset in listed], indent=2))
        return
    rows = [(click.style(preset.name, bold=True), preset.summary) for preset in listed]
    print_lines(table((TableColumn(), TableColumn(wraps=True)), rows, indent=0))
