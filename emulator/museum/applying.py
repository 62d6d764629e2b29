"""Past bugs switched on: rules with what bugs decide otherwise. And mended: what a release decided, decided as today.

With no bug every function here gives back what it was given, so that a run without bugs pays nothing for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, fields_dict

from kemu.actors.broker.rules import ReplicaRules
from kemu.actors.controller.rules import ControllerRules
from kemu.actors.coordinator.rules import GROUP_RULES, GroupRules
from kemu.emulator.museum.registry import PAST_BUGS
from kemu.protocol.assign.base import Assignor
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.metadata_rules import MetadataRules
from kemu.protocol.profiles import PROFILES, Profile
from kemu.protocol.rebalancing.rules import MemberRules, RulesOf
from kemu.protocol.streams.releases import StreamsRelease


def replica_rules(rules: ReplicaRules, bugs: Iterable[str]) -> ReplicaRules:
    """A broker's."""
    for issue in bugs:
        rules = evolve(rules, **PAST_BUGS[issue].past.replica)
    return rules


def controller_rules(rules: ControllerRules, bugs: Iterable[str]) -> ControllerRules:
    """A controller's."""
    for issue in bugs:
        rules = evolve(rules, **PAST_BUGS[issue].past.controller)
    return rules


def group_rules(rules: GroupRules, bugs: Iterable[str], mended: Iterable[str] = ()) -> GroupRules:
    """A coordinator's."""
    for issue in mended:
        rules = evolve(rules, **_todays(GroupRules, PAST_BUGS[issue].past.coordinator))
    for issue in bugs:
        rules = evolve(rules, **PAST_BUGS[issue].past.coordinator)
    return rules


def release_with(profile: Profile, bugs: Sequence[str], mended: Sequence[str] = ()) -> Profile:
    """A release whose clients and Streams instances have these bugs, and those that are mended not."""
    for issue in mended:
        past = PAST_BUGS[issue].past
        if past.of_releases:
            without = {name: past.mended(assignor) for name, assignor in profile.assignors.items()}
            profile = evolve(profile, assignors=without)
        if past.consumer:
            profile = evolve(profile, rules_of=_with_changes(profile.rules_of, _todays(MemberRules, past.consumer)))
        if past.metadata:
            profile = evolve(profile, metadata=evolve(profile.metadata, **_todays(MetadataRules, past.metadata)))
        if past.streams:
            profile = evolve(profile, streams=evolve(profile.streams, **_todays(StreamsRelease, past.streams)))
    for issue in bugs:
        past = PAST_BUGS[issue].past
        if past.assignors:
            profile = evolve(profile, assignors={**profile.assignors, **past.assignors})
        if past.consumer:
            profile = evolve(profile, rules_of=_with_changes(profile.rules_of, dict(past.consumer)))
        if past.metadata:
            profile = evolve(profile, metadata=evolve(profile.metadata, **past.metadata))
        if past.streams:
            profile = evolve(profile, streams=evolve(profile.streams, **past.streams))
    return profile


def bugs_of(profile: Profile) -> tuple[str, ...]:
    """Past bugs that a release's coordinators, clients, assignors and Streams instances have by themselves.

    Brokers and controllers have no rules of releases: theirs are those of today, unless a bug is switched on.
    """
    coordinator = GROUP_RULES[profile.broker.coordinator_kind]
    member = profile.rules_of(profile.consumer, tuple(profile.assignors.values())[:1])
    return tuple(
        issue
        for issue, bug in PAST_BUGS.items()
        if _has(coordinator, bug.past.coordinator)
        or _has(member, bug.past.consumer)
        or _has(profile.metadata, bug.past.metadata)
        or _has(profile.streams, bug.past.streams)
        or any(assignor is not bug.past.mended(assignor) for assignor in profile.assignors.values())
    )


def bugs_of_releases() -> tuple[str, ...]:
    """Those that any release has by itself."""
    own = {issue for profile in PROFILES.values() for issue in bugs_of(profile)}
    return tuple(issue for issue in PAST_BUGS if issue in own)


def _has(rules: object, past: Mapping[str, Any]) -> bool:
    return bool(past) and all(getattr(rules, name) == value for name, value in past.items())


def _todays(rules: type[Any], past: Mapping[str, Any]) -> dict[str, Any]:
    """What the rules decide by themselves, in these fields."""
    return {name: fields_dict(rules)[name].default for name in past}


def _with_changes(rules_of: RulesOf, changes: dict[str, object]) -> RulesOf:
    def past_rules_of(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
        rules = rules_of(config, assignors)
        return evolve(rules, **changes)  # type: ignore[arg-type]

    return past_rules_of
