"""Kafka's configuration keys: lookup, checks, and conversion to config values.

Settings hold only the given keys, sorted, under the names of fields (``session_timeout_ms``). The start of a run adds
the defaults of a release.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar, cast

from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.emulator.text.allowed_code import names_are_checked
from kemu.emulator.text.custom_assignors import is_custom, load_assignor
from kemu.emulator.text.tables import Path, Problem, ScenarioError, Table, flatten, nearest
from kemu.emulator.text.units import words
from kemu.protocol import catch_up
from kemu.protocol.assign.checked import NotAnAssignor
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.config import (
    CLOSE_MEMBERSHIPS,
    GROUP_PROTOCOLS,
    MIGRATION_POLICIES,
    SERVER_ASSIGNORS,
    BrokerConfig,
    ConsumerConfig,
    ControllerConfig,
    ProducerConfig,
    ReplicaConfig,
    StreamsConfig,
    key_of,
)
from kemu.protocol.dynamic_configs import ALIASES
from kemu.protocol.frozen import FrozenField, evolve, frozen_fields
from kemu.protocol.reassign.moves import Limits, limits_by_key
from kemu.protocol.rebalancing import kip_429
from kemu.protocol.streams.modes import PICKS, REBALANCING_MODES, UNCAUGHT_EXCEPTION

_NUMBER = re.compile(r"-?[0-9]{1,19}")
Scalar: TypeAlias = str | int | bool | tuple[str, ...] | None
Settings: TypeAlias = tuple[tuple[str, Scalar], ...]
Config = TypeVar("Config", ConsumerConfig, BrokerConfig, ProducerConfig, ReplicaConfig, ControllerConfig, StreamsConfig)

JAVA_ASSIGNORS: Mapping[str, str] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""Class name in ``partition.assignment.strategy`` -> name of the assignor in JoinGroup."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "group.protocol": GROUP_PROTOCOLS,
    "group.remote.assignor": ("", *SERVER_ASSIGNORS),
    "group.consumer.migration.policy": MIGRATION_POLICIES,
    "auto.offset.reset": ("earliest", "latest", "none"),
    "coordinator.kind": tuple(GROUP_RULES),
    "rebalance.protocol": kip_429.PROTOCOLS,
    "emulated.close.membership": CLOSE_MEMBERSHIPS,
    "emulated.bytecode": kip_429.BYTECODES,
    "emulated.mixed.policy": kip_429.MIXED_POLICIES,
    "emulated.incompatible.rejoin": kip_429.INCOMPATIBLE_REJOINS,
    "emulated.parallel.rebalance.calls": catch_up.CALLS,
    "processing.guarantee": ("at_least_once", "exactly_once", "exactly_once_beta", "exactly_once_v2"),
    "emulated.learner.pick": PICKS,
    "stream.rebalancing.mode": REBALANCING_MODES,
    "emulated.uncaught.exception": UNCAUGHT_EXCEPTION,
}

AT_LEAST_ONE = frozenset(limits_by_key(Limits()))
"""Integer keys with the least value 1. The least value of another key is 0, or the default of the key if negative."""

SET_BY_SCENARIO: Mapping[str, str] = {
    "group.id": "the group's name is its id",
    "group.instance.id": "use static = true on the group, or instance on a member",
    "client.id": "members are named c1, c2, ...",
    "emulated.records.per.s": "it is set per topic, as its rate",
    "min.insync.replicas": "write min_isr in [brokers.replication] or in a topic",
    "unclean.leader.election.enable": "write unclean in [brokers.replication] or in a topic",
    "replica.lag.time.max.ms": "write lag in [brokers.replication]",
    "zookeeper.session.timeout.ms": "write session in [brokers.replication]",
    "default.replication.factor": "write factor in [brokers.replication], replication_factor in a topic",
}
"""Kafka's key -> a hint that names the key of the scenario to use instead."""

_LEAST: Mapping[str, int] = {
    "group.coordinator.append.linger.ms": -1,
    "group.consumer.regex.refresh.interval.ms": 10_000,
    **dict.fromkeys(
        (
            *("group.consumer.max.size", "group.max.size"),
            *(f"group.consumer.{least}session.timeout.ms" for least in ("", "min.", "max.")),
            *(f"group.consumer.{least}heartbeat.interval.ms" for least in ("", "min.", "max.")),
        ),
        1,
    ),
}
"""Integer keys with another least value than 0, 1 or their default. Source: ``GroupCoordinatorConfig`` 4.2."""
_SERVER_ASSIGNORS_KEY = "group.consumer.assignors"

NOT_EMULATED: Mapping[str, str] = {
    "isolation.level": "transactions are not emulated",
}
"""Keys of Kafka that are not emulated -> reason."""


def fields_of(cls: type) -> dict[str, FrozenField]:
    """Return the fields of a config class by Kafka's key, in order of declaration."""
    return {key_of(field): field for field in frozen_fields(cls)}


