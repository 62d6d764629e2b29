"""``python -m lab.conformance``: compare runs of Kafka, recorded or new, with runs of the emulator.

Exit codes: 0 all figures agree or are explained, 1 a figure differs, 2 bad input.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from kemu.emulator.runner import package_version
from kemu.emulator.text.tables import ScenarioError, nearest
from kemu.protocol.profiles import PROFILES
from lab.conformance import plans, tables
from lab.conformance.comparing import ComparedPlan, Explanations, differing
from lab.conformance.course import Course, course_to_json
from lab.conformance.live import LivePlan, compile_members, why_not_live
from lab.conformance.maven import RealKafkaError
from lab.conformance.real_broker import profile_of, unpacked
from lab.conformance.real_cluster import fetch_jars
from lab.conformance.recordings import RecordingError, read_recording, recorded_plans

FORMATS = {"text": tables.as_text, "markdown": tables.as_markdown, "json": tables.as_json}
DIFFERS = 1

PREFACE = """\
# The emulator beside Apache Kafka 3.4.1

Real brokers and clients ran each of these plans once, on loopback, on a loaded machine with two cores. The emulator
runs the same plan as a scenario with {seeds} seeds (profile `{profile}`, bare loop). Both sides have the same figures:

- *rebalance N*: time from PreparingRebalance to Stable of generation N, from the group coordinator.
- *downtime*: time in which a partition has no owner. A member owns a partition from onPartitionsAssigned until
  onPartitionsRevoked or onPartitionsLost, or until the member is killed or closed; a paused member owns no partition.
  The sum is in partition-seconds; the longest is one interval of one partition. The figure does not depend on
  processed records, because the recordings do not contain the times of processing.
- *owners N*, *members*: the number of runs with exactly Kafka's result.
- errors: the number of responses to members with the error code, by request.
- *answers to*: the responses on each member's connections, to its coordinator and to brokers. The column *in order* is
  the number of responses whose order, error codes and generations must be equal. The column *periodic* is the number of
  other responses (heartbeats, commits, metadata, lookups), which may differ by one, or by one in twenty.

In the emulator, members and brokers start, close, die and pause at the times of the recording. A member joins at the
time of its first JoinGroup, and closes at the time at which its polling thread began to close. A lone broker starts at
the time of its first response. Seeds draw two durations between the recording's minimum and maximum. In the first,
a lone broker knows no topic; in the second, coordinators load groups. Seeds draw the load of the machine from
the members' times between JoinGroup responses and SyncGroups.

Seeds draw other durations from measurements over all recordings: lateness of heartbeats and threads, cold processes,
writes of groups. For plans g and n, in which brokers start, the measurements of heartbeats, requests and writes are
from these plans only. As in the recordings, heartbeats have no random phases, callbacks take no time, and members do
no work on records.

A figure agrees if Kafka's value lies between the emulator's 5 % and 95 % quantile; the numbers of generations must be
equal. Durations are compared with runs whose generations had the same members as Kafka's. Kafka's side is one run, so
for equal systems one duration in ten lies outside this range. A duration outside this range, but inside the range of
all runs, is *chance*. The number of such durations must be as small as in 99 of 100 comparisons of equal systems.
*DIFFERS* with a reason marks a known difference that kemu should remove.

