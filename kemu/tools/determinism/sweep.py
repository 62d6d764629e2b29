"""The check of determinism for commands that make many runs, and the output of the check."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from kemu.tools.determinism.watch import CANARY, Differs, SweepWatch, canary, fails, hash_seed_of_others
from kemu.tools.exits import BROKEN, NONDETERMINISM
from kemu.tools.interrupt import exit_code

ASLEEP = f"the checkers are broken: the run of {CANARY} breaks a rule, and they found no violation"


@contextmanager
def watched_sweep() -> Iterator[SweepWatch]:
    """Yield a watch that must receive every run; print the result to stderr at the end of the block.

    Raises:
        SystemExit: ``NONDETERMINISM`` if a repeated run has another digest; ``BROKEN`` if a repeated run broke, or
            the canary showed no violation; the code of the signal after an interrupt.
    """
    with SweepWatch() as watch:
        yield watch
        try:
            differing = watch.differing()
        except RuntimeError as error:
            click.echo(str(error), err=True)
            sys.exit(BROKEN)
        except KeyboardInterrupt:
            click.echo("interrupted before the repeated runs were finished", err=True)
            sys.exit(exit_code())
    for each in differing:
        print_difference(each)
    if differing:
        sys.exit(NONDETERMINISM)
    if watch.sampled and not fails(canary()):
        click.echo(ASLEEP, err=True)
        sys.exit(BROKEN)
    if watch.sampled:
        runs = "1 run" if watch.sampled == 1 else f"{watch.sampled} runs"
        click.echo(
            f"{runs} of {watch.seen} repeated in another process: equal; the canary run fails as it must", err=True
        )


def print_difference(differs: Differs) -> None:
    """Print to stderr the first difference of two runs, and the command that repeats the run."""
    click.echo(f"nondeterminism: {differs.here} here, {differs.there} in another process", err=True)
    for line in differs.lines:
        click.echo(f"  {line}", err=True)
    click.echo(f"repeat with: PYTHONHASHSEED={hash_seed_of_others()} {differs.asked.command}", err=True)
