"""``kemu describe`` prints reference texts from the declarations in the code."""

import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import click

from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.plan.action import HostNames, Key, NameOf, OneOf, keys_of
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.scenario.groups import EARLIEST
from kemu.emulator.scenario.keys import Declared, walk
from kemu.emulator.scenario.kinds import CountKey, PlanKey, SettingsKey, TablesKey
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import SET_BY_SCENARIO, fields_of
from kemu.emulator.text.tables import nearest
from kemu.emulator.text.units import duration_text
from kemu.protocol.config import (
    BrokerConfig,
    ConsumerConfig,
    ControllerConfig,
    ProducerConfig,
    ReplicaConfig,
    StreamsConfig,
    source_of,
)
from kemu.protocol.draws import DRAWS, HOW, SETS
from kemu.protocol.dynamic_configs import ALIASES, GROUP_KEYS
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import FrozenField
from kemu.tools.exits import MEANING
from kemu.tools.report.layout import TableColumn, print_lines, table, terminal_width

CONFIGS: Mapping[str, tuple[str, type]] = {
    "consumer": ("[groups.NAME.config]", ConsumerConfig),
    "broker": ("[brokers.config]", BrokerConfig),
    "streams": ("[groups.NAME.streams.config]", StreamsConfig),
    "producer": ("[producers.config]", ProducerConfig),
    "replica": ("[brokers.replication.config]", ReplicaConfig),
    "controller": ("[brokers.replication.controller]", ControllerConfig),
}


def _meaning(each: Declared) -> str:
    """The meaning of a key of a scenario file, with the limits and the default of the key."""
    doc = each.key.doc
    if isinstance(each.kind, SettingsKey | PlanKey | TablesKey) and not each.key.shown:
        return doc
    limits = each.key.limits
    if isinstance(each.kind, CountKey) and limits.at_most is not None and limits.at_most < 2**31:
        least = "at most" if limits.at_least is None else f"{limits.at_least} to"
        doc = f"{doc}, {least} {limits.at_most}"
    if each.required and not each.key.shown:
        return f"{doc}; required"
    return f"{doc}; default {each.key.shown or _written(each)}"


def _written(each: Declared) -> str:
    """The default of a key, as a scenario file would contain the value."""
    plain = each.kind.plain(each.default)
    return json.dumps(plain) if plain not in ([], "") else "none"


SCENARIO_KEYS: Mapping[str, str] = {name: _meaning(each) for name, each in walk(Scenario)}
"""Every key of a scenario file, with its meaning."""


@click.command()
@click.argument("key", required=False)
def describe(key: str | None) -> None:
    """Explain KEY: a config key, an action, a checker, a kind of violation, a figure, a past bug, or a topic.

    Topics: scenario (the keys of a scenario file), draws (random values), consumer, broker, producer, replica,
    controller (config keys), faults, actions, checkers, figures, profiles, bugs, causes, errors, exits.
    Without KEY, the command lists all topics except errors.
    """
    if key is None:
        for topic, lines in TOPICS.items():
            if topic != "errors":
                _print(topic, lines())
        return
    if key in TOPICS:
        _print(key, TOPICS[key]())
        return
    found = [line for lines in EXPLAINED for line in lines(key)]
    if not found:
        known = [
            *TOPICS,
            *DRAWS,
            *ACTIONS,
            *_checker_names(),
            *_violation_kinds(),
            *FIGURES,
            *CONSUMER_METRICS,
            *PAST_BUGS,
            *_cause_names(),
            *(name for _, cls in CONFIGS.values() for name in fields_of(cls)),
            *GROUP_KEYS,
        ]
        like = [name for name in known if key.lower() in name.lower()] or difflib.get_close_matches(key, known, n=5)
        hint = "; did you mean " + ", ".join(like[:8]) + "?" if like else nearest(key, TOPICS)
        raise click.UsageError(f'no key or topic is named "{key}"{hint}')
    print_lines(found)


def _print(title: str, lines: Iterable[str]) -> None:
    print_lines([click.style(title, bold=True), *(f"  {line}" for line in lines), ""])


def _table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """The lines of a table that fits the terminal; the text of the last column wraps."""
    last = len(rows[0]) - 1
    columns = [TableColumn(wraps=at == last) for at in range(last + 1)]
    return table(columns, rows, indent=0, width=terminal_width() - 2)


def _scenario() -> Iterable[str]:
    yield from _table(list(SCENARIO_KEYS.items()))


def _scenario_lines(key: str) -> Iterable[str]:
    """The lines of scenario keys whose full name or last part is ``key``."""
    for name, meaning in SCENARIO_KEYS.items():
        if key in (name, name.rpartition(".")[2]) and key != "config":
            yield f"{click.style(name, bold=True)}  {meaning}"


def _draws() -> Iterable[str]:
    yield f"random values of a scenario: draws = one of {', '.join(SETS)}, or a table that also changes single draws:"
    yield "  [draws]"
    yield '  set = "calm"'
    yield '  poll.work = "lognormal median=500ms p99=5s"'
    yield HOW
    yield from _table([(name, row.life, row.what) for name, row in DRAWS.items()])


