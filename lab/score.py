"""The report of a campaign of mutants: score by room and by checker, survivors as diffs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lab.campaign import CAUGHT, MutantResult
from lab.operators import ROOT, Mutant

VERDICTS = ("caught", "broken", "crash", "hang", "survivor", "unchanged", "unreached", "invalid")


def score(results: Sequence[MutantResult]) -> float:
    """The share of caught mutants among the mutants that changed a run. A hang is not a catch."""
    caught = sum(each.verdict in CAUGHT for each in results)
    changed = caught + sum(each.verdict in ("survivor", "hang") for each in results)
    return caught / changed if changed else 0.0


def by_checkers(results: Sequence[MutantResult]) -> list[MutantResult]:
    """Results without mutants that end in an error of the machine, so that only checkers can catch the remaining
    mutants.
    """
    return [each for each in results if each.verdict not in ("broken", "crash")]


def not_permitted(results: Sequence[MutantResult], reviewed: Sequence[Mapping[str, str]]) -> list[MutantResult]:
    """Results without survivors that a review calls variants that Kafka permits."""
    return [
        each
        for each in results
        if each.verdict not in ("survivor", "hang") or (review_of(each, reviewed) or {}).get("class") != "permitted"
    ]


def review_of(result: MutantResult, reviewed: Sequence[Mapping[str, str]]) -> Mapping[str, str] | None:
    """The row of ``survivors.toml`` about a mutant, with the same file, line before, operator and texts, at any line
    number.
    """
    mutant = result.mutant
    found = {"file": mutant.file, "operator": mutant.operator, "old": mutant.old, "new": mutant.new.rstrip()}
    found["after"] = before(mutant)
    return next((row for row in reviewed if all(row[key] == text for key, text in found.items())), None)


def before(mutant: Mutant) -> str:
    """The source line before a mutant's line, without indentation."""
    return (ROOT / mutant.file).read_text(encoding="utf-8").splitlines()[mutant.line - 2].strip()


def report(results: Sequence[MutantResult], reviewed: Sequence[Mapping[str, str]], *, as_json: bool = False) -> str:
    """The report as text or as JSON."""
    rooms = sorted({each.mutant.room for each in results})
    of_room = {room: Counter(each.verdict for each in results if each.mutant.room == room) for room in rooms}
    speakers = Counter(each.by[0] for each in results if each.verdict == "caught" and each.by)
    wrong = [each for each in results if each.verdict in CAUGHT and review_of(each, reviewed)]
    survivors = [_survivor(each, reviewed) for each in results if each.verdict in ("survivor", "hang")]
    loud = [each for each in results if each.verdict != "survivor" or each.louder]
    unreached = [each.mutant.name for each in results if each.verdict == "unreached"]
    if as_json:
        found = {
            "score": score(results),
            "score of those that changed the number of steps or messages": score(loud),
            "score of checkers alone": score(by_checkers(results)),
            "score without permitted variants": score(not_permitted(results, reviewed)),
            "rooms": {room: dict(counts) for room, counts in of_room.items()},
            "checkers": dict(speakers),
            "survivors": survivors,
            "unreached": unreached,
            "caught although reviewed": [each.mutant.name for each in wrong],
        }
        return json.dumps(found, indent=2)
    lines = [f"{'room':12}" + "".join(f"{verdict:>11}" for verdict in VERDICTS) + f"{'score':>8}"]
    for room in rooms:
        share = score([each for each in results if each.mutant.room == room])
        lines.append(f"{room:12}" + "".join(f"{of_room[room][each]:>11}" for each in VERDICTS) + f"{share:>8.0%}")
    totals = Counter(each.verdict for each in results)
    lines.append(f"{'all':12}" + "".join(f"{totals[each]:>11}" for each in VERDICTS) + f"{score(results):>8.0%}")
    lines += ["", f"of those that changed the number of steps or messages of a run: {score(loud):.0%}"]
    lines += [
        f"of those that end in no error of a machine, which only checkers can see: {score(by_checkers(results)):.0%}"
    ]
    lines += [
        f"without survivors that are reviewed as permitted by Kafka: {score(not_permitted(results, reviewed)):.0%}"
    ]
    lines += ["", "caught by:", *(f"  {count:4} {name}" for name, count in speakers.most_common())]
    lines += ["", "survivors:"]
    for row in survivors:
        lines += ["", f"[{row['room']}] {row['verdict']}, {row['review'] or 'not reviewed'}", row["diff"]]
        lines += [
            f"changed {len(row['changed'])} runs, steps or messages in {row['louder']}: {', '.join(row['changed'][:4])}"
        ]
    lines += ["", "unreached:", *(f"  {each}" for each in unreached)]
    lines += ["", "reviewed as survivors, but caught:", *(f"  {each.mutant.name}" for each in wrong)] if wrong else []
    return "\n".join(lines)


def _survivor(result: MutantResult, reviewed: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    mutant, row = result.mutant, review_of(result, reviewed)
    return {
        "name": mutant.name,
        "room": mutant.room,
        "verdict": result.verdict,
        "diff": mutant.diff((ROOT / mutant.file).read_text(encoding="utf-8")),
        "changed": list(result.changed),
        "louder": result.louder,
        "review": f"{row['class']}: {row['reason']}" if row else "",
    }
