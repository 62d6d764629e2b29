"""What one member has other than its group: another release, other assignors, other settings.

The state of a group in the midst of an upgrade is such a difference per member: written down in the scenario for its
start (``[groups.g.overrides.c2]``), or brought about by ``rolling-upgrade``.
"""

from typing import Any

from attrs import field, frozen

from kemu.emulator.text.kafka_keys import (
    Settings,
    as_settings,
    assignor_names,
    check_assignors,
    read_settings,
    settings_dict,
    settings_of,
)
from kemu.emulator.text.tables import Table
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.profiles import PROFILES


def _consumer_settings(given: Any) -> Settings:
    return as_settings(ConsumerConfig, given)


@frozen(kw_only=True)
class MemberSpec:
    """Differences of one member to its group; what is empty is as the group has it.

    ``profile``: a name of ``PROFILES``. ``config`` is written with Kafka's keys.
    """

    profile: str = ""
    assignors: tuple[str, ...] = field(default=(), converter=assignor_names)
    config: Settings = field(default=(), converter=_consumer_settings)

    def then(self, later: "MemberSpec") -> "MemberSpec":
        """This and, on top of it, what comes later."""
        return MemberSpec(
            profile=later.profile or self.profile,
            assignors=later.assignors or self.assignors,
            config=tuple(sorted({**dict(self.config), **dict(later.config)}.items())),
        )


AS_ITS_GROUP = MemberSpec()


def read_member(table: Table) -> MemberSpec:
    """The differences one table describes."""
    profile = table.one_of("profile", PROFILES, "profile", "")
    settings = dict(read_settings(table.table("config"), ConsumerConfig))
    settings.pop("partition_assignment_strategy", None)
    assignors = table.words("assignors")
    if table.has("assignors"):
        assignors = check_assignors(table, "assignors", assignors)
    table.finish()
    return MemberSpec(profile=profile, assignors=assignors, config=tuple(sorted(settings.items())))


def member_dict(member: MemberSpec) -> dict[str, Any]:
    """The plain form, what is empty left out."""
    given: dict[str, Any] = {}
    if member.profile:
        given["profile"] = member.profile
    if member.assignors:
        given["assignors"] = list(member.assignors)
    if member.config:
        given["config"] = settings_dict(ConsumerConfig, member.config)
    return given


def upgraded_to(profile: str, assignors: tuple[str, ...], settings: tuple[str, ...]) -> MemberSpec:
    """What a rolling upgrade makes of a member, on top of what it is; settings are written as KEY=VALUE."""
    return MemberSpec(profile=profile, assignors=assignors, config=settings_of(settings))
