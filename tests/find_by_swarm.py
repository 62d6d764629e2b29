"""Which past bugs the swarm finds, and with which seed first.

``python -m tests.find_by_swarm --seeds 1:500 --out found.jsonl``: each seed's cluster, load and plan (what ``kemu bugs
--find --plans swarm`` draws) is run for each release that a bug of the past bug goes with, without any past bug. That
run tells which rules it asked (``tests.asked_rules``): a bug whose rules it did not ask cannot show in this seed. The
others are run, each alone. A bug is found if its checker finds the kind of violation that the bug names, and not in the
run without the bug. What is told is the first seed that shows a bug, not one that may be too late.

Left out are bugs of Streams and of topics that are deleted and created again: the swarm draws neither. It takes up
again where it ended.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kemu.emulator.exploring.operations import forgets_offsets
from kemu.emulator.past_bugs.bug import PastBug, Where
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.profiles import PROFILES
from kemu.tools.commands.run_options import seed_range
from kemu.tools.finding import release_of, swarm, swarm_without
from tests.asked_rules import asking

OF_DELETED_TOPICS = ("KAFKA-12257",)
LOOKED_FOR = tuple(
    issue for issue, bug in PAST_BUGS.items() if bug.where is not Where.STREAMS and issue not in OF_DELETED_TOPICS
)
OF_SHORT_RETENTION = ("KAFKA-4682", "KAFKA-13636")
OF_RACKS = ("KAFKA-15170",)
COOPERATIVE_ALONE = ("KAFKA-12983",)
"""Members that give up everything before they join have nothing left to keep."""


def way(bug: PastBug) -> tuple[str, str]:
    """The checker that must catch it, and how it calls it."""
    return bug.caught_by, bug.kind


def ways(result: RunResult) -> set[tuple[str, str]]:
    """What was found in a run."""
    return {(each.checker, each.kind) for each in result.violations}


def by_release(bugs: Iterable[str]) -> Mapping[tuple[str, bool], list[PastBug]]:
    """Bugs by what their runs have in common: the release, and whether brokers replicate."""
    found: dict[tuple[str, bool], list[PastBug]] = {}
    for issue in bugs:
        bug = PAST_BUGS[issue]
        found.setdefault((release_of(bug), bug.past.needs_replication), []).append(bug)
    return found


def can_have(bug: PastBug, scenario: Scenario) -> bool:
    """Whether a cluster can have a bug at all: somebody uses its assignors, there are racks, offsets expire."""
    used = {name for group in scenario.groups.values() for name in group.assignors}
    if bug.issue in COOPERATIVE_ALONE:
        return "cooperative-sticky" in used
    if bug.issue in OF_RACKS and not scenario.brokers.racks:
        return False
    if bug.issue in OF_SHORT_RETENTION and not forgets_offsets(scenario):
        return False
    return not bug.past.assignors or any(name in used for name in bug.past.assignors)


def known_to(release: str, scenario: Scenario) -> bool:
    """Whether a release has what groups use: cooperative-sticky came with 2.4."""
    return all(name in PROFILES[release].assignors for group in scenario.groups.values() for name in group.assignors)


def looked_for(seed: int, wanted: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Of each release: which bugs a seed shows, which were run alone, which could not show."""
    for (release, replicated), bugs in by_release(wanted).items():
        scenario = swarm_without(release, replicated, seed)
        bugs = [bug for bug in bugs if can_have(bug, scenario)]
        if not bugs or not known_to(release, scenario):
            continue
        of_exhibits = {bug.issue: [PAST_BUGS[each] for each in load_scenario(bug.issue).bugs] for bug in bugs}
        with asking({each.issue: each for some in of_exhibits.values() for each in some}.values()) as asked:
            without = run(scenario, seed=seed, profile=release, loop="bare")
        asking_for = [bug for bug in bugs if any(asked.could_matter(each, scenario) for each in of_exhibits[bug.issue])]
        found = []
        for bug in asking_for:
            result = run(swarm(bug, seed), seed=seed, profile=release, loop="bare")
            if way(bug) in ways(result) - ways(without):
                found.append(bug.issue)
        yield {
            "seed": seed,
            "release": release,
            "replicated": replicated,
            "without": without.verdict,
            "found": found,
            "alone": [bug.issue for bug in asking_for],
            "passed_over": len(bugs) - len(asking_for),
        }


def first_found(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Bug -> the first seed that showed it."""
    found: dict[str, int] = {}
    for row in rows:
        for issue in row["found"]:
            found[issue] = min(row["seed"], found.get(issue, row["seed"]))
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("issues", nargs="*", choices=[*LOOKED_FOR, []], metavar="ID", help="these alone (default: all)")
    parser.add_argument("--seeds", type=seed_range, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing more after so long")
    given = parser.parse_args()
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {row["seed"] for row in rows if row.get("whole")}
    rows = [row for row in rows if not row.get("whole") and row["seed"] in done]  # one that was broken off begins anew
    began_s = time.monotonic()
    with given.out.open("a", encoding="utf-8") as out:
        for seed in given.seeds:
            if seed in done or time.monotonic() - began_s > given.seconds:
                continue
            found = first_found(rows)
            for row in looked_for(seed, [issue for issue in given.issues or LOOKED_FOR if issue not in found]):
                rows.append(row)
                print(json.dumps(row), file=out, flush=True)
                for issue in row["found"]:
                    print(f"seed {seed}: {issue}", flush=True)
            print(json.dumps({"seed": seed, "whole": True}), file=out, flush=True)
    alone, passed = sum(len(row["alone"]) for row in rows), sum(row["passed_over"] for row in rows)
    print(f"{len(rows)} runs without bugs, {alone} with one, {passed} that could not show it left out")


if __name__ == "__main__":
    main()
