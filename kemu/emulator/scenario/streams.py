"""A group whose members are instances of a Kafka Streams application: its topology and its settings."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from attrs import evolve, field, frozen

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, streams_settings
from kemu.emulator.text.custom_assignors import find_task_assignor
from kemu.emulator.text.kafka_keys import Settings, configured
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import words
from kemu.protocol.assign.checked import NotAnAssignor
from kemu.protocol.config import StreamsConfig
from kemu.protocol.streams.learner import BALANCE, SCALE_UP
from kemu.protocol.streams.topology import Subtopology, Topology

_ARROW = "->"
MOST_THREADS = 1_000
LARGEST_INT = 2**31 - 1
LARGEST_PORT = 65_535
EXACTLY_ONCE_COMMIT_INTERVAL_MS = 100
"""Unless it is configured. Source: ``StreamsConfig.postProcessParsedConfig``."""


def _subtopology(text: str) -> Subtopology:
    """``orders, users -> app-store-changelog``: source topics, and the changelog of their state if they have any."""
    sources, arrow, changelog = text.partition(_ARROW)
    topics = tuple(topic.strip() for topic in sources.split(",") if topic.strip())
    if not topics:
        raise ValueError("names no topic")
    if arrow and not changelog.strip():
        raise ValueError(f"names no changelog after {_ARROW}")
    return Subtopology(topics, changelog.strip())


_BOUNDS: Mapping[str, tuple[int, int]] = {
    "num.stream.threads": (1, MOST_THREADS),
    "commit.interval.ms": (1, LARGEST_INT),
    "probing.rebalance.interval.ms": (1, LARGEST_INT),
    "emulated.assignor.stage": (SCALE_UP, BALANCE),
}
"""Whole numbers that 0, or a large one, makes no sense for."""


def wrong_settings(config: StreamsConfig) -> Iterator[tuple[str, str]]:
    """(Kafka's key, what is wrong with its value) of each that an instance could not run with."""
    for name, (least, most) in _BOUNDS.items():
        value = getattr(config, name.replace(".", "_"))
        if not least <= value <= most:
            yield name, f"must be {least} to {most}, not {value}"
    try:
        find_task_assignor(config.emulated_task_assignor)
    except NotAnAssignor as error:
        yield "emulated.task.assignor", str(error)
    try:
        imbalance = Fraction(config.stream_imbalance_percentage or 0)
    except (ValueError, ZeroDivisionError):
        imbalance = Fraction(-1)
    if not 0 <= imbalance < 1:
        yield "stream.imbalance.percentage", "must be a fraction such as 0.2, or empty: as even as can be"
    host, _, port = config.application_server.rpartition(":")
    if config.application_server and not (host and port.isdecimal() and int(port) <= LARGEST_PORT):
        yield "application.server", f'must be host:port, such as "app-1:8080", not "{config.application_server}"'


@frozen(kw_only=True)
class StreamsSpec:
    """What makes a group's members Streams instances.

    ``subtopologies``: each as ``topic, topic -> changelog`` (without state: the topics alone), in the order of their
    numbers; its tasks are "0_0", "0_1", ... ``config`` is written with Kafka's keys.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    subtopologies: tuple[str, ...] = field(
        converter=words,
        metadata=key('each as "topic, topic -> changelog", or without state as "topic"', at_least=1, always=True),
    )
    config: Settings = field(
        default=(), converter=streams_settings, metadata=key("Kafka's keys of Streams", config=StreamsConfig)
    )

    def __attrs_post_init__(self) -> None:
        problems = list(problems_of(self))
        if not problems:
            for index, text in enumerate(self.subtopologies):
                try:
                    _subtopology(text)
                except ValueError as error:
                    problems.append(Problem(("subtopologies", index), f'"{text}" {error}'))
            problems += [Problem(("config", name), text) for name, text in wrong_settings(self.settings)]
        refuse(problems)

    @property
    def topology(self) -> Topology:
        """The application."""
        return Topology(tuple(_subtopology(text) for text in self.subtopologies))

    @property
    def settings(self) -> StreamsConfig:
        """What is configured, on top of what KIP-429's page has."""
        return self.settings_on(StreamsConfig())

    def settings_on(self, defaults: StreamsConfig, member: MemberSpec = AS_ITS_GROUP) -> StreamsConfig:
        """The configuration of an instance: ``defaults`` are a release's, ``member`` its own."""
        said = (*self.config, *member.streams)
        found = configured(defaults, said)
        if found.exactly_once and "commit_interval_ms" not in dict(said):
            return evolve(found, commit_interval_ms=EXACTLY_ONCE_COMMIT_INTERVAL_MS)
        return found


def topics_of_streams(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A group of Streams instances subscribes to what its topology reads."""
    streams = given.get("streams")
    if "topics" in given or not isinstance(streams, Mapping):
        return given
    try:
        topology = StreamsSpec(subtopologies=streams.get("subtopologies", ())).topology
    except (ScenarioError, TypeError):
        return given
    return {**given, "topics": list(topology.topics)}