def _draw_lines(key: str) -> Iterable[str]:
    """The lines of one draw: its values in both sets of draws, and its source."""
    if key in DRAWS:
        row = DRAWS[key]
        yield f"{click.style(key, bold=True)}  {row.what}"
        yield f"  life: {row.life}"
        yield f"  calm: {row.calm}"
        yield f"  source: {row.source}"


def _config_table(name: str) -> Callable[[], Iterable[str]]:
    def lines() -> Iterable[str]:
        place, cls = CONFIGS[name]
        yield f"written in {place}"
        rows = [
            (key, _said(_default(cls, field)), source_of(field))
            for key, field in fields_of(cls).items()
            if key not in SET_BY_SCENARIO
        ]
        yield from _table(rows)

    return lines


def _default(cls: type, field: FrozenField) -> object:
    return getattr(EARLIEST, field.name) if cls is ConsumerConfig else field.default


def _said(item: object) -> str:
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, tuple):
        return ",".join(item)
    return "unset" if item is None else '""' if item == "" else str(item)


def _config_lines(key: str) -> Iterable[str]:
    if key in ALIASES:
        yield f"{click.style(key, bold=True)}  another name of {ALIASES[key]} (KIP-435)"
        key = ALIASES[key]
    for place, cls in CONFIGS.values():
        field = fields_of(cls).get(key)
        if field is not None and key in SET_BY_SCENARIO:
            yield f"{key}  cannot be set: {SET_BY_SCENARIO[key]}"
        elif field is not None:
            default = _said(_default(cls, field))
            here = f" (Kafka: {_said(field.default)})" if default != _said(field.default) else ""
            yield f"{click.style(key, bold=True)}  in {place}"
            yield f"  default {default}{here}"
            yield f"  source  {source_of(field)}"


def _group_config_lines(key: str) -> Iterable[str]:
    """The lines of a setting of one group, which overrides the brokers' setting."""
    if key in GROUP_KEYS:
        broker_key = GROUP_KEYS[key]
        field = fields_of(BrokerConfig)[broker_key]
        yield f'{click.style(key, bold=True)}  a setting of one group, in ms: do = "alter-configs" with group'
        yield f"  overrides  {broker_key} of [brokers.config]"
        yield f"  default    {_said(field.default)}, that of {broker_key}"
        yield f"  source     {source_of(field)}"


def _actions_table(workload: bool) -> Callable[[], Iterable[str]]:
    def lines() -> Iterable[str]:
        yield from _table([(kind, row.summary) for kind, row in ACTIONS.items() if row.workload is workload])

    return lines


def _action_lines(kind: str) -> Iterable[str]:
    row = ACTIONS.get(kind)
    if row is None:
        return
    yield f"{click.style(kind, bold=True)}: {row.summary}"
    yield ""
    yield from (f"  {line}" for line in inspect.cleandoc(row.cls.__doc__ or "").splitlines())
    yield ""
    if row.replicated is not None:
        yield (
            "  only with [brokers.replication]"
            if row.replicated
            else (f"  only without [brokers.replication]; with it write {row.instead}")
        )
        yield ""
    yield "  in a scenario file:"
    yield "    [[plan]]"
    yield '    at = "30s"'
    yield f'    do = "{kind}"'
    for field in keys_of(row.cls):
        yield f"    {_field_line(field)}"


def _field_line(field: Key) -> str:
    """The line of a field in a scenario file, with a comment that lists the accepted values."""
    said = _accepted(field)
    if field.required:
        return f"{field.key} = ...   # {said}"
    default = duration_text(field.default) if field.duration else field.default
    return f"{field.key} = ...   # {said}; default {_said(default)}"


def _accepted(field: Key) -> str:
    if isinstance(field.accepts, OneOf):
        return " or ".join(word for word in field.accepts.words if word)
    if isinstance(field.accepts, HostNames):
        kind = "host" if field.accepts.kind == "any" else field.accepts.kind
        return kind if field.annotation is str else f"list of {kind}s"
    if isinstance(field.accepts, NameOf):
        said = {"API": "API, such as SyncGroup", "message": "message, such as SyncGroup or SyncGroupReply"}
        return said.get(field.accepts.what, f"name of a {field.accepts.what}")
    if field.duration:
        return "duration"
    if field.rate:
        return "rate"
    plain = {int: "number", bool: "true or false", str: "text", ErrorCode: "error code"}
    return plain.get(field.annotation, "list of names")


def _checker_names() -> list[str]:
    from kemu.emulator.checkers import CHECKERS

    return list(CHECKERS)


def _checker_lines(name: str) -> Iterable[str]:
    from kemu.emulator.checkers import CHECKERS

    if name in CHECKERS:
        yield f"{click.style(name, bold=True)}:"
        theory = inspect.getdoc(inspect.getmodule(CHECKERS[name])) or ""
        yield from (f"  {line}".rstrip() for line in theory.splitlines())
        yield f"kinds of violations, for the key expect: {', '.join(CHECKERS[name].kinds)}"


