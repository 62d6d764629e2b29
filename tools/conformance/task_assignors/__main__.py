"""``python -m kemu.tools.conformance.task_assignors``: Kafka Streams' own task assignors beside the emulator's.

Exit codes: 0 everything is the same, 1 something differs, 2 bad input.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from kemu.tools.conformance.maven import RealKafkaError
from kemu.tools.conformance.task_assignors import recordings
from kemu.tools.conformance.task_assignors.cases import Json, random_case
from kemu.tools.conformance.task_assignors.java_calls import KafkaTaskAssignors, version_of

DIFFERS = 1
SHOWN = 3
"""Differences that are shown in full."""
KEPT_OF_EACH, MOST_CHARS = 30, 2_400


@click.command()
@click.option("--ask", "release", metavar="RELEASE", help="Ask this Kafka Streams (Java, Maven), such as 3.4.1.")
@click.option("--cases", "count", type=click.IntRange(1), default=500, show_default=True, help="How many, by assignor.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the cases.")
@click.option("--keep", is_flag=True, help=f"Write {KEPT_OF_EACH} cases of each assignor with their answers.")
@click.option(
    "--kept",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=recordings.KEPT,
    show_default="the repository's",
    help="Folder of the recordings.",
)
def main(release: str | None, count: int, seed: int, keep: bool, kept: Path) -> None:
    """Compare answers of Kafka Streams' task assignors with the emulator's: kept ones, or new ones of a release."""
    if keep and release is None:
        raise click.UsageError("--keep is about new answers: say --ask RELEASE, too")
    try:
        if release is None:
            found = recordings.read_all(kept)
        else:
            found = [_ask(release, count, seed, kept if keep else None)]
    except (RealKafkaError, recordings.AnswersError) as error:
        raise click.UsageError(str(error)) from None
    differ = 0
    for each in found:
        wrong = list(each.differences())
        differ += len(wrong)
        click.echo(f"kafka-streams {each.release}: {len(each.cases)} cases, {len(wrong)} differ")
        for case, ours in wrong[:SHOWN]:
            click.echo(f"  case     {json.dumps({key: case[key] for key in case if key != 'answer'})}")
            click.echo(f"  Kafka    {json.dumps(case['answer'])}")
            click.echo(f"  emulator {json.dumps(ours)}")
    sys.exit(DIFFERS if differ else 0)


def _ask(release: str, count: int, seed: int, keep_in: Path | None) -> recordings.Answers:
    names = ("sticky",) if version_of(release) < (2, 6) else ("ha", "sticky", "prior")
    with tempfile.TemporaryDirectory(prefix="kemu-task-assignors-") as name:
        click.echo(f"Maven brings Kafka Streams {release}", err=True)
        kafka = KafkaTaskAssignors(release, Path(name))
        cases: list[Json] = [random_case(one, seed, number) for one in names for number in range(count)]
        answers = kafka.answers(cases)
    command = f"python -m kemu.tools.conformance.task_assignors --ask {release} --cases {count} --seed {seed}"
    if keep_in is not None:
        _keep(release, f"{command} --keep", names, cases, answers, keep_in)
    return recordings.Answers(release, command, tuple({**case, "answer": answers[case["id"]]} for case in cases))


def _keep(
    release: str, command: str, names: Sequence[str], cases: Sequence[Json], answers: dict[str, Json], folder: Path
) -> None:
    chosen: list[Json] = []
    for name in names:
        of_name = [case for case in cases if case["assignor"] == name]
        chosen += recordings.sample(of_name, answers, KEPT_OF_EACH, MOST_CHARS)
    path = folder / f"kafka-streams-{release}.json"
    path.write_text(recordings.Answers(release, command, tuple(chosen)).to_json(), encoding="utf-8")
    click.echo(f"wrote {path}", err=True)


if __name__ == "__main__":
    main()
