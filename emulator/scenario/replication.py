"""The part of a scenario that asks for replication: factor, ISR, store session, lag, past bugs."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from kemu.actors.broker.bugs import REPLICA_BUGS
from kemu.actors.broker.rules import TODAY, ReplicaRules
from kemu.actors.controller.rules import CONTROLLER_BUGS, RULES, ControllerBug, ControllerRules
from kemu.emulator.text.kafka_keys import Settings, as_settings, configured, read_settings, settings_dict
from kemu.emulator.text.tables import Table
from kemu.emulator.text.units import duration_text
from kemu.protocol.config import ControllerConfig, ReplicaConfig

DEFAULTS = ReplicaConfig()
CONTROL = ControllerConfig()
_OF_CONTROLLERS: Mapping[str, ControllerBug] = {bug.issue: bug for bug in CONTROLLER_BUGS.values()}


def _replica_settings(given: Any) -> Settings:
    return as_settings(ReplicaConfig, given)


def _controller_settings(given: Any) -> Settings:
    return as_settings(ControllerConfig, given)


@frozen(kw_only=True)
class ReplicationSpec:
    """Brokers replicate: a metadata store ``zk``, a controller part in each broker, ``factor`` replicas per partition.

    ``min_isr``, ``unclean``: of every topic that does not say otherwise. ``session_us``: after how much silence the
    store takes a broker for dead. ``lag_us``: after how much of it a leader takes a follower out of the ISR. ``bugs``:
    past bugs (issues) that these brokers and controllers have.
    """

    factor: int = 3
    min_isr: int = 1
    unclean: bool = False
    session_us: int = CONTROL.zookeeper_session_timeout_ms * 1_000
    lag_us: int = DEFAULTS.replica_lag_time_max_ms * 1_000
    bugs: tuple[str, ...] = ()
    config: Settings = field(default=(), converter=_replica_settings)
    controller: Settings = field(default=(), converter=_controller_settings)

    def replica_config(self) -> ReplicaConfig:
        """What each broker is given."""
        named = {
            "min_insync_replicas": self.min_isr,
            "replica_lag_time_max_ms": self.lag_us // 1_000,
            "offsets_topic_replication_factor": self.factor,
        }
        return configured(DEFAULTS, (*named.items(), *self.config))

    def controller_config(self) -> ControllerConfig:
        """What each controller part is given."""
        named = {
            "zookeeper_session_timeout_ms": self.session_us // 1_000,
            "unclean_leader_election_enable": self.unclean,
            "default_replication_factor": self.factor,
        }
        return configured(CONTROL, (*named.items(), *self.controller))

    def replica_rules(self) -> ReplicaRules:
        """Today's, with the decisions of the past bugs."""
        rules = TODAY
        for bug in self.bugs:
            if bug in REPLICA_BUGS:
                rules = _with(rules, REPLICA_BUGS[bug].rules, TODAY)
        return rules

    def controller_rules(self) -> ControllerRules:
        """Today's, with the decisions of the past bugs."""
        rules = RULES
        for bug in self.bugs:
            if bug in _OF_CONTROLLERS:
                rules = _with(rules, _OF_CONTROLLERS[bug].rules, RULES)
        return rules

    def to_dict(self) -> dict[str, Any]:
        """The plain form, defaults left out."""
        given: dict[str, Any] = {"factor": self.factor}
        if self.min_isr != 1:
            given["min_isr"] = self.min_isr
        if self.unclean:
            given["unclean"] = True
        if self.session_us != ReplicationSpec().session_us:
            given["session"] = duration_text(self.session_us)
        if self.lag_us != ReplicationSpec().lag_us:
            given["lag"] = duration_text(self.lag_us)
        if self.bugs:
            given["bugs"] = list(self.bugs)
        if self.config:
            given["config"] = settings_dict(ReplicaConfig, self.config)
        if self.controller:
            given["controller"] = settings_dict(ControllerConfig, self.controller)
        return given


def _with(rules: Any, past: Any, today: Any) -> Any:
    """``rules`` with what ``past`` decides otherwise than today."""
    names = [name for name in today.__slots__ if not name.startswith("_")]
    return evolve(rules, **{name: getattr(past, name) for name in names if getattr(past, name) != getattr(today, name)})


def read_replication(table: Table, brokers: int) -> ReplicationSpec:
    """The table ``[brokers.replication]``."""
    spec = ReplicationSpec(
        factor=table.count("factor", min(3, brokers), least=1),
        min_isr=table.count("min_isr", 1, least=1),
        unclean=table.flag("unclean", False),
        session_us=table.duration("session", ReplicationSpec().session_us, least_us=1),
        lag_us=table.duration("lag", ReplicationSpec().lag_us, least_us=1),
        bugs=table.words("bugs"),
        config=read_settings(table.table("config"), ReplicaConfig),
        controller=read_settings(table.table("controller"), ControllerConfig),
    )
    if spec.factor > brokers:
        table.problem("factor", f"must not be more than there are brokers ({brokers})")
    if spec.min_isr > spec.factor:
        table.problem("min_isr", f"must not be more than the replication factor ({spec.factor})")
    for bug in spec.bugs:
        table.known("bugs", bug, PAST_BUGS, "past bug")
    table.finish()
    return spec


PAST_BUGS: Mapping[str, str] = {
    **{issue: bug.story for issue, bug in REPLICA_BUGS.items()},
    **{issue: bug.story for issue, bug in _OF_CONTROLLERS.items()},
}
"""Issue -> what went wrong."""
