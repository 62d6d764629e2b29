"""A shrunk failure as files to keep: a scenario in TOML, and a test in Python that fails until the defect is fixed."""

import re
import textwrap

from kemu.emulator.exploring.python_text import python_text
from kemu.emulator.exploring.shrinking import Shrunk
from kemu.emulator.findings import Violation
from kemu.emulator.text.toml_text import toml_text

WIDTH = 110
QUOTES = '"' * 3


def violation_line(violation: Violation) -> str:
    """One line for a violation: "one-owner two-owners at 22.022 s: ..."."""
    return f"{violation.checker} {violation.kind}".rstrip() + f" at {violation.at_us / 1e6:.3f} s: {violation.text}"


def as_toml(shrunk: Shrunk) -> str:
    """The scenario as a file, with its seed and release."""
    comment = textwrap.wrap(f"Shrunk in {shrunk.runs} runs. Shows: {violation_line(shrunk.violation)}", WIDTH - 2)
    return "".join(f"# {line}\n" for line in comment) + toml_text(shrunk.scenario.to_dict())


def as_test(shrunk: Shrunk) -> str:
    """A module with one test, which runs the scenario and passes when no rule is violated."""
    scenario = shrunk.scenario
    shows = "\n".join(textwrap.wrap(f"Shows: {violation_line(shrunk.violation)}", WIDTH))
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
    """A scenario's name as part of a Python name."""
    return re.sub(r"\W+", "_", name).strip("_").lower() or "scenario"
