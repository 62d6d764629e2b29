"""The plans in the repository, and their emulated runs. A folder of facts has two kinds of files:

- ``PLAN.toml``: a plan as a scenario;
- ``PLAN.json``, ``PLAN.2.json``, ...: the courses of the plan on a real Kafka (``lab.conformance.course``), one a run.

A plan without a course can run live: its scenario is also its timeline (``lab.conformance.timeline``).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from zlib import crc32

import attrs

from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from lab.conformance import comparing
from lab.conformance.comparing import Comparison, allow_for_chance, differing
from lab.conformance.course import Course, course_from_json
from lab.conformance.emulated import emulate
from lab.conformance.real_broker import profile_of
from lab.conformance.recordings import release_in
from lab.conformance.timeline import NotLive, timeline_of
from lab.conformance.timing import timed

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tests" / "data"
KEPT = DATA / "kafka-3.4.1"
"""Folder of the recordings' facts. Only a checkout or a source distribution has this folder."""
NEW = DATA / "plans"
"""Folder of further plans, whose recordings are out-of-sample."""
CONSUMER = DATA / "consumer-plans"
"""Folder of the plans with members of the consumer protocol (KIP-848)."""
DOCUMENT = REPOSITORY / "docs" / "explanation" / "beside-kafka-3.4.1.md"
SEEDS = 40
MOST_TIMES = 5
"""Largest number of runs of an undecided plan, as a multiple of the requested seeds."""

Runs = Callable[[Scenario, Course, str, range], list[Course]]
"""(a plan's scenario, the course with its times, profile, seeds) -> the courses of the runs."""


class FactsError(Exception):
    """A folder of facts is damaged; the message names the file and the reason."""


def read_course(folder: Path, name: str) -> Course:
    """A course of a plan on a real Kafka. ``name``: "PLAN", or "PLAN.2" for the second run.

    Raises:
        FactsError: the plan is unknown, or its file is damaged.
    """
    path = folder / f"{name}.json"
    try:
        return course_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FactsError(f"{path}: cannot be read: {error.strerror} (plans: {', '.join(plans_in(folder))})") from None
    except ValueError as error:
        raise FactsError(f"{path}: {error}") from None


def plans_in(folder: Path) -> list[str]:
    """The names of all recorded courses, sorted.

    Raises:
        FactsError: the folder has no plans.
    """
    plans = sorted(path.stem for path in folder.glob("*.json"))
    if not plans:
        raise FactsError(f"{folder}: no PLAN.json there; give --facts a folder of them, or --recordings --write-facts")
    return plans


def scenarios_in(folder: Path) -> list[str]:
    """The names of all plans, with or without a recorded course, sorted."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def next_file(folder: Path, plan: str) -> Path:
    """The file for the next course of a plan: PLAN.json, then PLAN.2.json, and so on."""
    path, number = folder / f"{plan}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{plan}.{number}.json"
    return path


def planned_course(folder: Path, plan: str) -> Course:
    """The recorded course of a plan; for a plan without a recording, a course that has only a timeline.

    Raises:
        FactsError, ScenarioError: a file of the plan is missing or damaged.
    """
    if (folder / f"{plan}.json").exists():
        return read_course(folder, plan)
    scenario = read_plan_scenario(folder, plan)
    try:
        timeline = timeline_of(scenario)
    except NotLive as error:
        raise FactsError(f"{folder / plan}.toml: {error}") from None
    source = f"not recorded: {scenario.summary}"
    return Course(plan, scenario.duration_us // 1000, (), {}, {}, {}, source=source, timeline=timeline)


def read_plan_scenario(folder: Path, plan: str) -> Scenario:
    """A plan as a scenario.

    Raises:
        ScenarioError: the file is missing, or has errors.
    """
    return load_scenario(folder / f"{plan}.toml")


def profile_of_course(course: Course) -> str:
    """The profile of the release that ran the course."""
    return profile_of(release_in(course))


@contextmanager
def workers(jobs: int | None = None) -> Iterator[Runs]:
    """Yield a function that makes runs in ``jobs`` processes; None for all cores. One job uses this process.

    The processes are forks, so changes of the emulator in this process are in force. The results are in the order of
    the seeds.
    """
    jobs = jobs or len(os.sched_getaffinity(0))
    if jobs == 1:
        yield _in_sequence
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:

        def in_parallel(scenario: Scenario, course: Course, profile: str, seeds: range) -> list[Course]:
            return list(pool.map(partial(_one, scenario, course, profile), seeds))

        yield in_parallel


def _in_sequence(scenario: Scenario, course: Course, profile: str, seeds: range) -> list[Course]:
    return [_one(scenario, course, profile, seed) for seed in seeds]


def _one(scenario: Scenario, course: Course, profile: str, seed: int) -> Course:
    """One run; a run that raises an error has an empty course with the error as its verdict."""
    until_ms = course.until_ms
    try:
        return emulate(timed(scenario, course, seed), seed=seed, profile=profile, until_ms=until_ms)
    except ScenarioError:
        raise
    except Exception as error:
        return Course(scenario.name, until_ms, (), {}, {}, {}, verdict=f"raised {type(error).__name__}: {error}")


def first_seed(course: Course) -> int:
    """The first seed for a course. The same seeds in all plans would have the same draws, and so dependent ranks."""
    return 1 + 1_000 * (crc32(f"{course.plan} {course.until_ms} {course.took_effect}".encode()) % 1_000)


def compare(
    courses: Sequence[Course],
    folder: Path,
    *,
    seeds: int = SEEDS,
    most_times: int = MOST_TIMES,
    profile: str | None = None,
    jobs: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[Comparison]:
    """Compare each course with runs of its plan, with ``seeds`` seeds, and more seeds for an undecided plan.

    Args:
        folder: the folder of the plans' scenarios.
        most_times: largest number of runs, as a multiple of ``seeds``.
        profile: None for the profile of the release that ran the course.
        jobs: number of processes; None for all cores.
        say: called with the progress.

    Raises:
        FactsError, ScenarioError: a file of a plan is missing or damaged.
    """
    compared = []
    with workers(jobs) as runs:
        for course in courses:
            scenario = read_plan_scenario(folder, course.plan)
            emulated: list[Course] = []
            first = first_seed(course)
            for until in (seeds, seeds * most_times):
                more = range(first + len(emulated), first + until)
                if more:
                    say(f"{course.plan}: runs {more[0]} to {more[-1]} of {course.until_ms / 1000:g} s")
                    emulated += runs(scenario, course, profile or profile_of_course(course), more)
                found = comparing.compare(course, emulated)
                if not found.is_undecided:
                    break
            compared.append(attrs.evolve(found, places=comparing.places_of_each(course, emulated)))
    return allow_for_chance(compared)


def differences(
    names: Sequence[str] | None = None, *, seeds: int = SEEDS, most_times: int = 1, jobs: int | None = 1
) -> list[str]:
    """The differing rows of recorded plans, as "plan: row": the entry point of the table of breaks.

    Without a break, the result is empty. The emulator may be changed in this process.

    Args:
        names: recorded courses in ``KEPT``, ``NEW`` and ``CONSUMER``; None for all in ``KEPT``.
        seeds, most_times, jobs: see ``compare``.
    """
    found = []
    for folder in (KEPT, NEW, CONSUMER):
        there = plans_in(folder)
        courses = [read_course(folder, name) for name in names or plans_in(KEPT) if name in there]
        found += compare(courses, folder, seeds=seeds, most_times=most_times, jobs=jobs)
    return [f"{row.plan}: {row.name}" for row in differing(found)]
