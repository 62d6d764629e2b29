"""Which past bugs the swarm finds, and with which seed first: all of them looked for in the same runs.

``python -m tests.find_by_swarm --seeds 1:500 --out found.jsonl``: each seed's cluster, load and plan (what ``kemu bugs
--find --plans swarm`` draws, of the default release) is run with all past bugs on that go together; of those that the
checkers then seem to see, in the way in which each must be caught, each is run alone. Only that counts as found. A bug
can hide another (who failed shows nothing more), and of two that decide the same thing otherwise one is on, in turns:
so a seed may be passed over, and what is told is at most too late.

Bugs of Streams and of racks are left out: the swarm draws neither. It takes up again where it ended.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from kemu.emulator.exploring.swarm import swarm_case
from kemu.emulator.findings import Violation
from kemu.emulator.museum.bug import PastBug, Where
from kemu.emulator.museum.registry import PAST_BUGS
from kemu.emulator.runner import run
from kemu.tools.commands.run_options import seed_range
from kemu.tools.finding import catches, swarm

NOT_DRAWN = ("KAFKA-15170",)
"""Of racks."""


def together(bugs: Sequence[PastBug], replicated: bool) -> list[PastBug]:
    """Those that one run can have: of two that decide the same otherwise (an assignor, say) the first."""
    taken: set[tuple[str, str]] = set()
    found = []
    for bug in bugs:
        past = bug.past
        parts = {"replica": past.replica, "controller": past.controller, "coordinator": past.coordinator}
        parts |= {"consumer": past.consumer, "assignors": past.assignors}
        fields = {(part, name) for part, values in parts.items() for name in values}
        if bug.where is Where.STREAMS or bug.issue in NOT_DRAWN or fields & taken:
            continue
        if replicated or not past.needs_replication:
            taken |= fields
            found.append(bug)
    return found


def seen_in(seed: int, replicated: bool, bugs: Sequence[PastBug]) -> list[PastBug]:
    """Those of them that this seed seems to show when all are on."""
    scenario = swarm_case(seed, replicated=replicated, cores=False).scenario
    result = run(evolve(scenario, bugs=tuple(bug.issue for bug in bugs)), seed=seed, drive="bare")
    violations: Sequence[Violation] = result.violations
    ways = {(each.checker, each.kind) for each in violations}
    return [bug for bug in bugs if (bug.caught_by, bug.kind) in ways]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seed_range, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing more after so long")
    given = parser.parse_args()
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {row["seed"] for row in rows}
    found = {issue for row in rows for issue in row["found"]}
    began_s = time.monotonic()
    with given.out.open("a", encoding="utf-8") as out:
        for seed in given.seeds:
            if seed in done or time.monotonic() - began_s > given.seconds:
                continue
            here: list[str] = []
            wanted = [bug for bug in PAST_BUGS.values() if bug.issue not in found]
            for replicated in (False, True):
                bugs = [bug for bug in wanted if bug.past.needs_replication is replicated]
                turn = seed % max(len(bugs), 1)
                seeming = seen_in(seed, replicated, together([*bugs[turn:], *bugs[:turn]], replicated))
                here += [bug.issue for bug in seeming if catches(bug, swarm, seed)]
            found.update(here)
            print(json.dumps({"seed": seed, "found": here}), file=out, flush=True)
            if here:
                print(f"seed {seed}: {', '.join(here)}", flush=True)


if __name__ == "__main__":
    main()