def _violation_kinds() -> list[str]:
    from kemu.emulator.findings import kinds_by_checker

    return [kind for kinds in kinds_by_checker().values() for kind in kinds]


def _violation_lines(kind: str) -> Iterable[str]:
    from kemu.emulator.findings import STAYS_BLOCKED, kinds_by_checker

    for checker, kinds in kinds_by_checker().items():
        if kind in kinds:
            yield f"{click.style(kind, bold=True)} is a kind of violation of the checker {checker}"
            if why := STAYS_BLOCKED.get((checker, kind)):
                yield f"as in Kafka: {why}."
            yield from _checker_lines(checker)


def _checkers() -> Iterable[str]:
    from kemu.emulator.checkers import CHECKERS

    yield from _table([(name, _first_line(inspect.getmodule(cls))) for name, cls in CHECKERS.items()])


def _figures() -> Iterable[str]:
    width, units = max(map(len, FIGURES)), max(len(each.unit) for each in FIGURES.values())
    for name, each in FIGURES.items():
        yield f"{name:{width}}  {each.unit:{units}}  {each.meaning}"


def _figure_lines(key: str) -> Iterable[str]:
    """The lines of figures by name, by column or by the start of a name, such as "downtime"."""
    if key in CONSUMER_METRICS:
        yield f"{click.style(key, bold=True)}  {CONSUMER_METRICS[key]}"
    exact = [each for name, each in FIGURES.items() if key in (name, each.column)]
    for each in exact or [each for name, each in FIGURES.items() if name.startswith(f"{key}_")]:
        yield f"{click.style(each.name, bold=True)}  {each.meaning}"
        if each.how:
            yield f"  {each.how}"
        yield f"  unit: {each.unit or 'a count'}; better: {each.better}"
        if each.column:
            headline = f', column "{each.headline}" of the summary headline' if each.headline else ""
            yield f'  column "{each.column}" of the table runs{headline}'


def _profiles() -> Iterable[str]:
    from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

    default = {DEFAULT_PROFILE: " (the default)"}
    yield from _table([(name, f"{profile.summary}{default.get(name, '')}") for name, profile in PROFILES.items()])


def _bugs() -> Iterable[str]:
    yield from _table([(bug.issue, bug.summary) for bug in PAST_BUGS.values()])


def _bug_lines(issue: str) -> Iterable[str]:
    if issue in PAST_BUGS:
        bug = PAST_BUGS[issue]
        yield f"{click.style(issue, bold=True)}: {bug.summary}"
        yield f"  of {bug.where.value}, fixed in Kafka {bug.fixed_in}; {bug.caught_by} reports the bug as {bug.kind}"
        yield f"  was: {bug.was}; today: {bug.today}"
        yield ""
        yield "  in a scenario file:"
        yield f'    bugs = ["{issue}"]'
        yield f'  "kemu bugs {issue}" shows the effect'


def _cause_names() -> list[str]:
    from kemu.tools.diagnosis.diagnose import MEANS

    return list(MEANS)


def _causes() -> Iterable[str]:
    from kemu.tools.diagnosis.diagnose import MEANS

    yield from _table(list(MEANS.items()))


def _cause_lines(key: str) -> Iterable[str]:
    from kemu.tools.diagnosis.causes import CAUSES
    from kemu.tools.diagnosis.diagnose import MEANS

    if key in MEANS:
        yield f"{click.style(key, bold=True)}: {MEANS[key]}"
        for remedy in CAUSES[key].addressed_by if key in CAUSES else ():
            yield f"  {remedy.kind}: {remedy.text} [{remedy.source}]"


def _errors() -> Iterable[str]:
    yield from _table([(f"{code.value}", code.name) for code in ErrorCode])


def _exits() -> Iterable[str]:
    yield from _table([(f"{code}", meaning) for code, meaning in MEANING.items()])


def _first_line(cls: object) -> str:
    return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]


TOPICS: Mapping[str, Callable[[], Iterable[str]]] = {
    "scenario": _scenario,
    "draws": _draws,
    "consumer": _config_table("consumer"),
    "broker": _config_table("broker"),
    "producer": _config_table("producer"),
    "replica": _config_table("replica"),
    "controller": _config_table("controller"),
    "faults": _actions_table(workload=False),
    "actions": _actions_table(workload=True),
    "checkers": _checkers,
    "figures": _figures,
    "profiles": _profiles,
    "bugs": _bugs,
    "causes": _causes,
    "errors": _errors,
    "exits": _exits,
}
"""Topic -> a function that returns the lines of the topic's list."""

CONSUMER_METRICS: Mapping[str, str] = {
    "num.incompatible.rebalance": "count per client of generations in which members of V0 and V1 met "
    "(KIP-429 page v99); the report of a run and Figures.num_incompatible_rebalance have it"
}
"""Consumer metric -> meaning, for metrics that a KIP names and that no release of Kafka has."""

EXPLAINED = (
    *(_scenario_lines, _draw_lines, _config_lines, _group_config_lines, _action_lines, _checker_lines),
    *(_figure_lines, _bug_lines, _cause_lines, _violation_lines),
)
"""Functions that explain a single key; each function yields no line for an unknown key."""
