"""``python -m lab.breaks``: put breaks of fidelity into the machines, and list the comparisons that notice each break.

``lab/breaks.toml`` has the breaks. A forked child replaces the code of live functions, and then compares:

- plans: runs of real clients and brokers (``lab.conformance``);
- raw: responses of real coordinators to raw requests (``lab.conformance.raw``);
- assignors: assignments of Kafka's classes (``lab.conformance.assignors``, ``lab.conformance.target_assignors``);
- checkers: presets under all checkers.

Each break is of one group protocol, whose recordings and presets it is compared with.

Exit codes: 0 the comparisons notice enough breaks, 1 they do not, 2 bad input.
"""

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
import click
from attrs import frozen

from kemu.emulator.text.tables import nearest
from kemu.protocol.names import CONSUMER
from kemu.protocol.profiles import PROFILES
from lab.budget import Item, outcome_of
from lab.campaign import tree_hash
from lab.conformance import plans
from lab.conformance.assignors.__main__ import ORACLE
from lab.conformance.raw import recordings
from lab.conformance.raw.comparing import compare as compare_raw
from lab.conformance.raw.heartbeats import differing_heartbeats, read_sequences
from lab.conformance.raw.settings import CLASSIC, MIXED, broker_config
from lab.conformance.target_assignors.__main__ import ORACLE as TARGET_ORACLE
from lab.operators import ROOT, Mutant
from lab.patching import LiveFunctions, live_functions, replace

BREAKS = ROOT / "lab" / "breaks.toml"
RUNS = ROOT / "runs" / "breaks"
"""Folder for results, ignored by git."""
DOCUMENT = ROOT / "docs" / "explanation" / "breaks.md"
PRESETS: Mapping[str, tuple[str, ...]] = {
    CLASSIC: ("rolling-restart-static", "cooperative-scale-in", "gc-pause-zombie"),
    CONSUMER: ("consumer-protocol-rolling-restart", "consumer-protocol-slow-member", "consumer-protocol-migration"),
}
"""Group protocol -> presets that the checkers judge."""
COMPARISONS = ("plans", "raw", "assignors", "checkers")
OF_KAFKA = COMPARISONS[:3]
"""Comparisons with real Kafkas."""
MORE_SEEDS = 4
"""Factor of the seeds for a break that no comparison with a real Kafka notices at first."""
ENOUGH = 0.9
"""Least share of breaks that the comparisons with real Kafkas notice."""
MISSED, TOO_FEW = "-", 1

Found: TypeAlias = dict[str, str]
"""Comparison -> the first difference; no entry without a difference."""

PREFACE = """\
# Breaks that the comparisons notice

Each row is one behaviour of Kafka, broken on purpose in the machines. The cells name the first difference that a
comparison reports. A dash means: the comparison reports nothing. A comparison that reports a difference without the
break does not count.

* *plans*: runs of real clients on Kafka 3.4.1, with {seeds} seeds (`python -m lab.conformance`). The search ends at the
  first plan with a difference{searched}. A break that no comparison with a real Kafka notices gets {more} seeds.
* *raw*: recorded responses to raw requests (`python -m lab.conformance.raw`).
* *assignors*: recorded assignments of Kafka's classes (`python -m lab.conformance.assignors`).
* *checkers*: the presets {presets}, one seed each, without a real Kafka.

A break of the consumer protocol (KIP-848) is compared with its own recordings:

* *plans*: `tests/data/consumer-plans`, of Kafka 4.0.2 to 4.3.0.
* *raw*: `tests/data/raw-mixed-requests`, then 150 sequences of heartbeats on Kafka 4.0.0, then those of classic groups.
* *assignors*: targets of Kafka's coordinator (`python -m lab.conformance.target_assignors`).
* *checkers*: the presets {consumer_presets}.

`python -m lab.breaks --only NAME {options}` repeats a row.
`python -m lab.breaks {options} --write-docs` made this page on the emulator of {made_of}.
"""


