"""Past bugs switched on: rules with what bugs decide otherwise.

With no bug every function here gives back what it was given, so that a run without bugs pays nothing for them.
"""

from collections.abc import Iterable, Sequence

from attrs import evolve

from kemu.actors.broker.rules import ReplicaRules
from kemu.actors.controller.rules import ControllerRules
from kemu.actors.coordinator.rules import GroupRules
from kemu.emulator.museum.registry import PAST_BUGS
from kemu.protocol.assign.base import Assignor
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.profiles import Profile
from kemu.protocol.rebalancing.rules import MemberRules, RulesOf


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


def group_rules(rules: GroupRules, bugs: Iterable[str]) -> GroupRules:
    """A coordinator's."""
    for issue in bugs:
        rules = evolve(rules, **PAST_BUGS[issue].past.coordinator)
    return rules


def release_with(profile: Profile, bugs: Sequence[str]) -> Profile:
    """A release whose members and Streams instances have these bugs."""
    for issue in bugs:
        past = PAST_BUGS[issue].past
        if past.assignors:
            profile = evolve(profile, assignors={**profile.assignors, **past.assignors})
        if past.consumer:
            profile = evolve(profile, rules_of=_with_changes(profile.rules_of, dict(past.consumer)))
        if past.streams:
            profile = evolve(profile, streams=evolve(profile.streams, **past.streams))
    return profile


def _with_changes(rules_of: RulesOf, changes: dict[str, object]) -> RulesOf:
    def past_rules_of(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
        rules = rules_of(config, assignors)
        return evolve(rules, **changes)  # type: ignore[arg-type]

    return past_rules_of
