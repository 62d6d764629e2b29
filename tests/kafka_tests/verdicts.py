"""Our verdict on every method of the classes of Kafka's own tests of the group: a table, or a class in full.

``python -m tests.kafka_tests.verdicts [CLASS]``
"""

import sys
from collections import Counter
from collections.abc import Mapping

from kemu.protocol.frozen import frozen
from tests.kafka_tests.cases import FOLDER, files, table

RUNS = "runs"


@frozen
class Verdict:
    """A method of a class of Kafka's tests, its first and last release, and ``runs`` or the key of a reason."""

    of_class: str
    method: str
    since: str
    until: str
    key: str


def read() -> tuple[Mapping[str, str], tuple[Verdict, ...]]:
    """The reasons by key, and the verdicts."""
    reasons, rows = {}, []
    for line in (FOLDER / "verdicts.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            key, _, text = line.removeprefix("= ").partition(": ")
            reasons[key] = text
        elif line and not line.startswith("#"):
            of_class, method, releases, key = line.split()
            since, _, until = releases.partition("-")
            rows.append(Verdict(of_class, method, since, until, key))
    return reasons, tuple(rows)


def summary() -> list[str]:
    """The counts by class, as lines of Markdown."""
    reasons, rows = read()
    cases = Counter(table(name)["class"] for name in files() for _ in table(name)["case"])
    lines = [
        "| class of Kafka's tests | methods | run | cases | do not apply | not rewritten |",
        "|---|---|---|---|---|---|",
    ]
    for of_class in dict.fromkeys(row.of_class for row in rows):
        keys = [row.key for row in rows if row.of_class == of_class]
        no = sum(reasons.get(key, "").startswith("no:") for key in keys)
        count = keys.count(RUNS)
        counts = f"{len(keys)} | {count} | {cases[of_class]} | {no} | {len(keys) - count - no}"
        lines.append(f"| {of_class} | {counts} |")
    return lines


def main() -> None:
    """Print the table, or the methods of one class."""
    if sys.argv[1:]:
        reasons, rows = read()
        known = dict.fromkeys(row.of_class for row in rows)
        if sys.argv[1] not in known:
            print(f"error: {sys.argv[1]}: no such class; known: {', '.join(known)}", file=sys.stderr)
            sys.exit(2)
        for row in rows:
            if row.of_class == sys.argv[1]:
                print(f"{row.method} ({row.since} to {row.until}): {reasons.get(row.key, row.key)}")
    else:
        print("\n".join(summary()))


if __name__ == "__main__":
    main()
