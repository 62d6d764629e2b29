"""The release of each broker and member of a cluster, and the rules that follow from the release."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from kemu.actors.consumer.offset_topics import MEMBER_EPOCH_SINCE
from kemu.actors.coordinator.rules import GroupRules, rules_of_kind
from kemu.emulator.past_bugs.applying import group_rules, release_with
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import configured
from kemu.protocol.config import BrokerConfig
from kemu.protocol.dynamic_configs import CONSUMER_ASSIGNMENT_INTERVAL, GROUP_KEYS, bad_group_settings
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.consumer_group import HEARTBEAT_VERSION
from kemu.protocol.messages.versions import SpokenVersions
from kemu.protocol.profiles import PROFILES, Profile

GroupSettingsCheck: TypeAlias = Callable[[Mapping[str, str]], str]


@frozen
class BrokerRelease:
    """The release of a broker, as names of ``PROFILES``. ``protocol`` is the broker's
    ``inter.broker.protocol.version``.
    """

    profile: str
    protocol: str

    def then(self, profile: str, protocol: str) -> "BrokerRelease":
        """Return the release after an upgrade to these names; "" means no change of a name."""
        return BrokerRelease(profile or self.profile, protocol or self.protocol)


class Releases:
    """The releases of brokers and members, with the scenario's past bugs applied."""

    def __init__(self, scenario: Scenario, profile: Profile, brokers: Iterable[str]) -> None:
        self._scenario = scenario
        self._named: dict[str, Profile] = {}
        self.own = release_with(profile, scenario.bugs, scenario.mended)
        """The release that the run emulates; a host may have another release."""
        spec, own = scenario.brokers, self.own.name
        names = [spec.profile_of(name) or own for name in (*brokers, *spec.overrides)]
        oldest = min(names, key=lambda name: self.named(name).release)
        self._default = BrokerRelease(own, oldest)
        self._of_broker = {host: BrokerRelease(spec.profile_of(host) or own, oldest) for host in spec.overrides}
        """Broker -> release from the broker's next start on; other brokers have ``_default``."""

    def named(self, name: str) -> Profile:
        """Return a release by its name in ``PROFILES``, with the scenario's past bugs applied."""
        if name == self.own.name:
            return self.own
        if name not in self._named:
            self._named[name] = release_with(PROFILES[name], self._scenario.bugs, self._scenario.mended)
        return self._named[name]

    def of_member(self, member: MemberSpec) -> Profile:
        """Return the release of a member."""
        return self.named(member.profile) if member.profile else self.own

    def spoken_by(self, profile: Profile) -> SpokenVersions:
        """Return the API versions that a client of this release uses with the cluster's brokers."""
        if self._scenario.mixes_releases:
            return profile.versions.asking()
        return profile.versions if profile is self.own else profile.versions.among(self.own.versions)

    def _broker(self, host: str) -> BrokerRelease:
        return self._of_broker.get(host, self._default)

    def of_broker(self, host: str) -> Profile:
        """Return the release that a broker has from its next start on."""
        return self.named(self._broker(host).profile)

    def offered_by(self, host: str) -> SpokenVersions:
        """Return the API versions that a broker offers from its next start on: since 4.0 also those of KIP-848."""
        versions = self.of_broker(host).versions
        if not self.coordinator_rules_of(host).consumer_protocol:
            return versions
        fetch = max(MEMBER_EPOCH_SINCE, versions["OffsetFetch"])
        return versions.but(ConsumerGroupHeartbeat=HEARTBEAT_VERSION, OffsetFetch=fetch)

    def protocol_of(self, host: str) -> Profile:
        """Return the release that a broker's ``inter.broker.protocol.version`` names."""
        return self.named(self._broker(host).protocol)

    def config_of(self, host: str) -> BrokerConfig:
        """Return a broker's configuration, including the defaults of its release."""
        return configured(self.of_broker(host).broker, self._scenario.brokers.config)

    def coordinator_rules_of(self, host: str) -> GroupRules:
        """Return the rules of the group coordinator on a broker that starts now."""
        of_release = rules_of_kind(self.config_of(host).coordinator_kind)
        return group_rules(of_release, self._scenario.bugs, self._scenario.mended)

    def check_of_group_settings(self, host: str) -> GroupSettingsCheck | None:
        """Return the check of a group's own settings by a broker that starts now; None before 4.0.

        The check returns the reason why the settings are invalid, or "".
        """
        rules = self.coordinator_rules_of(host)
        if not rules.consumer_protocol:
            return None
        spaces_targets = rules.consumer_groups.spaces_targets
        return partial(bad_group_settings, config=self.config_of(host), spaces_targets=spaces_targets)

    def group_keys_of(self, host: str) -> tuple[str, ...]:
        """Return the settings that groups have in the release of a broker that starts now; none before 4.0."""
        rules = self.coordinator_rules_of(host)
        later = () if rules.consumer_groups.spaces_targets else (CONSUMER_ASSIGNMENT_INTERVAL,)
        return tuple(key for key in GROUP_KEYS if key not in later) if rules.consumer_protocol else ()

    def set_broker(self, host: str, release: BrokerRelease) -> None:
        """Set the release of a broker from its next start on."""
        self._of_broker[host] = release

    def upgrade_default(self, profile: str, protocol: str) -> None:
        """Upgrade the release of brokers without a release of their own."""
        self._default = self._default.then(profile, protocol)

    def after_upgrade(self, hosts: Iterable[str], profile: str, protocol: str) -> dict[str, BrokerRelease]:
        """Return each broker's release after an upgrade to these names."""
        return {host: self._broker(host).then(profile, protocol) for host in hosts}

    def misfit(self, becomes: Mapping[str, BrokerRelease], brokers: Iterable[str]) -> str | None:
        """Return the reason for which brokers could not communicate during an upgrade of one broker after the other.

        Returns:
            None if all brokers could communicate.
        """
        names = tuple(brokers)
        for host, then in becomes.items():
            release, protocol = self.named(then.profile), self.named(then.protocol)
            others = [name for name in names if name != host]
            newest = max([protocol, *map(self.protocol_of, others)], key=lambda each: each.release)
            if release.release < newest.release:
                return f"{host} would be {release.name}, which does not know the protocol of {newest.name}"
            older = [name for name in others if self.of_broker(name).release < protocol.release]
            if older and protocol is not self.protocol_of(host):
                return (
                    f"{older[0]} is {self.of_broker(older[0]).name} and would not know the protocol of "
                    f"{protocol.name}: first all brokers get the release, then the protocol"
                )
        return None