def configured(defaults: Config, settings: Settings) -> Config:
    """Return the config ``defaults``, overridden by these settings; the members of a group share their config."""
    return cast(Config, _configured(defaults, settings))


@lru_cache(maxsize=256)
def _configured(defaults: Any, settings: Settings) -> Any:
    return evolve(defaults, **dict(settings))


def as_settings(cls: type, given: Mapping[str, Any] | Settings) -> Settings:
    """Convert a mapping of Kafka's keys to settings; settings are returned unchanged.

    Raises:
        ScenarioError: an unknown key or a wrong value.
    """
    if isinstance(given, tuple):
        return given
    problems: list[Problem] = []
    settings = read_settings(Table(flatten(given), ("config",), problems), cls)
    if problems:
        raise ScenarioError(problems)
    return settings


def lenient_settings(cls: type, given: Mapping[str, Any] | Settings) -> Settings:
    """Convert like ``as_settings``, but return wrong values unchanged, for a later check of the field."""
    try:
        return as_settings(cls, given) if isinstance(given, Mapping) else given
    except ScenarioError:
        return cast(Settings, given)


def read_settings(table: Table, cls: type) -> Settings:
    """Read the settings of a table of Kafka's keys; dotted keys may be quoted or bare."""
    found: dict[str, Scalar] = {}
    keys = fields_of(cls)
    for key, given in flatten(table.data).items():
        name = ALIASES.get(key, key)
        if key in SET_BY_SCENARIO:
            _problem(table, key, f"cannot be set: {SET_BY_SCENARIO[key]}")
        elif name in keys and keys[name].name in found:
            _problem(table, key, f"is set twice: it is another name of {name}")
        elif key in NOT_EMULATED and key not in keys:
            _problem(table, key, f"cannot be set: {NOT_EMULATED[key]}")
        elif name not in keys:
            _problem(table, key, f"is no key of {cls.__name__}{nearest(key, keys)}")
        else:
            found[keys[name].name] = _checked(table, key, keys[name], given)
    _check_together(table, cls, found)
    return tuple(sorted(found.items()))


def settings_dict(cls: type, settings: Settings) -> dict[str, Any]:
    """Return Kafka's key -> plain value of these settings, in order of declaration."""
    given = dict(settings)
    plain = {key: given[field.name] for key, field in fields_of(cls).items() if field.name in given}
    return {key: list(item) if isinstance(item, tuple) else item for key, item in plain.items()}


def settings_of(texts: Sequence[str], cls: type = ConsumerConfig) -> Settings:
    """Read settings written as ``KEY=VALUE``; a value is TOML or a bare word.

    Raises:
        ScenarioError: lists every mistake.
    """
    problems: list[Problem] = []
    given: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            problems.append(Problem((), f'"{text}" must be KEY=VALUE'))
        else:
            given[key.strip()] = _value(value.strip())
    settings = read_settings(Table(flatten(given), (), problems), cls)
    if problems:
        raise ScenarioError(problems)
    return settings


def is_of_streams(text: str) -> bool:
    """Whether a setting written as ``KEY=VALUE`` belongs to Streams, and not to the consumers of an instance."""
    return text.partition("=")[0].strip() in fields_of(StreamsConfig)


def member_settings_of(texts: Sequence[str]) -> tuple[Settings, Settings]:
    """Return (consumer's settings, Streams settings) of a member from texts ``KEY=VALUE``.

    Raises:
        ScenarioError: lists every mistake.
    """
    of_streams = [text for text in texts if is_of_streams(text)]
    of_consumer = [text for text in texts if text not in of_streams]
    return settings_of(of_consumer), settings_of(of_streams, StreamsConfig)


def texts_of(settings: Settings, cls: type = ConsumerConfig) -> tuple[str, ...]:
    """Return settings as texts ``KEY=VALUE``, which ``settings_of`` reads."""
    plain = settings_dict(cls, settings)
    return tuple(f"{key}={_text(item)}" for key, item in plain.items())


def _text(item: Any) -> str:
    if isinstance(item, bool):
        return str(item).lower()
    return ",".join(item) if isinstance(item, list) else str(item)


def assignor_names(names: str | type | Iterable[str | type]) -> tuple[str, ...]:
    """Return the names of assignors as in JoinGroup, from names, Kafka's class names, or classes of the user.

    The name of a user's class is ``module:Class``; traces and other processes find the class by this name.
    """
    given = (names,) if isinstance(names, type) else words(names) if isinstance(names, str) else names
    return tuple(_assignor_name(name) for name in given)


def _assignor_name(name: object) -> str:
    if isinstance(name, type):
        return f"{name.__module__}:{name.__qualname__}"
    return JAVA_ASSIGNORS.get(str(name).rpartition(".")[2], str(name))


def _problem(table: Table, key: str, text: str) -> None:
    # A bare dotted key makes nested tables. The path of these tables gives the line of the key.
    path: Path = (*table.path, key) if key in table.data else (*table.path, *key.split("."))
    table.problems.append(Problem(path, text))


