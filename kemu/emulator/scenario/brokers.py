"""The brokers of a scenario."""

from collections.abc import Mapping
from typing import Any

from attrs import field
from attrs.converters import optional

from kemu.emulator.plan.known import MOST_BROKERS
from kemu.emulator.scenario.forms import fill_in
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.text.kafka_keys import Settings, lenient_settings
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import throughput, words
from kemu.protocol.config import BrokerConfig
from kemu.protocol.frozen import frozen
from kemu.protocol.profiles import PROFILES


def _broker_settings(given: Mapping[str, Any] | Settings) -> Settings:
    return lenient_settings(BrokerConfig, given)


@frozen(kw_only=True)
class BrokerSpec:
    """Settings of one broker. None or "" means the value of ``BrokersSpec``.

    ``profile`` is the broker's release, a name of ``PROFILES``. Until the action "upgrade-brokers" raises the
    inter-broker protocol (``inter.broker.protocol.version``), all brokers use the oldest release's protocol.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    bandwidth_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("network bandwidth in bytes per second, each way", at_least=1, shown="as in brokers"),
    )
    disk_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("disk bandwidth in bytes per second", at_least=1, shown="as in brokers"),
    )
    log_dirs: int | None = field(
        default=None, metadata=key("number of log directories", at_least=1, at_most=100, shown="as in brokers")
    )
    profile: str = field(
        default="",
        metadata=key("release of the broker", choices=lambda: ("", *PROFILES), what="profile", shown="the scenario's"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))


@frozen(kw_only=True)
class BrokersSpec:
    """The brokers b0, b1, and so on.

    ``racks`` are assigned to brokers in turn. Without ``replication`` each partition has one replica.
    ``bandwidth_bytes_per_s`` limits the network card of each broker, in each direction; appends and fetched batches
    share the bandwidth. ``disk_bytes_per_s`` limits the writes of each broker to its disk. None means no limit.
    ``log_dirs`` is the number of directories in ``log.dirs``. Each directory has its own disk, which can fail (with
    ``replication``). ``overrides`` has settings of single brokers.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    count: int = field(
        default=3,
        metadata=key("number of brokers; hosts are b0, b1, ...", at_least=1, at_most=MOST_BROKERS, always=True),
    )
    racks: tuple[str, ...] = field(default=(), converter=words, metadata=key("racks, assigned to brokers in turn"))
    replication: ReplicationSpec | None = field(
        default=None, metadata=key("replication settings; the cluster gets a controller and a metadata store")
    )
    bandwidth_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("network bandwidth of each broker in bytes per second, each way", at_least=1, shown="no limit"),
    )
    disk_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("disk bandwidth of each broker in bytes per second", at_least=1, shown="no limit"),
    )
    log_dirs: int = field(
        default=1, metadata=key("number of log directories of each broker; each can fail", at_least=1, at_most=100)
    )
    overrides: Mapping[str, BrokerSpec] = field(
        factory=dict,
        metadata=key("settings of single brokers, by host: [overrides.b2]", shown="none"),
    )
    config: Settings = field(
        default=(), converter=_broker_settings, metadata=key("Kafka's keys of a broker", config=BrokerConfig)
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
        if self.replication is not None and self.replication.factor > self.count:
            text = f"must not exceed the number of brokers ({self.count})"
            raise ScenarioError([Problem(("replication", "factor"), text)])
        if self.replication is not None and not self.replication.new_cluster:
            copies = self.replication.replica_config().offsets_topic_replication_factor
            if copies > self.count:
                text = f"must not exceed the number of brokers ({self.count}), except with new_cluster"
                raise ScenarioError([Problem(("replication", "config", "offsets.topic.replication.factor"), text)])
        several = [name for name, own in self.overrides.items() if (own.log_dirs or 1) > 1]
        if self.replication is None and (self.log_dirs > 1 or several):
            path = ("log_dirs",) if self.log_dirs > 1 else ("overrides", several[0], "log_dirs")
            raise ScenarioError([Problem(path, "needs brokers that replicate: add [brokers.replication]")])

    def log_dirs_of(self, host: str) -> int:
        """Return the number of a broker's log directories."""
        own = self.overrides.get(host)
        return (own.log_dirs if own is not None else None) or self.log_dirs

    def bandwidth_of(self, host: str) -> int:
        """Return a broker's network bandwidth in bytes per second; 0 means no limit."""
        own = self.overrides.get(host)
        return (own.bandwidth_bytes_per_s if own is not None else None) or self.bandwidth_bytes_per_s or 0

    def disk_of(self, host: str) -> int:
        """Return a broker's disk bandwidth in bytes per second; 0 means no limit."""
        own = self.overrides.get(host)
        return (own.disk_bytes_per_s if own is not None else None) or self.disk_bytes_per_s or 0

    def profile_of(self, host: str) -> str:
        """Return the name of a broker's release; "" stands for the scenario's release."""
        own = self.overrides.get(host)
        return own.profile if own is not None else ""

    def rack_of(self, number: int) -> str:
        """Return the rack of the broker with this number; "" without racks."""
        return self.racks[number % len(self.racks)] if self.racks else ""


def _with_factor(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Set a missing replication factor to the number of brokers, but at most to the default."""
    replication, count = given.get("replication"), given.get("count", BrokersSpec().count)
    if not isinstance(replication, Mapping) or "factor" in replication or type(count) is not int or count < 1:
        return given
    return {**given, "replication": {"factor": min(ReplicationSpec().factor, count), **replication}}


fill_in(BrokersSpec, _with_factor)
