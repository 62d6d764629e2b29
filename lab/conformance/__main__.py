"""``python -m lab.conformance``: compare runs of Kafka, recorded or new, with runs of the emulator.

Exit codes: 0 no row differs, 1 a row differs, 2 bad input. ``lab.conformance.comparing`` has the rules. For a check of
a changed emulator call ``lab.conformance.plans.differences``, or this command with ``--most-times 1``.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from kemu.emulator.runner import package_version
from kemu.emulator.text.tables import ScenarioError, nearest
from kemu.protocol.profiles import PROFILES
from lab.conformance import plans, tables
from lab.conformance.comparing import differing
from lab.conformance.course import Course, course_to_json
from lab.conformance.live import LivePlan, compile_members, too_busy, why_not_live
from lab.conformance.maven import RealKafkaError
from lab.conformance.real_broker import profile_of, unpacked
from lab.conformance.real_cluster import fetch_jars
from lab.conformance.recordings import RecordingError, read_recording, recorded_plans

FORMATS = {"text": tables.as_text, "runs": tables.as_runs, "markdown": tables.as_markdown, "json": tables.as_json}
DIFFERS = 1
ATTEMPTS = 3
"""Largest number of attempts of a live run."""
PREFACE = """\
# The emulator beside Apache Kafka 3.4.1

Real brokers and clients ran each of these plans once, on loopback, on a loaded machine with two cores. The emulator
runs the same plan as a scenario with many seeds. Times that the emulator draws were measured in these runs, so the page
is in-sample evidence. [Comparison with a real Kafka](conformance.md) has the rules, and evidence from other runs.

The tables list the rows that vary with the seed, and rows that differ. *Kafka's outcome in* is the number of seeds with
exactly Kafka's outcome. *rank* is the share of seeds below Kafka's value, where an equal value counts half.

