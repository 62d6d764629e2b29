"""``python -m kemu.tools.conformance.assignors``: Kafka's own consumer assignors beside the emulator's.

Exit codes: 0 everything is the same, 1 something differs, 2 bad input.
"""

import json
import sys
import tempfile
from pathlib import Path

import click

from kemu.tools.conformance.assignors import recordings
from kemu.tools.conformance.assignors.cases import STEPS, ChangingGroup, Json
from kemu.tools.conformance.assignors.java_calls import CLASSES, KafkaAssignors
from kemu.tools.conformance.maven import RealKafkaError

DIFFERS = 1
SHOWN = 3
"""Differences that are shown in full."""
KEPT_OF_EACH, MOST_CHARS = 3, 3_300


@click.command()
@click.option("--ask", "release", metavar="RELEASE", help="Ask this release of kafka-clients (Java, Maven): 3.4.1.")
@click.option("--cases", "count", type=click.IntRange(1), default=1000, show_default=True, help="Groups, by assignor.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the groups.")
@click.option("--keep", is_flag=True, help=f"Write {KEPT_OF_EACH} groups of each kind and assignor with their answers.")
@click.option(
    "--kept",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=recordings.KEPT,
    show_default="the repository's",
    help="Folder of the recordings.",
)
def main(release: str | None, count: int, seed: int, keep: bool, kept: Path) -> None:
    """Compare what Kafka's assignors give with what the emulator's do: kept answers, or new ones of a release.

    A case is a group that goes through five rebalances; its lists must be the same, in their order.
    """
    if keep and release is None:
        raise click.UsageError("--keep is about new answers: say --ask RELEASE, too")
    try:
        found = recordings.read_all(kept) if release is None else [_ask(release, count, seed, kept if keep else None)]
    except (RealKafkaError, recordings.AssignorAnswersError) as error:
        raise click.UsageError(str(error)) from None
    differ = 0
    for each in found:
        wrong = list(each.differences())
        differ += len(wrong)
        failed = f", {each.failed} at which Kafka's fails" if each.failed else ""
        failed += f", {each.invalid} at which it gives what it must not" if each.invalid else ""
        said = f"kafka-clients {each.release}: {len(each.groups)} groups, {each.steps} steps, {len(wrong)} differ"
        click.echo(said + failed)
        for name in CLASSES:
            of_name = [group for group, _, _ in wrong if group.rpartition("-")[0] == name]
            if of_name:
                click.echo(f"  {name}: {len(of_name)} steps of {len(set(of_name))} groups differ")
        for group, step, ours in wrong[:SHOWN]:
            click.echo(f"  {group}   {json.dumps({key: step[key] for key in step if key != 'answer'})}")
            click.echo(f"  Kafka    {json.dumps(step['answer'])}")
            click.echo(f"  emulator {json.dumps(ours)}")
    sys.exit(DIFFERS if differ else 0)


def _ask(release: str, count: int, seed: int, keep_in: Path | None) -> recordings.AssignorAnswers:
    groups = [ChangingGroup(name, seed, number) for name in CLASSES for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="kemu-assignors-") as folder:
        click.echo(f"Maven brings kafka-clients {release}", err=True)
        KafkaAssignors(release, Path(folder)).answer(groups, STEPS)
    command = f"python -m kemu.tools.conformance.assignors --ask {release} --cases {count} --seed {seed}"
    rows = [{"id": group.id, "assignor": group.assignor, "steps": group.steps} for group in groups]
    if keep_in is not None:
        short = [row for row in rows if len(json.dumps(row)) <= MOST_CHARS]
        kinds = [(name, racked, mixed) for name in CLASSES for racked in (False, True) for mixed in (False, True)]
        of_each = [[row for row in short if _kind(row) == kind][:KEPT_OF_EACH] for kind in kinds]
        chosen = [row for some in of_each for row in some]
        path = keep_in / f"kafka-clients-{release}.json"
        made = recordings.AssignorAnswers(release, f"{command} --keep", tuple(chosen))
        path.write_text(made.to_json(), encoding="utf-8")
        click.echo(f"wrote {path}", err=True)
    return recordings.AssignorAnswers(release, command, tuple(rows))


def _kind(group: Json) -> tuple[str, bool, bool]:
    """Its assignor, whether it has racks, whether its members subscribe to different topics."""
    topics = {tuple(member["topics"]) for step in group["steps"] for member in step["members"].values()}
    return group["assignor"], "racks" in group["steps"][0], len(topics) > 1


if __name__ == "__main__":
    main()
