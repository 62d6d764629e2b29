"""``python -m kemu.tools.determinism.other_process`` repeats the runs that standard input describes, one per JSON line.

A line has scenario (as JSON), seed and profile, and the answer is one line with the digest of the run. If the line
names a file as "entries", the process writes the entries of the run (``run_entries``) into the file, and answers
"written". The file contains msgpack values.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgpack

from kemu.emulator.runner import run
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.tools.determinism.run_entries import Entry, run_reporting


def answer(asked: dict[str, Any]) -> str:
    """Run the scenario of a line, and return the answer."""
    scenario = scenario_from_dict(asked["scenario"])
    if "entries" not in asked:
        return run(scenario, seed=asked["seed"], profile=asked["profile"], loop="bare").digest
    with Path(asked["entries"]).open("wb") as file:

        def write(entry: Entry) -> None:
            file.write(msgpack.packb(entry))

        run_reporting(scenario, asked["seed"], asked["profile"], write)
    return "written"


def main() -> None:
    """Answer each line of standard input."""
    for line in sys.stdin:
        print(answer(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