@frozen
class Break:
    """A behaviour of Kafka, and a change of the source that breaks the behaviour.

    ``plan``: prefix of the plan to compare first. ``by_plans``: whether the plans alone must notice the break.
    ``protocol``: the group protocol whose recordings and presets are compared.
    """

    name: str
    what: str
    file: str
    old: str
    new: str
    plan: str
    by_plans: bool = False
    protocol: str = CLASSIC

    @property
    def key(self) -> str:
        """The name, and a hash of the change: a result of another change does not count."""
        return f"{self.name} {hashlib.sha256(repr(self).encode()).hexdigest()[:8]}"

    def plans(self, *, first_only: bool) -> list[str]:
        """The plans to compare, in this order."""
        if self.protocol == CONSUMER:
            known = plans.plans_in(plans.CONSUMER)
        else:
            known = [*plans.plans_in(plans.KEPT), *plans.scenarios_in(plans.NEW)]
        named = sorted(known, key=lambda name: (not name.startswith(self.plan), name))
        return named[:1] if first_only else named

    def as_mutant(self) -> Mutant:
        """The change as a mutant of the present source."""
        before, found, _ = (ROOT / self.file).read_text(encoding="utf-8").partition(self.old)
        if not found:
            raise click.UsageError(f"lab/breaks.toml: {self.name}: old is not in {self.file}")
        start = len(before.encode())
        end = start + len(self.old.encode())
        return Mutant(self.file, before.count("\n") + 1, "break", start, end, self.old, self.new)


def all_breaks() -> list[Break]:
    """All breaks, in the order of the file."""
    return [Break(**row) for row in tomllib.loads(BREAKS.read_text(encoding="utf-8"))["break"]]


# --- comparisons -----------------------------------------------------------------------------------------------------


def difference_of_plans(names: Sequence[str], seeds: int, known: Mapping[str, Sequence[str]]) -> str:
    """The first difference of these plans that is not known without a break."""
    for name in names:
        for each in plans.differences([name], seeds=seeds):
            if each not in known.get(name, ()):
                return each
    return ""


def difference_of_raw(protocol: str) -> str:
    """The first response that differs from a recorded response."""
    if protocol == CLASSIC:
        return _difference_of_requests(CLASSIC)
    return _difference_of_requests(MIXED) or _difference_of_heartbeats() or _difference_of_requests(CLASSIC)


def _difference_of_requests(members: str) -> str:
    for recording in recordings.read_all(recordings.KEPT[members]):
        about = recording.about
        config = broker_config(PROFILES[about.profile].broker, members, about.policy)
        for talk in recording.talks:
            for each in compare_raw(talk, config).differences:
                return f"{about.kafka}: sequence {each.seed}, {talk.steps[each.step].api} {each.field}"
    return ""


def _difference_of_heartbeats() -> str:
    for sequence in read_sequences():
        for each in differing_heartbeats(sequence):
            return f"4.0.0: sequence {sequence['seed']}, {each.partition(':')[0]}"
    return ""


def difference_of_assignors(protocol: str) -> str:
    """The first assignment that differs from a recorded assignment."""
    recorded = ORACLE.read_all(ORACLE.kept) if protocol == CLASSIC else TARGET_ORACLE.read_all(TARGET_ORACLE.kept)
    for answers in recorded:
        for each in answers.differences():
            return f"{answers.release}: {each.name}"
    return ""


def difference_of_checkers(protocol: str) -> str:
    """The first finding of a checker, or a failed assertion of a machine."""
    for preset in PRESETS[protocol]:
        outcome = outcome_of(Item("preset", preset))
        if outcome.spoke or outcome.broke:
            return f"{preset}: {(*outcome.spoke, 'assertion')[0]}"
    return ""


def compared(protocol: str, names: Sequence[str], seeds: int, known: Mapping[str, Sequence[str]]) -> Found:
    """The first difference of each comparison, in this process. An exception is a difference, too.

    Args:
        protocol: the group protocol of the recordings and presets.
        names: the plans to compare.
        seeds: number of runs of each plan.
        known: plan -> differences without a break.
    """
    calls: dict[str, Callable[[], str]] = {
        "plans": lambda: difference_of_plans(names, seeds, known),
        "raw": partial(difference_of_raw, protocol),
        "assignors": partial(difference_of_assignors, protocol),
        "checkers": partial(difference_of_checkers, protocol),
    }
    found: Found = {}
    for name, call in calls.items():
        try:
            found[name] = call()
        except Exception as error:  # a broken machine may raise anything
            found[name] = f"{type(error).__name__}: {str(error)[:60]}"
    return {name: text for name, text in found.items() if text}


