"""Apply past bugs to rules, and mend the past bugs that a release has.

Without bugs every function returns its argument, so a run without bugs pays nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import fields_dict

from kemu.actors.broker.rules import TODAY, ReplicaRules
from kemu.actors.controller.rules import (
    LAST_METADATA_WITHOUT_TOPIC_IDS,
    LAST_WITHOUT_TOPIC_IDS,
    RULES,
    ControllerRules,
)
from kemu.actors.coordinator.rules import GROUP_RULES, GroupRules
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.protocol.assign.base import Assignor
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.frozen import evolve
from kemu.protocol.metadata_rules import MetadataRules
from kemu.protocol.profiles import PROFILES, Profile
from kemu.protocol.rebalancing.rules import MemberRules, RulesOf
from kemu.protocol.streams.releases import StreamsRelease

_OF_PROTOCOLS = frozenset({"isr_path", "truncation"})
"""Rules that follow from the protocol between brokers. A bug may need such a rule; mending a bug never changes such a
rule."""


def replica_rules_of(release: Profile, protocol: Profile) -> ReplicaRules:
    """The rules of a release's brokers, with this protocol between brokers."""
    return evolve(
        TODAY,
        isr_path=protocol.isr_path,
        truncation=protocol.truncation,
        min_isr_holds_watermark=release.min_isr_holds_watermark,
        waits_twice_for_lost_fetches=release.waits_twice_for_lost_fetches,
        checks_fetch_epoch=release.checks_fetch_epoch,
        refuses_unassigned=release.refuses_unassigned,
    )


def controller_rules_of(release: Profile, protocol: Profile) -> ControllerRules:
    """The rules of a release's controllers, with this protocol between brokers."""
    tells_metadata = RULES.update_metadata_version if protocol.tells_topic_ids else LAST_METADATA_WITHOUT_TOPIC_IDS
    return evolve(
        RULES,
        reassignment=release.reassignment,
        leader_and_isr_version=RULES.leader_and_isr_version if protocol.topic_ids else LAST_WITHOUT_TOPIC_IDS,
        update_metadata_version=tells_metadata,
        balances_while_reassigning=release.balances_while_reassigning,
    )


def replica_rules(rules: ReplicaRules, bugs: Iterable[str], mended: Iterable[str] = ()) -> ReplicaRules:
    """A broker's rules with these bugs, and without the mended bugs."""
    for issue in mended:
        wrong = {name: value for name, value in PAST_BUGS[issue].past.replica.items() if name not in _OF_PROTOCOLS}
        rules = evolve(rules, **_todays(ReplicaRules, wrong))
    for issue in bugs:
        rules = evolve(rules, **PAST_BUGS[issue].past.replica)
    return rules


def controller_rules(rules: ControllerRules, bugs: Iterable[str], mended: Iterable[str] = ()) -> ControllerRules:
    """A controller's rules with these bugs, and without the mended bugs."""
    for issue in mended:
        rules = evolve(rules, **_todays(ControllerRules, PAST_BUGS[issue].past.controller))
    for issue in bugs:
        rules = evolve(rules, **PAST_BUGS[issue].past.controller)
    return rules


def group_rules(rules: GroupRules, bugs: Iterable[str], mended: Iterable[str] = ()) -> GroupRules:
    """A coordinator's rules with these bugs, and without the mended bugs."""
    for issue in mended:
        rules = evolve(rules, **_todays(GroupRules, PAST_BUGS[issue].past.coordinator))
    for issue in bugs:
        rules = evolve(rules, **PAST_BUGS[issue].past.coordinator)
    return rules


def release_with(profile: Profile, bugs: Sequence[str], mended: Sequence[str] = ()) -> Profile:
    """A release whose clients and Streams instances have these bugs, and lack the mended bugs."""
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
    """The past bugs of a release's clients, assignors, Streams instances, coordinators, brokers and controllers.

    The bugs of brokers are those of a cluster in which all brokers have this release.
    """
    broker, controller = replica_rules_of(profile, profile), controller_rules_of(profile, profile)
    coordinator = GROUP_RULES[profile.broker.coordinator_kind]
    member = profile.rules_of(profile.consumer, tuple(profile.assignors.values())[:1])
    return tuple(
        issue
        for issue, bug in PAST_BUGS.items()
        if _has(coordinator, bug.past.coordinator)
        or _has(broker, bug.past.replica)
        or _has(controller, bug.past.controller)
        or _has(member, bug.past.consumer)
        or _has(profile.metadata, bug.past.metadata)
        or _has(profile.streams, bug.past.streams)
        or any(assignor is not bug.past.mended(assignor) for assignor in profile.assignors.values())
    )


def bugs_of_releases() -> tuple[str, ...]:
    """The past bugs that at least one release has, by issue."""
    own = {issue for profile in PROFILES.values() for issue in bugs_of(profile)}
    return tuple(issue for issue in PAST_BUGS if issue in own)


def _has(rules: object, past: Mapping[str, Any]) -> bool:
    return bool(past) and all(getattr(rules, name) == value for name, value in past.items())


def _todays(rules: type[Any], past: Mapping[str, Any]) -> dict[str, Any]:
    """The values that these fields have in today's rules."""
    return {name: fields_dict(rules)[name].default for name in past}


def _with_changes(rules_of: RulesOf, changes: dict[str, object]) -> RulesOf:
    def past_rules_of(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
        rules = rules_of(config, assignors)
        return evolve(rules, **changes)  # type: ignore[arg-type]

    return past_rules_of