def _checked(table: Table, key: str, field: Any, given: Any) -> Scalar:
    """Convert the value of a key to the type of its field; a key in ms may have a duration."""
    default = field.default
    if isinstance(default, bool):
        if isinstance(given, str) and given.lower() in ("true", "false"):
            return given.lower() == "true"
        if not isinstance(given, bool):
            _problem(table, key, f"must be true or false, not {given!r}")
        return bool(given)
    if isinstance(default, int):
        return _whole(table, key, default, given)
    if field.type == int | None:
        return _whole(table, key, 0, given)
    if isinstance(default, tuple):
        names = given.split(",") if isinstance(given, str) else given
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            _problem(table, key, "must be a list of names")
            return ()
        names = [name.strip() for name in names]
        return (
            _server_assignors(table, key, names) if key == _SERVER_ASSIGNORS_KEY else check_assignors(table, key, names)
        )
    if not isinstance(given, str):
        _problem(table, key, f"must be a string, not {given!r}")
        return ""
    if given not in CHOICES.get(key, (given,)):
        _problem(table, key, f'"{given}" is not allowed{nearest(given, CHOICES[key])}')
    return given


def _server_assignors(table: Table, key: str, names: Iterable[str]) -> tuple[str, ...]:
    """Read the assignors of a coordinator (KIP-848)."""
    found = tuple(names)
    for name in found:
        if name not in SERVER_ASSIGNORS:
            _problem(table, key, f'"{name}" is no assignor of a coordinator{nearest(name, SERVER_ASSIGNORS)}')
    if not found:
        _problem(table, key, "needs at least one assignor")
    return found


def check_assignors(table: Table, key: str, names: Iterable[str]) -> tuple[str, ...]:
    """Read a non-empty list of names of assignors. A name must be known or be a loadable ``module:Class``."""
    found = assignor_names(names)
    for text in assignor_problems(found):
        _problem(table, key, text)
    if not found:
        _problem(table, key, "needs at least one assignor")
    return found


def assignor_problems(names: Iterable[str]) -> Iterator[str]:
    """Yield the mistakes in these names of assignors."""
    for name in names:
        if is_custom(name):
            try:
                if names_are_checked():
                    load_assignor(name)
            except NotAnAssignor as error:
                yield str(error)
        elif name not in ASSIGNORS:
            yield f'"{name}" is no assignor{nearest(name, ASSIGNORS)}'


def _whole(table: Table, key: str, default: int, given: Any) -> int:
    unit = {"ms": 1_000, "us": 1}.get(key.rpartition(".")[2])
    if isinstance(given, str) and _NUMBER.fullmatch(given):
        given = int(given)
    if isinstance(given, str) and unit:
        us = table.as_duration(key, given)
        if us is not None and us % unit:
            _problem(table, key, f"{given} is finer than the key's unit")
        return (us or 0) // unit
    if isinstance(given, bool) or not isinstance(given, int):
        _problem(table, key, f"must be a whole number, not {given!r}")
        return default
    if ALIASES.get(key, key) in AT_LEAST_ONE and given < 1:
        _problem(table, key, f"must be at least 1, not {given}")
        return default
    least = _LEAST.get(key, min(default, 0))
    if given < least:
        _problem(table, key, f"must {f'be at least {least}' if least > 0 else 'not be negative'}, not {given}")
    return given


def _check_bounds(table: Table, found: Mapping[str, Scalar]) -> None:
    """Refuse times of the consumer protocol outside their bounds. Source: ``GroupCoordinatorConfig`` 4.3."""
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        keys = [f"group.consumer.{bound}{name}" for bound in ("", "min.", "max.")]
        fields = [key.replace(".", "_") for key in keys]
        if not set(fields) & set(found):
            continue
        config: Any = configured(BrokerConfig(), tuple(found.items()))
        value, least, most = (getattr(config, field) for field in fields)
        if all(isinstance(each, int) for each in (value, least, most)) and not least <= value <= most:
            given = next(key for key, field in zip(keys, fields, strict=True) if field in found)
            _problem(table, given, f"{keys[0]} ({value}) must be from {keys[1]} ({least}) to {keys[2]} ({most})")


def _check_together(table: Table, cls: type, found: Mapping[str, Scalar]) -> None:
    """Refuse a heartbeat interval that is not below the session timeout, as Kafka's consumer does."""
    if cls is BrokerConfig:
        _check_bounds(table, found)
    if cls is not ConsumerConfig or not {"heartbeat_interval_ms", "session_timeout_ms"} & set(found):
        return
    config: Any = configured(ConsumerConfig(), tuple(found.items()))
    if isinstance(config.session_timeout_ms, int) and config.heartbeat_interval_ms >= config.session_timeout_ms:
        _problem(
            table,
            "session.timeout.ms" if "session_timeout_ms" in found else "heartbeat.interval.ms",
            f"heartbeat.interval.ms ({config.heartbeat_interval_ms}) must be less than "
            f"session.timeout.ms ({config.session_timeout_ms})",
        )


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
