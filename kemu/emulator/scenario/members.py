"""Settings of one member that differ from the group's settings: release, assignors and configuration.

During an upgrade, members of a group have different settings. A scenario sets such differences for the start
(``[groups.g.overrides.c2]``), or the action ``rolling-upgrade`` makes them.
"""

from collections.abc import Mapping
from typing import Any

from attrs import field

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.kafka_keys import Settings, assignor_names, lenient_settings, member_settings_of
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.protocol.config import ConsumerConfig, StreamsConfig
from kemu.protocol.frozen import frozen
from kemu.protocol.profiles import PROFILES


def consumer_settings(given: Mapping[str, Any] | Settings) -> Settings:
    """Convert a table of a consumer's Kafka keys to settings."""
    return lenient_settings(ConsumerConfig, given)


def streams_settings(given: Mapping[str, Any] | Settings) -> Settings:
    """Convert a table of a Streams instance's Kafka keys to settings."""
    return lenient_settings(StreamsConfig, given)


def name_assignors_once(spec: Any) -> None:
    """Move ``partition.assignment.strategy`` from the settings of a group or member to its ``assignors``.

    Raises:
        ScenarioError: the setting contradicts ``assignors``.
    """
    settings = dict(spec.config) if isinstance(spec.config, tuple) else {}
    strategy = settings.pop("partition_assignment_strategy", None)
    if strategy is None:
        return
    if spec.assignors not in ((), strategy):
        text = "and partition.assignment.strategy are the same thing: give one of them"
        raise ScenarioError([Problem(("assignors",), text)])
    object.__setattr__(spec, "assignors", strategy)
    object.__setattr__(spec, "config", tuple(sorted(settings.items())))


@frozen(kw_only=True)
class MemberSpec:
    """Settings of one member that differ from the group's settings. An empty value means the group's setting.

    ``profile`` is a name of ``PROFILES``. ``config`` has a consumer's Kafka keys, ``streams`` a Streams instance's.
    ``instance`` is the member's ``group.instance.id``; the coordinator fences the former member with this id (KIP-345).
    With ``start_later`` the action "start-host" starts the member.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    profile: str = field(
        default="",
        metadata=key("release of the member", choices=lambda: ("", *PROFILES), what="profile", shown="its group's"),
    )
    assignors: tuple[str, ...] = field(
        default=(),
        converter=assignor_names,
        metadata=key("assignors in order of preference", shown="its group's", what="assignor"),
    )
    config: Settings = field(
        default=(), converter=consumer_settings, metadata=key("Kafka's keys of a consumer", config=ConsumerConfig)
    )
    streams: Settings = field(
        default=(),
        converter=streams_settings,
        metadata=key("Kafka's keys of a Streams instance", config=StreamsConfig),
    )
    instance: str = field(
        default="", metadata=key("group.instance.id; two members may have the same", shown="its group's")
    )
    start_later: bool = field(default=False, metadata=key("whether only the action start-host starts the member"))

    def __attrs_post_init__(self) -> None:
        name_assignors_once(self)
        refuse(problems_of(self))

    def then(self, later: "MemberSpec") -> "MemberSpec":
        """Return these settings, overridden by ``later``."""
        return MemberSpec(
            profile=later.profile or self.profile,
            assignors=later.assignors or self.assignors,
            config=tuple(sorted({**dict(self.config), **dict(later.config)}.items())),
            streams=tuple(sorted({**dict(self.streams), **dict(later.streams)}.items())),
            instance=later.instance or self.instance,
            start_later=self.start_later,
        )


AS_ITS_GROUP = MemberSpec()


def upgraded_to(profile: str, assignors: tuple[str, ...], settings: tuple[str, ...]) -> MemberSpec:
    """Return the settings that a rolling upgrade changes; ``settings`` are texts KEY=VALUE."""
    config, streams = member_settings_of(settings)
    return MemberSpec(profile=profile, assignors=assignors, config=config, streams=streams)
