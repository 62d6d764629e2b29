"""Compare recorded or new answers of a release's own code with the emulator's answers.

Each oracle defines its cases, the Java program that answers them with a release's code, and the emulator's answers.
Recordings are JSON with one row on each line, so that comparisons need no Java.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import click
from attrs import frozen

from lab.conformance.maven import RealKafkaError

Json: TypeAlias = dict[str, Any]
DIFFERS = 1
"""Exit code if an answer differs."""
SHOWN = 3
"""Number of differences that are shown in full."""


class AnswersError(ValueError):
    """A file or folder is not a recording of a release's answers."""


class OtherAnswer(NamedTuple):
    """A difference: the case with the release's answer, and the emulator's answer."""

    name: str
    asked: Json
    ours: Json


class AnswersOfRelease(Protocol):
    """The answers of a release to the cases of an oracle."""

    @property
    def release(self) -> str:
        """Kafka's release, such as 3.4.1."""
        ...

    def to_json(self) -> str:
        """The text of a recording."""
        ...

    def differences(self) -> Iterator[OtherAnswer]:
        """The answers of the emulator that differ from the release's answers."""
        ...

    def said(self, wrong: Sequence[OtherAnswer]) -> Iterator[str]:
        """Lines for a report: first the numbers of compared and different answers, afterwards further figures."""
        ...


R = TypeVar("R", bound=AnswersOfRelease)


def recording_text(release: str, made_by: str, key: str, rows: Iterable[Json]) -> str:
    """The text of a recording, with one row on each line so that diffs are short."""
    head = json.dumps({"kafka": release, "made_by": made_by})
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    return f'{head[:-1]}, "{key}": [\n{lines}\n]}}\n'


def short_rows_of_each_assignor(rows: Sequence[Json], most_chars: int, kept: int) -> list[Json]:
    """The first rows of each assignor that are short enough to be kept."""
    short = [row for row in rows if len(json.dumps(row)) <= most_chars]
    names = dict.fromkeys(row["assignor"] for row in rows)
    return [row for name in names for row in [each for each in short if each["assignor"] == name][:kept]]


@frozen(kw_only=True)
class Oracle(Generic[R]):
    """A kind of question to Kafka's releases.

    ``module``: the oracle's package in ``lab.conformance``. ``library``: the library with the releases. ``key``: key of
    the rows in a recording. ``made``: makes answers from (release, command, rows). ``ask``: gets a release's answers to
    a number of cases of a seed, with a folder for Maven. ``sample``: selects the answered rows to store. ``cases``:
    default number of cases.
    """

    module: str
    library: str
    key: str
    kept: Path
    made: Callable[[str, str, tuple[Json, ...]], R]
    ask: Callable[[str, int, int, Path], list[Json]]
    sample: Callable[[Sequence[Json]], Sequence[Json]]
    cases: int

    def read_all(self, folder: Path) -> list[R]:
        """All recordings of a folder, by name.

        Raises:
            AnswersError: the folder has no recording, or a recording is unreadable.
        """
        paths = sorted(folder.glob("*.json"))
        if not paths:
            raise AnswersError(f"there is no recording in {folder}")
        return [self._read(path) for path in paths]

    def _read(self, path: Path) -> R:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return self.made(data["kafka"], data["made_by"], tuple(data[self.key]))
        except (ValueError, KeyError, TypeError) as error:
            raise AnswersError(f"{path} is no recording of answers of {self.library}: {error!r}") from None

    def ask_anew(self, release: str, count: int, seed: int, keep_in: Path | None) -> R:
        """Get new answers from a release; write a sample of them as a recording into ``keep_in``."""
        with tempfile.TemporaryDirectory(prefix=f"kemu-{self.module}-") as folder:
            click.echo(f"Maven brings {self.library} {release}", err=True)
            rows = self.ask(release, count, seed, Path(folder))
        command = f"python -m lab.conformance.{self.module} --ask {release} --cases {count} --seed {seed}"
        if keep_in is not None:
            path = keep_in / f"{self.library}-{release}.json"
            kept = self.made(release, f"{command} --keep", tuple(self.sample(rows)))
            path.write_text(kept.to_json(), encoding="utf-8")
            click.echo(f"wrote {path}", err=True)
        return self.made(release, command, tuple(rows))

    def command(self, what: str, cases: str, keeps: str) -> click.Command:
        """Return the command ``python -m lab.conformance.MODULE``.

        Args:
            what: the command's help text.
            cases: help text of ``--cases``.
            keeps: name of the rows that ``--keep`` writes.
        """

        @click.command(help=what)
        @click.option("--ask", "release", metavar="RELEASE", help=f"Ask this release of {self.library} (Java, Maven).")
        @click.option("--cases", "count", type=click.IntRange(1), default=self.cases, show_default=True, help=cases)
        @click.option("--seed", type=int, default=1, show_default=True, help="Seed of the cases.")
        @click.option("--keep", is_flag=True, help=f"Write {keeps} with their answers.")
        @click.option(
            "--kept",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=self.kept,
            show_default="the repository's",
            help="Folder of the recordings.",
        )
        def main(release: str | None, count: int, seed: int, keep: bool, kept: Path) -> None:
            if keep and release is None:
                raise click.UsageError("--keep is about new answers: say --ask RELEASE, too")
            try:
                if release is None:
                    found = self.read_all(kept)
                else:
                    found = [self.ask_anew(release, count, seed, kept if keep else None)]
            except (RealKafkaError, AnswersError) as error:
                raise click.UsageError(str(error)) from None
            sys.exit(DIFFERS if sum(map(self._show, found)) else 0)

        return main

    def _show(self, answers: R) -> int:
        """Print the comparison; return the number of differences."""
        wrong = list(answers.differences())
        head, *more = answers.said(wrong)
        click.echo(f"{self.library} {answers.release}: {head}")
        for line in more:
            click.echo(f"  {line}")
        for name, asked, ours in wrong[:SHOWN]:
            click.echo(f"  {name:8} {json.dumps({key: asked[key] for key in asked if key != 'answer'})}")
            click.echo(f"  Kafka    {json.dumps(asked['answer'])}")
            click.echo(f"  emulator {json.dumps(ours)}")
        return len(wrong)
