"""``python -m lab.conformance.reassigning``: compare a recorded and an emulated reassignment, line by line.

Exit codes: 0 all lines are equal, 1 a line differs, 2 bad input.
"""

import sys
import tempfile
from pathlib import Path

import click

from lab.conformance.maven import RealKafkaError
from lab.conformance.real_cluster import fetch_jars
from lab.conformance.reassigning import recordings
from lab.conformance.reassigning.emulated import emulate
from lab.conformance.reassigning.plan import RACES
from lab.conformance.reassigning.recording import record
from lab.conformance.reassigning.sequences import LinesDiffer, differences

DIFFERS = 1


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Number of runs of the emulator.")
@click.option(
    "--record", "release", metavar="RELEASE", help="Record this release of Kafka (needs Java and Maven, 3 minutes)."
)
@click.option(
    "--protocol",
    metavar="VERSION",
    help="inter.broker.protocol.version to record; by default the release's.",
)
@click.option(
    "--kept",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=recordings.KEPT,
    show_default="the repository's",
    help="Folder of the recordings.",
)
def main(seeds: int, release: str | None, protocol: str | None, kept: Path) -> None:
    """Compare recorded reassignments of a real Kafka with emulated reassignments, or record another reassignment."""
    if protocol is not None and release is None:
        raise click.UsageError("--protocol is about a new recording: say --record RELEASE, too")
    try:
        if release is not None:
            _record(release, protocol or ".".join(release.split(".")[:2]), kept)
            return
        found = recordings.read_all(kept)
    except (RealKafkaError, recordings.SequencesError) as error:
        raise click.UsageError(str(error)) from None
    count = 0
    for each in found:
        for seed in range(1, seeds + 1):
            ours, verdict = emulate(seed, profile=each.profile)
            wrong = differences(each.sequences, ours, RACES)
            count += len(wrong) + (verdict != "holds")
            lines = sum(len(each.sequences.lines(*place)) for place in each.sequences.places())
            click.echo(f"{each.name}, seed {seed}: {lines} lines, {len(wrong)} places differ, {verdict}")
            for difference in wrong:
                click.echo(_shown(difference))
    sys.exit(DIFFERS if count else 0)


def _shown(difference: LinesDiffer) -> str:
    rows = [f"  {difference.step}, {difference.partition}, {difference.who}"]
    rows += [f"    Kafka     {line}" for line in difference.kafka]
    rows += [f"    emulator  {line}" for line in difference.emulated]
    return "\n".join(rows)


def _record(release: str, protocol: str, kept: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="kemu-reassigning-") as name:
        folder = Path(name)
        click.echo(f"Maven brings Kafka {release}", err=True)
        libs = fetch_jars(release, folder / "release")
        made = record(libs, folder / "cluster", protocol, lambda text: click.echo(text, err=True))
    command = f"python -m lab.conformance.reassigning --record {release} --protocol {protocol}"
    about = {"kafka": release, "inter_broker_protocol": protocol, "made_by": command}
    path = kept / f"kafka-{release}-protocol-{protocol}.json"
    path.write_text(made.to_json(about), encoding="utf-8")
    click.echo(f"wrote {path}", err=True)


if __name__ == "__main__":
    main()
