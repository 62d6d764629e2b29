"""A release's own code asked by itself, beside the emulator's: kept answers, or new ones; one runner for all of them.

What is asked is the oracle's own: its cases, the program in Java that a release answers them with, and what the
emulator gives instead. Recordings are JSON, a row a line, so that nobody needs Java to compare.
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
"""The exit code when something does."""
SHOWN = 3
"""Differences that are shown in full."""


class AnswersError(ValueError):
    """No recording of a release's answers."""


class OtherAnswer(NamedTuple):
    """Where the emulator gives something else: what was asked, with the release's answer; and what it gives."""

    name: str
    asked: Json
    ours: Json


class AnswersOfRelease(Protocol):
    """What a release answered."""

    @property
    def release(self) -> str:
        """Such as 3.4.1."""
        ...

    def to_json(self) -> str:
        """As a recording."""
        ...

    def differences(self) -> Iterator[OtherAnswer]:
        """Where the emulator gives something else."""
        ...

    def said(self, wrong: Sequence[OtherAnswer]) -> Iterator[str]:
        """How many were compared, and how many of them are wrong; then what else there is to say of them."""
        ...


R = TypeVar("R", bound=AnswersOfRelease)


def recording_text(release: str, made_by: str, key: str, rows: Iterable[Json]) -> str:
    """A row a line, so that a changed one is a changed line."""
    head = json.dumps({"kafka": release, "made_by": made_by})
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    return f'{head[:-1]}, "{key}": [\n{lines}\n]}}\n'


@frozen(kw_only=True)
class Oracle(Generic[R]):
    """What can be asked of releases.

    ``module``: its package here. ``library``: whose releases. ``key``: of the rows in a recording. ``made``: answers of
    (release, command, rows). ``ask``: a release's answers to so many rows of a seed, with a folder for Maven.
    ``sample``: of answered rows, those that are kept. ``cases``: how many are asked if nobody says.
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
            AnswersError: there is none, or one cannot be read.
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
        """Ask a release; some of its answers become a recording in ``keep_in``."""
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
        """``python -m lab.conformance.MODULE``.

        Args:
            what: it does, the help of it.
            cases: what ``--cases`` counts.
            keeps: what ``--keep`` writes.
        """

        @click.command(help=what)
        @click.option("--ask", "release", metavar="RELEASE", help=f"Ask this {self.library} (Java, Maven): 3.4.1.")
        @click.option("--cases", "count", type=click.IntRange(1), default=self.cases, show_default=True, help=cases)
        @click.option("--seed", type=int, default=1, show_default=True, help="Of what is asked.")
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
        """Say how they compare; how many differ."""
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
