"""``python -m kemu.tools.check reach``: which functions of the emulator nothing reaches.

Every preset runs under some seeds, then the tests of ``protocol/``, ``actors/`` and ``emulator/``, all watched by
coverage.py. A function of those three that has statements, of which none ran, is listed: nobody can reach it, or
nobody has said what it is for. Takes several minutes, as watching slows everything down.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, presets

ROOT = Path(__file__).resolve().parent.parent
WATCHED = ("protocol", "actors", "emulator")
SEEDS = range(1, 4)
SETTINGS = """
[run]
include = protocol/*, actors/*, emulator/*
[report]
exclude_also =
    ^\\s*\\.\\.\\.$
"""
"""A function of three dots belongs to a protocol: it is there to be read."""


def unreached(report: Mapping[str, Any]) -> Iterator[str]:
    """``path:line: name`` of every function none of whose statements ran, out of coverage.py's JSON report."""
    for path, file in sorted(report["files"].items()):
        for name, function in file["functions"].items():
            if name and function["summary"]["num_statements"] and not function["executed_lines"]:
                yield f"{path}:{min(function['missing_lines'])}: {name}"


def main(arguments: list[str]) -> int:
    """0 if everything is reached; with ``presets`` as argument, run the presets and nothing else."""
    if arguments == ["presets"]:
        for preset in presets():
            for seed in SEEDS:
                run(load_scenario(preset.name), seed=seed, drive="bare")
        return 0
    with tempfile.TemporaryDirectory(prefix="kemu-reach-") as folder:
        settings, data, report = (Path(folder) / name for name in ("settings", "data", "report.json"))
        settings.write_text(SETTINGS, encoding="utf-8")
        coverage = [sys.executable, "-m", "coverage"]
        how = [f"--rcfile={settings}", f"--data-file={data}"]
        tests = ["-m", "pytest", "-q", "-m", "not soak", *(f"tests/{folder}" for folder in WATCHED)]
        for what in (["-m", "kemu.tools.check_reach", "presets"], tests):
            done = subprocess.run([*coverage, "run", "--append", *how, *what], cwd=ROOT, check=False)
            if done.returncode:
                return done.returncode
        subprocess.run([*coverage, "json", "-q", *how, "-o", str(report)], cwd=ROOT, check=True)
        found = list(unreached(json.loads(report.read_text(encoding="utf-8"))))
    print("\n".join([*found, f"{len(found)} functions are reached by no preset and no test"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
