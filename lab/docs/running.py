"""Runs the blocks of a page, and compares or rewrites their output.

A page may hold four kinds of blocks that this module reads:

* ``LANGUAGE file=NAME``: the text is written to the file NAME before the next command runs.
* ``console run``: each line after ``$`` is a command of kemu, run in this process. ``exit=N``: the command must end
  with exit code N.
* ``python run``: the text is executed.
* ``text output``: the standard output of the previous block. ``head=N`` keeps the first N lines. ``from=REGEX`` starts
  at the first matching line; ``lines=N`` keeps N lines from the start. ``grep=REGEX`` keeps the matching lines. A line
  "..." stands for omitted lines. ``MASKS`` replaces texts that differ from run to run with "...".
"""

import contextlib
import io
import re
import shlex
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attrs import frozen
from click.testing import CliRunner

from lab.docs.pages import Block, blocks

MASKS: Mapping[str, str] = {
    r"in [\d.,]+ s \([\d.,]+ times as fast\)": "in ... s (... times as fast)",
    r"virtual time in [\d.,]+ s\b": "virtual time in ... s",
    r"\b[\d.,]+ times as fast as real time": "... times as fast as real time",
}
"""Pattern of a text that depends on the machine -> text that a page shows instead."""

ELIDED = "..."
TERMINAL = {"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1", "TERM": "dumb"}
"""Environment variables of the terminal whose output the pages show."""


class BlockFailed(AssertionError):
    """A block of a page does not run, or ends with an unexpected exit code."""


@frozen
class ExpectedOutput:
    """An output block, and the text that belongs into the block."""

    block: Block
    expected: str


@cache
def outputs(page: str) -> tuple[ExpectedOutput, ...]:
    """Run all blocks of a page in a temporary folder.

    Returns:
        Each output block with the output of the previous command.

    Raises:
        BlockFailed: a command ends with an unexpected exit code, or an output block matches nothing.
    """
    shown: list[ExpectedOutput] = []
    printed = ""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in blocks(page):
            if "file" in block.options:
                Path(block.options["file"]).write_text(block.text, encoding="utf-8")
            elif "run" in block.flags:
                printed = run_python(block.text) if block.language == "python" else run_console(block)
            elif "output" in block.flags:
                shown.append(ExpectedOutput(block, selected(printed, block.options)))
    return tuple(shown)


def run_console(block: Block) -> str:
    """Run the commands of a block; return their standard output."""
    from kemu.emulator.text.tables import ScenarioError
    from kemu.tools.cli import kemu

    said = ""
    wanted = int(block.options.get("exit", "0"))
    for line in block.text.replace("\\\n", " ").splitlines():
        if not line.startswith("$ "):
            raise BlockFailed(f"a line of a console block is no command: {line}")
        program, *arguments = shlex.split(line.removeprefix("$ "))
        if program == "cat":
            said += "".join(Path(each).read_text(encoding="utf-8") for each in arguments)
            continue
        if program != "kemu":
            raise BlockFailed(f"only kemu and cat run in a page: {line}")
        done = CliRunner(env=TERMINAL).invoke(kemu, arguments, prog_name="kemu")
        if done.exit_code != wanted or isinstance(done.exception, ScenarioError):
            raise BlockFailed(f"{line}\nexit code {done.exit_code}, not {wanted}: {done.exception!r}\n{done.output}")
        said += done.stdout
    return said


def run_python(text: str) -> str:
    """Execute a block of Python; return its standard output."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(text, "a page", "exec"), {"__name__": "page"})
    return said.getvalue()


def selected(printed: str, options: Mapping[str, str]) -> str:
    """The lines of an output that a block with these options shows, as text.

    Raises:
        BlockFailed: no line matches ``from`` or ``grep``.
    """
    for pattern, mask in MASKS.items():
        printed = re.sub(pattern, mask, printed)
    lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
    keep = set(range(len(lines)))
    if "grep" in options:
        keep = {index for index, line in enumerate(lines) if re.search(options["grep"], line)}
    first = 0
    if "from" in options:
        first = next((index for index, line in enumerate(lines) if re.search(options["from"], line)), len(lines))
    last = len(lines)
    if "lines" in options or "head" in options:
        last = first + int(options.get("lines") or options["head"])
    keep &= set(range(first, last))
    if not keep:
        raise BlockFailed(f"no line of the output is shown by {dict(options)}:\n{printed}")
    told: list[str] = []
    for index, line in enumerate(lines):
        if index in keep:
            told.append(line)
        elif not told or told[-1] != ELIDED:
            told.append(ELIDED)
    return "".join(f"{line}\n" for line in told)


def rewritten(page: str) -> str:
    """The page with the current output in each of its output blocks."""
    for shown in reversed(outputs(page)):
        page = page[: shown.block.start] + shown.expected + page[shown.block.end :]
    return page
