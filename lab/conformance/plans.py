"""The recorded plans in the repository. The folder has two files for each plan,

- ``PLAN.json``: the plan's course on a real Kafka (``lab.conformance.course``), extracted from recordings;
- ``PLAN.toml``: the same plan as a scenario, unless scenarios lack a feature of the plan;

and ``explanations.toml`` with the tables ``unsaid`` (plan -> missing feature), ``reasons`` (name -> text),
``explained.PLAN``, ``races.PLAN`` and ``causes.PLAN`` (reason -> figures).
"""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cattrs

from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from lab.conformance.comparing import ComparedPlan, Explanations, allow_for_chance, compare_plan, same_course
from lab.conformance.course import Course, course_from_json
from lab.conformance.emulated import emulate
from lab.conformance.timing import timed

REPOSITORY = Path(__file__).resolve().parents[2]
KEPT = REPOSITORY / "tests" / "data" / "kafka-3.4.1"
"""Folder of the recordings' facts. Only a checkout or a source distribution has this folder."""
DOCUMENT = REPOSITORY / "docs" / "explanation" / "beside-kafka-3.4.1.md"
PROFILE = "kafka-3.4"
SEEDS = 40
ALIKE = 20
"""Least number of runs with Kafka's generations, so that the runs' durations form a range."""
MOST_TIMES = 5
"""Largest number of further runs, as a multiple of the requested seeds."""


_CONVERTER = cattrs.Converter(forbid_extra_keys=True)


def _texts(given: Any, _: type) -> tuple[str, ...]:
    """Refuse a single string, whose letters would become the list's items."""
    if not isinstance(given, list):
        raise ValueError(f"{given!r:.60} is no list of figures")
    return tuple(map(str, given))


_CONVERTER.register_structure_hook_func(lambda kind: kind == tuple[str, ...], _texts)


class FactsError(Exception):
    """A folder of facts is damaged; the message names the file and the reason."""


def read_course(folder: Path, plan: str) -> Course:
    """A plan's course on a real Kafka.

    Raises:
        FactsError: the plan is unknown, or its file is damaged.
    """
    path = folder / f"{plan}.json"
    try:
        return course_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FactsError(f"{path}: cannot be read: {error.strerror} (plans: {', '.join(plans_in(folder))})") from None
    except ValueError as error:
        raise FactsError(f"{path}: {error}") from None


def plans_in(folder: Path) -> list[str]:
    """All plans with a recorded course, sorted.

    Raises:
        FactsError: the folder has no plans.
    """
    plans = sorted(path.stem for path in folder.glob("*.json"))
    if not plans:
        raise FactsError(f"{folder}: no PLAN.json there; give --facts a folder of them, or --recordings --write-facts")
    return plans


def read_explanations(folder: Path) -> Explanations:
    """The explanations in a folder.

    Raises:
        FactsError: the file is missing or damaged.
    """
    path = folder / "explanations.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        found = _CONVERTER.structure(data, Explanations)
    except OSError as error:
        raise FactsError(f"{path}: cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise FactsError(f"{path}: is not TOML: {error}") from None
    except cattrs.BaseValidationError as error:
        raise FactsError(f"{path}: {'; '.join(cattrs.transform_error(error))}") from None
    if found.unknown():
        raise FactsError(f"{path}: no text among reasons for {', '.join(found.unknown())}")
    return found


def read_plan_scenario(folder: Path, plan: str) -> Scenario:
    """A plan as a scenario.

    Raises:
        ScenarioError: the file is missing, or has errors.
    """
    return load_scenario(folder / f"{plan}.toml")


def _seeds(seeds: Sequence[int], course: Course, emulated: Sequence[Course]) -> Iterator[int]:
    """Yield these seeds, and further seeds if a race makes Kafka's course rare.

    Further seeds end when enough runs have Kafka's course, or at the limit.
    """
    yield from seeds
    most = MOST_TIMES * len(seeds)
    enough = min(ALIKE, len(seeds))
    first = max(seeds) + 1
    for seed in range(first, first + most - len(seeds)):
        alike = sum(same_course(each, course) for each in emulated)
        if alike >= enough or not alike:
            return
        yield seed


def compare(
    courses: Sequence[Course],
    folder: Path,
    *,
    seeds: Sequence[int],
    profile: str = PROFILE,
    say: Callable[[str], None] = lambda text: None,
) -> list[ComparedPlan]:
    """Run each plan that has a scenario with these seeds, and compare it with Kafka's course.

    Args:
        say: called with the name of each plan at its start.

    Raises:
        FactsError, ScenarioError: a file of a plan is missing or damaged.
    """
    explanations = read_explanations(folder)
    compared = []
    for course in courses:
        if course.plan in explanations.unsaid:
            continue
        own = explanations
        if course.took_effect != read_course(folder, course.plan).took_effect:
            own = explanations.of_another_run(course.plan)
        scenario = timed(read_plan_scenario(folder, course.plan), course)
        say(f"{course.plan}: {len(seeds)} runs of {course.until_ms / 1000:g} s")
        emulated: list[Course] = []
        for seed in _seeds(seeds, course, emulated):
            emulated.append(emulate(scenario, seed=seed, profile=profile, until_ms=course.until_ms))
        plan = compare_plan(course, emulated, own)
        if plan.is_by_measure:
            for seed in range(min(seeds) + len(emulated), min(seeds) + MOST_TIMES * len(seeds)):
                emulated.append(emulate(scenario, seed=seed, profile=profile, until_ms=course.until_ms))
            plan = compare_plan(course, emulated, own)
        compared.append(plan)
    return allow_for_chance(compared)
