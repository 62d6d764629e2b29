"""``python -m kemu.tools.determinism.other_process``: repeat the runs that standard input describes, one per JSON line.

A line has scenario (plain form), seed and profile; the answer is one line with the run's digest. If the line names a
file as "entries", the entries of the run (``run_entries``) go to this file as msgpack values; the answer is "written".
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
    """Run the described scenario; return the line to answer."""
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
