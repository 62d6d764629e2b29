"""The cases of Kafka's own tests of the consumer protocol, as data: reading, releases, and partitions as text.

Source: ``tests/vectors/kafka_tests``. Each file names a class of Kafka's tests, each case one of its methods.
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kemu.protocol.consumer_group.shares import Share
from kemu.protocol.consumer_group.states import Partition

FOLDER = Path(__file__).parents[1] / "vectors" / "kafka_tests"
Case: TypeAlias = Mapping[str, Any]
OF_MEMBERS = ("ConsumerHeartbeatRequestManagerTest", "ConsumerMembershipManagerTest")
"""The files about members; the other files are about coordinators."""
OF_COMMITS = "CommitRequestManagerTest"
"""The file about the offsets of consumers."""
KINDS = {"4.0": "java", "4.1": "java-4.1", "4.2": "java-4.2", "4.3": "java-4.3"}
"""The line of releases -> ``coordinator.kind``. Sources: the tests of 4.0.2, 4.1.2, 4.2.1 and 4.3.0."""


@cache
def table(name: str) -> Mapping[str, Any]:
    """A file of cases or verdicts."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def files() -> tuple[str, ...]:
    """The names of all files of cases."""
    return tuple(sorted(path.stem for path in (FOLDER).glob("*.toml")))


def releases(case: Case) -> list[str]:
    """The lines of releases whose tests have the case."""
    return [each for each in KINDS if case.get("since", "4.0") <= each <= case.get("until", "4.3")]


def cases(*names: str) -> list[Any]:
    """The cases of files in each of their releases, versions and errors, as parameters of a test."""
    return [
        pytest.param(each, release, id="-".join([release, each["method"], *_told(each)]))
        for name in names
        for case in table(name)["case"]
        for each in _each(case)
        for release in releases(case)
    ]


@cache
def setups() -> Mapping[str, Any]:
    """The steps by which cases begin, by name."""
    return tomllib.loads((FOLDER / "setups" / "classic_groups.toml").read_text(encoding="utf-8"))


def _begun(case: Case) -> Case:
    """The case with the steps of the setups with which it begins."""
    if "begins" not in case:
        return case
    setup = _begun(setups()[case["begins"]])
    return {**setup, **case, "begins": "", "steps": [*setup["steps"], *case["steps"]]}


def _each(case: Case) -> list[Case]:
    """The case, or the case for each of its versions or errors."""
    case = _begun(case)
    if "errors" in case:
        rest = {key: value for key, value in case.items() if key != "errors"}
        return [{**_filled(rest, error), "name": error} for error in case["errors"]]
    return [{**case, "version": each} for each in case["versions"]] if "versions" in case else [case]


def _filled(value: Any, error: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, error) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, error) for each in value]
    return value.replace("$error", error) if isinstance(value, str) else value


def _told(case: Case) -> list[str]:
    return [str(case[key]) for key in ("name", "version") if key in case]


def held(text: str) -> dict[Partition, int | None]:
    """Partition -> the epoch since which it is held; None if the text does not tell.

    ``foo 0-2 4@11, bar 1``: partitions 0 to 2 and 4 of foo, the last since epoch 11; partition 1 of bar.
    """
    found: dict[Partition, int | None] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        topic, *numbers = part.split()
        for each in numbers:
            span, _, epoch = each.partition("@")
            first, _, last = span.partition("-")
            for number in range(int(first), int(last or first) + 1):
                found[topic_id(topic), number] = int(epoch) if epoch else None
    return found


def topic_id(topic: str) -> str:
    """The id of a topic."""
    return f"{topic}-id"


def share(text: str) -> Share:
    """Partitions by topic id, in the order of the text."""
    return shared(held(text))


def shared(partitions: Iterable[Partition]) -> Share:
    """Partitions by topic id."""
    found: dict[str, tuple[int, ...]] = {}
    for topic, number in partitions:
        found[topic] = (*found.get(topic, ()), number)
    return found