Made by `python -m lab.conformance --write-docs` on the emulator of {made_of}.
"""


@click.command()
@click.option(
    "--recordings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="KEMU_RECORDINGS",
    help="Folder of recordings of a real Kafka, in place of the facts in the repository.",
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
    "--facts",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=plans.KEPT,
    show_default="the repository's",
    help="Folder with the plans' facts, scenarios and explanations.",
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
    "--profile",
    type=click.Choice(list(PROFILES)),
    show_default=f"{plans.PROFILE}, or that of the release that is run now",
)
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option("--requests", is_flag=True, help="Also list all responses to members, beside the emulator's.")
@click.option("--write-facts", is_flag=True, help="Extract the facts of the recordings, store them, and exit.")
@click.option("--write-docs", is_flag=True, help="Also write the table of all plans into docs/.")
def main(
    recordings: Path | None,
    release: str | None,
    distribution: Path | None,
    record: Path | None,
    folder: Path,
    wanted: str,
    seeds: int,
    profile: str | None,
    form: str,
    requests: bool,
    write_facts: bool,
    write_docs: bool,
) -> None:
    """Compare the emulator with recorded runs of a real Kafka, plan by plan."""
    try:
        if write_facts:
            _write_facts(recordings, folder)
            return
        if write_docs and wanted != "all":
            raise click.UsageError("--write-docs is about all plans: leave --plans out")
        live = (release, distribution) != (None, None)
        if None not in (release, distribution) or (live and (recordings is not None or write_docs)):
            raise click.UsageError("--maven and --kafka run the plans now: give one of them, and no --recordings")
        if record is not None and not live:
            raise click.UsageError("--record is about a run that is made now: say --maven VERSION or --kafka DIR, too")
        if live:
            courses, made_with = _live_courses(release, distribution, folder, wanted, record)
            profile = profile or profile_of(made_with)
        else:
            courses = _courses(recordings, folder, wanted)
        profile = profile or plans.PROFILE
        compared = plans.compare(
            courses,
            folder,
            seeds=range(1, seeds + 1),
            profile=profile,
            say=lambda text: click.echo(text, err=True),
        )
        explanations = plans.read_explanations(folder)
    except (RecordingError, RealKafkaError, plans.FactsError, ScenarioError) as error:
        raise click.UsageError(str(error)) from None
    if requests:
        click.echo(tables.every_answer(compared))
    click.echo(FORMATS[form](compared, explanations))
    for needless in explanations.needless(compared) if not live and recordings is None else ():
        click.echo(f"explained, and yet it agrees: {needless}", err=True)
    if write_docs:
        _write_docs(compared, explanations, seeds, profile)
    sys.exit(DIFFERS if differing(compared) else 0)


def _courses(recordings: Path | None, folder: Path, wanted: str) -> list[Course]:
    names = plans.plans_in(folder) if recordings is None else recorded_plans(recordings)
    chosen = _chosen(names, wanted)
    if recordings is None:
        return [plans.read_course(folder, name) for name in chosen]
    return [read_recording(recordings / name) for name in chosen]


def _live_courses(
    release: str | None, distribution: Path | None, facts: Path, wanted: str, record: Path | None
) -> tuple[list[Course], str]:
    """Run the plans in sequence; return their recordings and Kafka's release."""
    kept = [plans.read_course(facts, name) for name in _chosen(plans.plans_in(facts), wanted)]
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
        for course in kept:
            if course.plan not in why_not:
                place = (record or folder) / course.plan
                place.mkdir(parents=True, exist_ok=True)
                live = LivePlan(run_with, libs, classes, course, facts, place)
                live.run(lambda text: click.echo(text, err=True))
                courses.append(read_recording(place))
    return courses, run_with


def _chosen(names: Sequence[str], wanted: str) -> list[str]:
    chosen = list(names)
    if wanted != "all":
        chosen = []
        for word in wanted.split(","):
            found = [name for name in names if name.startswith(word.strip())]
            if not found:
                raise plans.FactsError(f'--plans: "{word}" begins no plan{nearest(word, names)}')
            chosen += found
    return chosen


def _write_facts(recordings: Path | None, folder: Path) -> None:
    if recordings is None:
        raise click.UsageError("--write-facts needs --recordings (or KEMU_RECORDINGS)")
    for name in recorded_plans(recordings):
        path = folder / f"{name}.json"
        path.write_text(course_to_json(read_recording(recordings / name)), encoding="utf-8")
        click.echo(f"wrote {path}", err=True)


def _write_docs(compared: Sequence[ComparedPlan], explanations: Explanations, seeds: int, profile: str) -> None:
    preface = PREFACE.format(seeds=seeds, profile=profile, made_of=made_of())
    plans.DOCUMENT.parent.mkdir(exist_ok=True)
    plans.DOCUMENT.write_text(f"{preface}\n{tables.as_markdown(compared, explanations)}\n", encoding="utf-8")
    click.echo(f"wrote {plans.DOCUMENT}", err=True)


def made_of() -> str:
    """Commit and day of the checkout; the version for an installed package."""
    asked = ["git", "-C", str(plans.REPOSITORY), "log", "-1", "--format=commit %h of %cs"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"version {package_version()}"


if __name__ == "__main__":
    main()