# --- children --------------------------------------------------------------------------------------------------------


def in_forks(works: Mapping[str, Callable[[], Any]], jobs: int) -> Iterator[tuple[str, Any]]:
    """Run each work in a forked child, at most ``jobs`` at once; yield (name, result) when a child ends.

    Raises:
        RuntimeError: a child ended without a result.
    """
    waiting, running = list(works.items()), dict[int, tuple[str, int]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            name, work = waiting.pop(0)
            reading, writing = os.pipe()
            sys.stdout.flush()
            pid = os.fork()
            if not pid:
                os.close(reading)
                _child(work, writing)
            os.close(writing)
            running[pid] = name, reading
        pid, _ = os.wait()
        name, reading = running.pop(pid)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            text = pipe.read()
        if not text:
            raise RuntimeError(f"{name}: the child process ended without a result")
        yield name, json.loads(text)


def _child(work: Callable[[], Any], writing: int) -> None:
    try:
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            json.dump(work(), pipe)
    finally:
        os._exit(0)


def noticed(
    one: Break, functions: LiveFunctions, names: Sequence[str], seeds: int, known: Mapping[str, Sequence[str]]
) -> Found:
    """Put the break into this process, and compare."""
    replace(one.as_mutant(), functions)
    return compared(one.protocol, names, seeds, known)


# --- the command -----------------------------------------------------------------------------------------------------


@click.command()
@click.option("--only", default="", metavar="NAME,...", help="Names of breaks; by default all.")
@click.option(
    "--seeds", type=click.IntRange(1), default=plans.SEEDS, show_default=True, help="Number of runs of each plan."
)
@click.option("--first-plan", "first_only", is_flag=True, help="Compare only the first plan of each break.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True)
@click.option("--write-docs", is_flag=True, help=f"Also write {DOCUMENT.relative_to(ROOT)}.")
def main(only: str, seeds: int, first_only: bool, jobs: int, form: str, write_docs: bool) -> None:
    """Put each break of lab/breaks.toml into the machines, and list the comparisons that notice the break.

    Each result is stored at once: after an interrupt (Ctrl-C) the same command resumes.
    """
    breaks = {one.name: one for one in all_breaks()}
    names = [name.strip() for name in only.split(",")] if only else list(breaks)
    for name in names:
        if name not in breaks:
            raise click.UsageError(f'--only: "{name}" is no break of lab/breaks.toml{nearest(name, breaks)}')
    if write_docs and only:
        raise click.UsageError("--write-docs is about all breaks: leave --only out")
    chosen = [breaks[name] for name in names]
    rows = list(zip(chosen, results_of(chosen, seeds, jobs, first_only=first_only), strict=True))
    options = f"--seeds {seeds}{' --first-plan' if first_only else ''}"
    forms = {"text": as_text, "markdown": as_markdown, "json": as_json}
    click.echo(forms[form](rows, options))
    if write_docs:
        searched = ", and is limited to the first plan of each break" if first_only else ""
        preface = PREFACE.format(
            seeds=seeds,
            more=seeds * MORE_SEEDS,
            presets=", ".join(PRESETS[CLASSIC]),
            consumer_presets=", ".join(PRESETS[CONSUMER]),
            searched=searched,
            options=options,
            made_of=made_of(),
        )
        DOCUMENT.write_text(f"{preface}\n{as_markdown(rows, options)}\n", encoding="utf-8")
        click.echo(f"wrote {DOCUMENT}", err=True)
    sys.exit(0 if is_enough(rows) else TOO_FEW)


def results_of(breaks: Sequence[Break], seeds: int, jobs: int, *, first_only: bool) -> list[Found]:
    """The results of an earlier run, or new ones. A file keeps each result at once."""
    path = RUNS / f"{_hash_of_sources()}-{seeds}{'-first' if first_only else ''}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text(encoding="utf-8").rpartition("\n")[0].splitlines() if path.exists() else []
    kept: dict[str, Any] = dict(map(json.loads, lines))

    def run(works: Mapping[str, Callable[[], Any]], what: str) -> None:
        left = {name: work for name, work in works.items() if name not in kept}
        with path.open("a", encoding="utf-8") as stream:
            for name, found in in_forks(left, jobs):
                kept[name] = found
                stream.write(json.dumps([name, found]) + "\n")
                stream.flush()
                done = sum(each in kept for each in works)
                said = ", ".join(found) if isinstance(found, dict) else f"{len(found)} differences"
                click.echo(f"{what} {done}/{len(works)} {name}: {said or 'nothing'}", err=True)

    functions = live_functions()

    def run_all(chosen: Sequence[Break], seeds: int, said: str) -> None:
        """Compare each break, and the plans without a break. ``said``: the end of the names of the results."""
        needed = {one.key: one.plans(first_only=first_only) for one in chosen}
        names = sorted({name for each in needed.values() for name in each})
        run(
            {f"plan {name}{said}": partial(plans.differences, [name], seeds=seeds) for name in names}, "without a break"
        )
        known = {name: kept[f"plan {name}{said}"] for name in names}
        works = {each.key + said: partial(noticed, each, functions, needed[each.key], seeds, known) for each in chosen}
        run(works, "break")

    run_all(breaks, seeds, "")
    more = f" with {seeds * MORE_SEEDS} seeds"
    missed = [one for one in breaks if not kept[one.key].keys() & {*OF_KAFKA}]
    run_all(missed, seeds * MORE_SEEDS, more)
    for one in missed:
        if "plans" in kept[one.key + more]:
            kept[one.key] = {"plans": kept[one.key + more]["plans"] + more, **kept[one.key]}
    return [kept[one.key] for one in breaks]


def _hash_of_sources() -> str:
    """Hash of all sources that a comparison executes, and of the recordings."""
    digest = hashlib.sha256(tree_hash().encode())
    recordings = [
        path for folder in (plans.KEPT, plans.NEW, plans.CONSUMER) for path in folder.iterdir() if path.is_file()
    ]
    for path in sorted([*(ROOT / "lab" / "conformance").rglob("*.py"), *recordings]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def made_of() -> str:
    """Commit and day of the checkout."""
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=commit %h of %cs"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def survivors(rows: Sequence[tuple[Break, Found]]) -> list[str]:
    """Names of the breaks that no comparison with a real Kafka notices."""
    return [one.name for one, found in rows if not any(name in found for name in OF_KAFKA)]


def is_enough(rows: Sequence[tuple[Break, Found]]) -> bool:
    """Whether real Kafkas show enough breaks, and plans all breaks that they must show."""
    by_plans = all("plans" in found for one, found in rows if one.by_plans)
    return by_plans and len(survivors(rows)) <= (1 - ENOUGH) * len(rows)


def summary(rows: Sequence[tuple[Break, Found]]) -> str:
    """The numbers of noticed breaks, and the survivors."""
    counts = ", ".join(f"{name} {sum(name in found for _, found in rows)}" for name in COMPARISONS)
    left = survivors(rows)
    named = f" Not noticed: {', '.join(left)}." if left else ""
    return (
        f"Of {len(rows)} breaks, plans, raw or assignors notice {len(rows) - len(left)}"
        f" ({100 * (len(rows) - len(left)) // max(1, len(rows))} %): {counts}.{named}"
    )


def as_text(rows: Sequence[tuple[Break, Found]], options: str) -> str:
    """One paragraph per break, with the command that repeats the row."""
    lines = []
    for one, found in rows:
        lines.append(f"{one.name}: {one.what}")
        lines += [f"  {name:9} {found.get(name, MISSED)}" for name in COMPARISONS]
        lines.append(f"  repeat    python -m lab.breaks --only {one.name} {options}")
    return "\n".join([*lines, summary(rows)])


def as_markdown(rows: Sequence[tuple[Break, Found]], options: str) -> str:
    """A table, and the summary."""
    lines = [f"| break | {' | '.join(COMPARISONS)} |", f"|---|{'---|' * len(COMPARISONS)}"]
    for one, found in rows:
        cells = " | ".join(found.get(name, MISSED).replace("|", "\\|") for name in COMPARISONS)
        lines.append(f"| `{one.name}`: {one.what} | {cells} |")
    return "\n".join([*lines, "", summary(rows)])


def as_json(rows: Sequence[tuple[Break, Found]], options: str) -> str:
    """All rows."""
    listed = [{**attrs.asdict(one), "noticed": found, "options": options} for one, found in rows]
    return json.dumps(listed, indent=1)


if __name__ == "__main__":
    main()
