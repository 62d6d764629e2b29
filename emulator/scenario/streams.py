"""A group whose members are instances of a Kafka Streams application: its topology and its settings."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from attrs import field, frozen

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.custom_assignors import find_task_assignor
from kemu.emulator.text.kafka_keys import Settings, configured, lenient_settings
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import words
from kemu.protocol.assign.checked import NotAnAssignor
from kemu.protocol.config import StreamsConfig
from kemu.protocol.streams.topology import Subtopology, Topology

_ARROW = "->"


def _streams_settings(given: Mapping[str, Any] | Settings) -> Settings:
    return lenient_settings(StreamsConfig, given)


def _subtopology(text: str) -> Subtopology:
    """``orders, users -> app-store-changelog``: source topics, and the changelog of their state if they have any."""
    sources, arrow, changelog = text.partition(_ARROW)
    topics = tuple(topic.strip() for topic in sources.split(",") if topic.strip())
    if not topics:
        raise ValueError("names no topic")
    if arrow and not changelog.strip():
        raise ValueError(f"names no changelog after {_ARROW}")
    return Subtopology(topics, changelog.strip())


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
        default=(), converter=_streams_settings, metadata=key("Kafka's keys of Streams", config=StreamsConfig)
    )

    def __attrs_post_init__(self) -> None:
        problems = list(problems_of(self))
        if not problems:
            for index, text in enumerate(self.subtopologies):
                try:
                    _subtopology(text)
                except ValueError as error:
                    problems.append(Problem(("subtopologies", index), f'"{text}" {error}'))
            kind = self.settings.emulated_task_assignor
            try:
                find_task_assignor(kind)
            except NotAnAssignor as error:
                problems.append(Problem(("config", "emulated.task.assignor"), str(error)))
            try:
                imbalance = Fraction(self.settings.stream_imbalance_percentage or 0)
            except ValueError:
                imbalance = Fraction(-1)
            if not 0 <= imbalance < 1:
                text = "must be a fraction such as 0.2, or empty: as even as can be"
                problems.append(Problem(("config", "stream.imbalance.percentage"), text))
        refuse(problems)

    @property
    def topology(self) -> Topology:
        """The application."""
        return Topology(tuple(_subtopology(text) for text in self.subtopologies))

    @property
    def settings(self) -> StreamsConfig:
        """The configuration of every instance."""
        return configured(StreamsConfig(), self.config)


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
