"""The word list: complete, consistent with docs/words.md, and printed by ``kemu help``."""

from collections import Counter
from itertools import chain
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kemu.emulator.metrics.costs import FIGURES
from kemu.tools import exits
from kemu.tools.cli import COMMANDS, SECTIONS, kemu
from kemu.tools.progress import is_quiet
from kemu.tools.words import look_up, markdown, names, sections

PAGE = Path(__file__).resolve().parents[2] / "docs" / "words.md"


def help_on(*words: str) -> str:
    """The output of ``kemu help``, which must succeed."""
    result = CliRunner().invoke(kemu, ["help", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_page_is_generated_from_the_declaration() -> None:
    """``python -m kemu.tools.words`` writes it again."""
    assert PAGE.read_text(encoding="utf-8") == markdown()


def test_every_figure_verdict_and_exit_code_is_on_the_page() -> None:
    """By its name, in the first column."""
    page = PAGE.read_text(encoding="utf-8")

    for term in [*FIGURES, *exits.OF_VERDICT, *exits.MEANING]:
        assert f"\n| {term} | " in page


def test_no_word_is_defined_twice() -> None:
    """Other forms count as well."""
    found = Counter(chain.from_iterable(names(word) for word in chain.from_iterable(sections().values())))

    assert [name for name, count in found.items() if count > 1] == []


def test_the_verdicts_of_runs_have_the_documented_exit_codes() -> None:
    """Issue 35 may change the numbers; every one has a meaning."""
    assert set(exits.OF_VERDICT.values()) <= set(exits.MEANING)


@pytest.mark.parametrize(
    ("asked", "begins"),
    [
        ("generation", "generation: "),
        ("Static Member", "static member: "),
        ("service lost", "service_lost: "),
        ("downtime", "downtime_sum: "),
        ("violations", "violation: "),
        ("holds", "holds: "),
        ("crash", "crash: "),
        ("session.timeout.ms", "session.timeout.ms"),
        ("campaign", "campaign: "),
        ("import", "Usage: kemu import "),
    ],
)
def test_help_defines_a_word_or_shows_a_command(asked: str, begins: str) -> None:
    """Capitals, spaces and underscores make no difference; keys of ``kemu describe`` are found as well."""
    assert help_on(asked).startswith(begins)


def test_several_words_need_no_quotes() -> None:
    """``kemu help high watermark``."""
    assert help_on("high", "watermark") == help_on("high watermark")


def test_help_without_a_word_is_the_help_of_kemu() -> None:
    """Commands stand in sections by purpose, then the exit codes."""
    shown = help_on()

    assert shown == CliRunner().invoke(kemu, ["--help"]).stdout
    places = [shown.index(f"\n{title}:\n") for title in [*SECTIONS, "Exit codes"]]
    assert places == sorted(places)
    for name in COMMANDS:
        assert f"\n  {name} " in shown


def test_an_unknown_word_is_refused_with_the_nearest_one() -> None:
    """Exit code 2."""
    result = CliRunner().invoke(kemu, ["help", "generatoin"])

    assert result.exit_code == exits.BAD_INPUT
    assert 'did you mean "generation"' in result.output
    assert look_up("generatoin") == []


def test_colour_is_on_or_off_as_asked() -> None:
    """The option of the group holds for every command."""
    coloured = CliRunner().invoke(kemu, ["--color", "help", "seed"], color=None)
    plain = CliRunner().invoke(kemu, ["--no-color", "help", "seed"], color=True)

    assert "\x1b[1m" in coloured.stdout
    assert "\x1b" not in plain.stdout


@pytest.mark.parametrize("name", [name for name, row in COMMANDS.items() if row.progress])
def test_a_command_that_shows_progress_can_be_quiet(name: str) -> None:
    """``-q``: after the name of the command."""
    command = kemu.get_command(click.Context(kemu), name)
    assert command is not None
    (option,) = [each for each in command.params if each.name == "quiet"]

    context = click.Context(command)
    with context:
        assert not is_quiet()
        option.process_value(context, True)
        assert is_quiet()
