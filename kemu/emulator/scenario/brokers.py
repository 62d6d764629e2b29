"""The brokers of a scenario."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from attrs.converters import optional

from kemu.emulator.plan.known import MOST_BROKERS
from kemu.emulator.scenario.forms import fill_in
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.text.kafka_keys import Settings, lenient_settings
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import throughput, words
from kemu.protocol.config import BrokerConfig
from kemu.protocol.profiles import PROFILES


def _broker_settings(given: Mapping[str, Any] | Settings) -> Settings:
    return lenient_settings(BrokerConfig, given)


@frozen(kw_only=True)
class BrokerSpec:
    """What one broker has other than the others; what is None is as they have it.

    ``bandwidth_bytes_per_s``, ``disk_bytes_per_s``, ``log_dirs``: as ``BrokersSpec`` says. ``profile``: its release, a
    name of ``PROFILES``. What brokers say to each other is as the lowest of their releases has it, until the plan
    raises it ("upgrade-brokers"): Kafka's ``inter.broker.protocol.version``.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    bandwidth_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("bytes a second through its network card, each way", at_least=1, shown="as all have it"),
    )
    disk_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("bytes a second onto its disk", at_least=1, shown="as all have it"),
    )
    log_dirs: int | None = field(
        default=None, metadata=key("how many log directories it has", at_least=1, at_most=100, shown="as all have it")
    )
    profile: str = field(
        default="",
        metadata=key("another release", choices=lambda: ("", *PROFILES), what="profile", shown="the scenario's"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))


@frozen(kw_only=True)
class BrokersSpec:
    """The brokers b0, b1, ...; ``racks``: they take turns. ``replication``: None = a partition lives on one broker.

    ``bandwidth_bytes_per_s``: what carries records (appends and fetched batches, at the size that topics give their
    records) takes its time through each broker's network card, in and out, and shares it with what goes there at the
    time. ``disk_bytes_per_s``: so does what is written. None: both take no time but latency. ``log_dirs``: how many
    directories of ``log.dirs`` each has, each on a disk that can fail (where brokers replicate). ``overrides``: broker
    -> what it has otherwise.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    count: int = field(default=3, metadata=key("b0, b1, ...", at_least=1, at_most=MOST_BROKERS, always=True))
    racks: tuple[str, ...] = field(default=(), converter=words, metadata=key("brokers take turns"))
    replication: ReplicationSpec | None = field(
        default=None, metadata=key("brokers replicate, with a controller and a metadata store")
    )
    bandwidth_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("bytes a second through each broker's network card, each way", at_least=1, shown="no limit"),
    )
    disk_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("bytes a second onto each broker's disk", at_least=1, shown="no limit"),
    )
    log_dirs: int = field(
        default=1, metadata=key("how many log directories each broker has; they can fail", at_least=1, at_most=100)
    )
    overrides: Mapping[str, BrokerSpec] = field(
        factory=dict,
        metadata=key("tables by broker (overrides.b2): its own profile, bandwidth, disk, log_dirs", shown="none"),
    )
    config: Settings = field(
        default=(), converter=_broker_settings, metadata=key("Kafka's keys of a broker", config=BrokerConfig)
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
        if self.replication is not None and self.replication.factor > self.count:
            text = f"must not be more than there are brokers ({self.count})"
            raise ScenarioError([Problem(("replication", "factor"), text)])
        if self.replication is not None and not self.replication.new_cluster:
            copies = self.replication.replica_config().offsets_topic_replication_factor
            if copies > self.count:
                text = f"must not be more than there are brokers ({self.count}), but in a new_cluster"
                raise ScenarioError([Problem(("replication", "config", "offsets.topic.replication.factor"), text)])
        several = [name for name, own in self.overrides.items() if (own.log_dirs or 1) > 1]
        if self.replication is None and (self.log_dirs > 1 or several):
            path = ("log_dirs",) if self.log_dirs > 1 else ("overrides", several[0], "log_dirs")
            raise ScenarioError([Problem(path, "needs brokers that replicate: add [brokers.replication]")])

    def log_dirs_of(self, host: str) -> int:
        """How many log directories a broker has."""
        own = self.overrides.get(host)
        return (own.log_dirs if own is not None else None) or self.log_dirs

    def bandwidth_of(self, host: str) -> int:
        """Bytes a second through a broker's network card; 0: no limit."""
        own = self.overrides.get(host)
        return (own.bandwidth_bytes_per_s if own is not None else None) or self.bandwidth_bytes_per_s or 0

    def disk_of(self, host: str) -> int:
        """Bytes a second onto a broker's disk; 0: no limit."""
        own = self.overrides.get(host)
        return (own.disk_bytes_per_s if own is not None else None) or self.disk_bytes_per_s or 0

    def profile_of(self, host: str) -> str:
        """The release of a broker; "" is the scenario's."""
        own = self.overrides.get(host)
        return own.profile if own is not None else ""

    def rack_of(self, number: int) -> str:
        """The rack of a broker, "" without racks."""
        return self.racks[number % len(self.racks)] if self.racks else ""


def _with_factor(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a replication factor there are as many replicas as brokers, up to the default."""
    replication, count = given.get("replication"), given.get("count", BrokersSpec().count)
    if not isinstance(replication, Mapping) or "factor" in replication or type(count) is not int or count < 1:
        return given
    return {**given, "replication": {"factor": min(ReplicationSpec().factor, count), **replication}}


fill_in(BrokersSpec, _with_factor)
