"""What one member has other than its group: another release, other assignors, other settings.

The state of a group in the midst of an upgrade is such a difference per member: written down in the scenario for its
start (``[groups.g.overrides.c2]``), or brought about by ``rolling-upgrade``.
"""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.kafka_keys import Settings, assignor_names, lenient_settings, member_settings_of
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.protocol.config import ConsumerConfig, StreamsConfig
from kemu.protocol.profiles import PROFILES


def consumer_settings(given: Mapping[str, Any] | Settings) -> Settings:
    """Kafka's keys of a consumer as a field takes them."""
    return lenient_settings(ConsumerConfig, given)


def streams_settings(given: Mapping[str, Any] | Settings) -> Settings:
    """Kafka's keys of a Streams instance as a field takes them."""
    return lenient_settings(StreamsConfig, given)


def name_assignors_once(spec: Any) -> None:
    """``partition.assignment.strategy`` among a group's or member's settings is its list of assignors.

    Raises:
        ScenarioError: it contradicts ``assignors``.
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
    """Differences of one member to its group; what is empty is as the group has it.

    ``profile``: a name of ``PROFILES``. ``config``, and ``streams`` of an instance of a Streams application, are
    written with Kafka's keys. ``instance``: its ``group.instance.id``; the coordinator fences whoever had it before
    (KIP-345). ``start_later``: it does not start with its group, but when the plan starts it ("start-host").

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    profile: str = field(
        default="",
        metadata=key("another release", choices=lambda: ("", *PROFILES), what="profile", shown="its group's"),
    )
    assignors: tuple[str, ...] = field(
        default=(), converter=assignor_names, metadata=key("its own, best first", shown="its group's", what="assignor")
    )
    config: Settings = field(
        default=(), converter=consumer_settings, metadata=key("Kafka's keys of a consumer", config=ConsumerConfig)
    )
    streams: Settings = field(
        default=(),
        converter=streams_settings,
        metadata=key("Kafka's keys of Streams, of an instance of such an application", config=StreamsConfig),
    )
    instance: str = field(
        default="", metadata=key("its group.instance.id; two members may have the same", shown="its group's")
    )
    start_later: bool = field(default=False, metadata=key("whether it starts only when the plan says start-host"))

    def __attrs_post_init__(self) -> None:
        name_assignors_once(self)
        refuse(problems_of(self))

    def then(self, later: "MemberSpec") -> "MemberSpec":
        """This and, on top of it, what comes later."""
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
    """What a rolling upgrade makes of a member, on top of what it is; settings are written as KEY=VALUE."""
    config, streams = member_settings_of(settings)
    return MemberSpec(profile=profile, assignors=assignors, config=config, streams=streams)
