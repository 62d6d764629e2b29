"""How a command watches its sweep, and what it says of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from kemu.tools.determinism.watch import CANARY, Differs, SweepWatch, canary, fails, hash_seed_of_others
from kemu.tools.exits import BROKEN, NONDETERMINISM

ASLEEP = f"the checkers are asleep: {CANARY} breaks an invariant, and was found to hold"


@contextmanager
def watched_sweep() -> Iterator[SweepWatch]:
    """Hand it every run; when the block ends, a line on stderr says what came of it.

    Raises:
        SystemExit: ``NONDETERMINISM`` if a run of the sample was another one in the other process, ``BROKEN`` if it
            broke there, or if a run that must fail does not.
    """
    with SweepWatch() as watch:
        yield watch
        try:
            differing = watch.differing()
        except RuntimeError as error:
            click.echo(str(error), err=True)
            sys.exit(BROKEN)
    for each in differing:
        tell(each)
    if differing:
        sys.exit(NONDETERMINISM)
    if watch.sampled and not fails(canary()):
        click.echo(ASLEEP, err=True)
        sys.exit(BROKEN)
    if watch.sampled:
        runs = "1 run" if watch.sampled == 1 else f"{watch.sampled} runs"
        click.echo(
            f"{runs} of {watch.seen} made again in another process: the same; the run that must fail does", err=True
        )


def tell(differs: Differs) -> None:
    """Say on stderr how a run was another one, and what repeats it."""
    click.echo(f"nondeterminism: {differs.here} here, {differs.there} in another process", err=True)
    for line in differs.lines:
        click.echo(f"  {line}", err=True)
    click.echo(f"repeat with: PYTHONHASHSEED={hash_seed_of_others()} {differs.asked.command}", err=True)
