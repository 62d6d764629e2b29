"""``python -m kemu.tools.determinism.other_process``: makes the runs it reads on its standard input, a JSON line each.

A line says scenario (plain form), seed, profile; the answer is the run's digest, a line too. With "entries", the path
of a file, the run is told into it instead (``telling``), as msgpack values one after the other; the answer is "told".
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgpack

from kemu.emulator.runner import run
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.tools.determinism.telling import Entry, run_telling


def answer(asked: dict[str, Any]) -> str:
    """Make one run."""
    scenario = scenario_from_dict(asked["scenario"])
    if "entries" not in asked:
        return run(scenario, seed=asked["seed"], profile=asked["profile"], loop="bare").digest
    with Path(asked["entries"]).open("wb") as file:

        def tell(entry: Entry) -> None:
            file.write(msgpack.packb(entry))

        run_telling(scenario, asked["seed"], asked["profile"], tell)
    return "told"


def main() -> None:
    """Answer line by line until there are no more."""
    for line in sys.stdin:
        print(answer(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