Made by `{command}` on the emulator of {made_of}.
"""


@click.command()
@click.option(
    "--recordings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="KEMU_RECORDINGS",
    help="Folder of recordings of a real Kafka, of one or several releases, in place of the facts in the repository.",
)
@click.option(
    "--maven",
    "release",
    metavar="VERSION",
    help="Run the plans on this release of Kafka, downloaded by Maven (needs Java).",
)
@click.option(
    "--kafka",
    "distribution",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Run the plans on the Kafka that is unpacked in this folder (needs Java).",
)
@click.option("--record", type=click.Path(file_okay=False, path_type=Path), help="Folder for the new recordings.")
@click.option(
    "--runs", type=click.IntRange(1), default=1, show_default=True, help="Number of runs of each plan on this release."
)
@click.option(
    "--priority",
    is_flag=True,
    help="The processes of these recordings or runs had priority over the machine's other work.",
)
@click.option("--keep", is_flag=True, help="Keep the course of each run as a file of the plans' facts.")
@click.option(
    "--facts",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=plans.KEPT,
    show_default="the repository's",
    help="Folder with the plans' facts and scenarios.",
)
@click.option(
    "--plans",
    "wanted",
    default="all",
    show_default=True,
    help="Names of plans, separated by commas; a prefix is enough.",
)
@click.option(
    "--seeds", type=click.IntRange(1), default=plans.SEEDS, show_default=True, help="Number of runs of each plan."
)
@click.option(
    "--most-times",
    type=click.IntRange(1),
    default=plans.MOST_TIMES,
    show_default=True,
    help="Largest number of runs of an undecided plan, as a multiple of --seeds.",
)
@click.option("--jobs", type=click.IntRange(1), show_default="all cores", help="Number of processes.")
@click.option("--profile", type=click.Choice(list(PROFILES)), show_default="that of Kafka's release")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option("--write-docs", is_flag=True, help="Also write the rows of all recorded plans into docs/.")
@click.option("--write-facts", is_flag=True, help="Extract the facts of the recordings, store them, and exit.")
def main(
    recordings: Path | None,
    release: str | None,
    distribution: Path | None,
    record: Path | None,
    runs: int,
    priority: bool,
    keep: bool,
    folder: Path,
    wanted: str,
    seeds: int,
    most_times: int,
    jobs: int | None,
    profile: str | None,
    form: str,
    write_docs: bool,
    write_facts: bool,
) -> None:
    """Compare the emulator with recorded runs of a real Kafka, plan by plan."""
    try:
        if write_facts:
            _write_facts(recordings, folder)
            return
        if write_docs and (wanted, recordings, folder) != ("all", None, plans.KEPT):
            raise click.UsageError("--write-docs is about all recorded plans: leave --plans, --recordings, --facts out")
        live = (release, distribution) != (None, None)
        if priority and not live and recordings is None:
            raise click.UsageError("--priority is about recordings or runs that are made now, and facts know it")
        if None not in (release, distribution) or (live and (recordings is not None or write_docs)):
            raise click.UsageError("--maven and --kafka run the plans now: give one of them, and no --recordings")
        for option, is_given in (("--record", record is not None), ("--runs", runs > 1), ("--keep", keep)):
            if is_given and not live:
                raise click.UsageError(
                    f"{option} is about a run that is made now: say --maven VERSION or --kafka DIR, too"
                )
        if record is not None and runs > 1:
            raise click.UsageError("--record has place for one run of each plan: leave --runs or --record out")
        courses = (
            _live_courses(release, distribution, folder, wanted, record, runs, keep)
            if live
            else _courses(recordings, folder, wanted)
        )
        if priority:
            courses = [attrs.evolve(course, had_priority=True) for course in courses]
        compared = plans.compare(
            courses,
            folder,
            seeds=seeds,
            most_times=most_times,
            profile=profile,
            jobs=jobs,
            say=lambda text: click.echo(text, err=True),
        )
    except (RecordingError, RealKafkaError, plans.FactsError, ScenarioError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(FORMATS[form](compared))
    if write_docs:
        given = " ".join(sys.argv[1:])
        page = PREFACE.format(command=f"python -m lab.conformance {given}", made_of=_made_of())
        plans.DOCUMENT.write_text(f"{page}\n{tables.as_markdown(compared)}\n", encoding="utf-8")
        click.echo(f"wrote {plans.DOCUMENT}", err=True)
    sys.exit(DIFFERS if differing(compared) else 0)


def _courses(recordings: Path | None, folder: Path, wanted: str) -> list[Course]:
    names = plans.plans_in(folder) if recordings is None else recorded_plans(recordings)
    chosen = _chosen(names, wanted)
    if recordings is None:
        return [plans.read_course(folder, name) for name in chosen]
    return [read_recording(recordings / name) for name in chosen]


def _live_courses(
    release: str | None,
    distribution: Path | None,
    facts: Path,
    wanted: str,
    record: Path | None,
    runs: int,
    keep: bool,
) -> list[Course]:
    """Run the plans in sequence; return their recordings. A run that fails, such as on a busy machine, is repeated."""
    kept = [plans.planned_course(facts, name) for name in _chosen(plans.scenarios_in(facts), wanted)]
    run_with = unpacked(distribution)[0] if distribution is not None else release
    assert run_with is not None
    profile_of(run_with)
    why_not = {course.plan: why for course in kept if (why := why_not_live(course, run_with)) is not None}
    for plan, why in why_not.items():
        if wanted != "all":
            raise RealKafkaError(f"plan {plan} cannot be run live: {why}")
        click.echo(f"{plan} is left out: {why}", err=True)
    with tempfile.TemporaryDirectory(prefix="kemu-live-") as name:
        folder = Path(name)
        if distribution is not None:
            run_with, libs = unpacked(distribution)
        else:
            assert release is not None
            click.echo(f"Maven brings Kafka {release}", err=True)
            run_with, libs = release, fetch_jars(release, folder / "release")
        classes = compile_members(libs, folder)
        courses = []
        for course in [each for each in kept if each.plan not in why_not for _ in range(runs)]:
            found = _live_course(run_with, libs, classes, course, facts, record or folder)
            if keep:
                path = plans.next_file(facts, course.plan)
                path.write_text(course_to_json(found), encoding="utf-8")
                click.echo(f"wrote {path}", err=True)
            courses.append(found)
    return courses


def _live_course(release: str, libs: Path, classes: Path, course: Course, facts: Path, folder: Path) -> Course:
    """Run a plan, at most ``ATTEMPTS`` times; return its recording."""
    for attempt in range(1, ATTEMPTS + 1):
        place = folder / course.plan
        place.mkdir(parents=True, exist_ok=True)
        try:
            LivePlan(release, libs, classes, course, facts, place).run(lambda text: click.echo(text, err=True))
            course_run = read_recording(place)
            if busy := too_busy(course_run):
                raise RealKafkaError(f"the machine was too busy: {busy}")
            return course_run
        except (RealKafkaError, RecordingError) as error:
            if attempt == ATTEMPTS:
                raise
            click.echo(f"{course.plan}: {error}; the plan runs again", err=True)
            shutil.rmtree(place)
    raise AssertionError("no attempt")


def _chosen(names: Sequence[str], wanted: str) -> list[str]:
    chosen = list(names)
    if wanted != "all":
        chosen = []
        for word in wanted.split(","):
            found = [name for name in names if name.rpartition("/")[2].startswith(word.strip())]
            if not found:
                raise plans.FactsError(f'--plans: "{word}" begins no plan{nearest(word, names)}')
            chosen += found
    return chosen


def _write_facts(recordings: Path | None, folder: Path) -> None:
    if recordings is None:
        raise click.UsageError("--write-facts needs --recordings (or KEMU_RECORDINGS)")
    for name in recorded_plans(recordings):
        path = plans.next_file(folder, Path(name).name) if "/" in name else folder / f"{name}.json"
        path.write_text(course_to_json(read_recording(recordings / name)), encoding="utf-8")
        click.echo(f"wrote {path}", err=True)


def _made_of() -> str:
    """Commit and day of the checkout; the version for an installed package."""
    asked = ["git", "-C", str(plans.REPOSITORY), "log", "-1", "--format=commit %h of %cs"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"version {package_version()}"


if __name__ == "__main__":
    main()
