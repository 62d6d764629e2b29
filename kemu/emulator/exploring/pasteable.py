"""A shrunk failure as files that people keep: a scenario in TOML, a test in Python that fails until it is mended."""

import re
import textwrap

from kemu.emulator.exploring.python_text import python_text
from kemu.emulator.exploring.shrinking import Shrunk
from kemu.emulator.findings import Violation
from kemu.emulator.text.toml_text import toml_text

WIDTH = 110
QUOTES = '"' * 3


def said(violation: Violation) -> str:
    """A violation in a line: "one-owner two-owners at 22.022 s: ..."."""
    return f"{violation.checker} {violation.kind}".rstrip() + f" at {violation.at_us / 1e6:.3f} s: {violation.text}"


def as_toml(shrunk: Shrunk) -> str:
    """The scenario as a file; it says its seed and release itself."""
    comment = textwrap.wrap(f"Shrunk in {shrunk.runs} runs. Shows: {said(shrunk.violation)}", WIDTH - 2)
    return "".join(f"# {line}\n" for line in comment) + toml_text(shrunk.scenario.to_dict())


def as_test(shrunk: Shrunk) -> str:
    """A module with one test that runs the scenario and holds when nothing is violated any more."""
    scenario = shrunk.scenario
    shows = "\n".join(textwrap.wrap(f"Shows: {said(shrunk.violation)}", WIDTH))
    shows = shows.replace("\\", "\\\\").replace(QUOTES, "'" * 3)
    return f'''"""Shrunk in {shrunk.runs} runs.

{shows}
"""

import kemu

{python_text(scenario, before="SCENARIO = ")}


def test_{identifier(scenario.name)}() -> None:
    kemu.check(SCENARIO, seeds=[{scenario.seed}])
'''


def identifier(name: str) -> str:
    """A scenario's name as a part of Python's names."""
    return re.sub(r"\W+", "_", name).strip("_").lower() or "scenario"
