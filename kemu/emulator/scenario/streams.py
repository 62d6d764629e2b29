"""The topology and the settings of a Kafka Streams application in a scenario."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from attrs import field

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, streams_settings
from kemu.emulator.text.allowed_code import names_are_checked
from kemu.emulator.text.custom_assignors import find_task_assignor
from kemu.emulator.text.kafka_keys import Settings, configured
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import words
from kemu.protocol.assign.checked import NotAnAssignor
from kemu.protocol.config import StreamsConfig
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.streams.modes import BALANCE, SCALE_UP
from kemu.protocol.streams.topology import Subtopology, Topology

_ARROW = "->"
MOST_THREADS = 1_000
LARGEST_INT = 2**31 - 1
LARGEST_PORT = 65_535
EXACTLY_ONCE_COMMIT_INTERVAL_MS = 100
"""Default of ``commit.interval.ms`` under exactly-once. Source: ``StreamsConfig.postProcessParsedConfig``, 3.4."""


def _subtopology(text: str) -> Subtopology:
    """Read a subtopology such as ``orders, users -> app-store-changelog``: source topics, and the changelog of its
    state.
    """
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
"""Key of an integer setting -> (least, most)."""


def wrong_settings(config: StreamsConfig) -> Iterator[tuple[str, str]]:
    """Yield (Kafka's key, mistake) for each value with which an instance could not run."""
    for name, (least, most) in _BOUNDS.items():
        value = getattr(config, name.replace(".", "_"))
        if not least <= value <= most:
            yield name, f"must be {least} to {most}, not {value}"
    try:
        if names_are_checked():
            find_task_assignor(config.emulated_task_assignor)
    except NotAnAssignor as error:
        yield "emulated.task.assignor", str(error)
    try:
        imbalance = Fraction(config.stream_imbalance_percentage or 0)
    except (ValueError, ZeroDivisionError):
        imbalance = Fraction(-1)
    if not 0 <= imbalance < 1:
        yield (
            "stream.imbalance.percentage",
            "must be a fraction such as 0.2; leave it empty for the most even distribution",
        )
    host, _, port = config.application_server.rpartition(":")
    if config.application_server and not (host and port.isdecimal() and int(port) <= LARGEST_PORT):
        yield "application.server", f'must be host:port, such as "app-1:8080", not "{config.application_server}"'


@frozen(kw_only=True)
class StreamsSpec:
    """A Streams application, whose instances are the members of the group.

    A subtopology with state is written as ``topic, topic -> changelog``, a subtopology without state as its topics.
    Subtopologies are in the order of their numbers; the tasks of the first subtopology are "0_0", "0_1" and so on.
    ``config`` has Kafka's keys.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    subtopologies: tuple[str, ...] = field(
        converter=words,
        metadata=key('subtopologies: "topic, topic -> changelog", or "topic" without state', at_least=1, always=True),
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
        """Return the topology of the application."""
        return Topology(tuple(_subtopology(text) for text in self.subtopologies))

    @property
    def settings(self) -> StreamsConfig:
        """Return the settings, including the defaults of KIP-429's page."""
        return self.settings_on(StreamsConfig())

    def settings_on(self, defaults: StreamsConfig, member: MemberSpec = AS_ITS_GROUP) -> StreamsConfig:
        """Return an instance's configuration: the ``defaults`` of its release, overridden by the group's and the
        ``member``'s settings.
        """
        said = (*self.config, *member.streams)
        found = configured(defaults, said)
        if found.exactly_once and "commit_interval_ms" not in dict(said):
            return evolve(found, commit_interval_ms=EXACTLY_ONCE_COMMIT_INTERVAL_MS)
        return found


def topics_of_streams(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Set missing topics of a group of Streams instances to the topics of its topology."""
    streams = given.get("streams")
    if "topics" in given or not isinstance(streams, Mapping):
        return given
    try:
        topology = StreamsSpec(subtopologies=streams.get("subtopologies", ())).topology
    except (ScenarioError, TypeError):
        return given
    return {**given, "topics": list(topology.topics)}
