"""The kinds of values in a scenario. A kind reads, checks, writes and describes values.

The kind follows from the field's type and name (``kind_of``). ``take`` converts a value of a file to a value of the
field. ``wrong`` checks the value of a field, from a file or from Python. Durations are integers in us in a field, and
texts ("20s") in a file.
"""

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, Union, get_args, get_origin

from kemu.emulator.draws import LIFE, DrawSet
from kemu.emulator.plan.entries import Plan, plan_to_dicts
from kemu.emulator.text.kafka_keys import (
    CHOICES,
    SET_BY_SCENARIO,
    Settings,
    assignor_problems,
    fields_of,
    read_settings,
    settings_dict,
)
from kemu.emulator.text.tables import Path, Problem, ScenarioError, Table, flatten, nearest, no_string, said_of
from kemu.emulator.text.units import (
    DURATION,
    RATE,
    THROUGHPUT,
    bytes_per_second,
    duration_text,
    duration_us,
    per_second,
    throughput_text,
    words,
)
from kemu.protocol.config import source_of
from kemu.protocol.draws import DRAWS, HOW, READABLE, SETS, UUIDS, DrawName, distribution
from kemu.protocol.dynamic_configs import ALIASES
from kemu.protocol.frozen import FrozenField, frozen, is_frozen

Wrong: TypeAlias = Iterator[tuple[Path, str]]
"""Mistakes: (path below the key, text)."""
Schema: TypeAlias = dict[str, Any]


@frozen(kw_only=True)
class ValueBounds:
    """Bounds of the values of a key; see ``emulator.scenario.keys.key``."""

    at_least: int | None = None
    at_most: int | None = None
    choices: Callable[[], Iterable[str]] | None = None
    what: str = ""
    config: type | None = None

    def outside(self, value: int, said: Callable[[int], str] = str) -> str:
        """Return the mistake in a number; "" for a correct number."""
        if self.at_least is not None and value < self.at_least:
            return f"must be at least {said(self.at_least)}, not {said(value)}"
        if self.at_most is not None and value > self.at_most:
            return f"must be at most {said(self.at_most)}, not {said(value)}"
        return ""

    def unknown(self, name: str) -> str:
        """Return the mistake in a name; "" for a correct name."""
        names = list(self.choices()) if self.choices else [name]
        return "" if name in names else f'"{name}" is no {self.what}{nearest(name, names)}'


class ValueKind(Protocol):
    """The interface of a kind of values."""

    wanted: str
    """Noun for messages about a missing key: "a whole number"."""
    suffix: str
    """Suffix of the key's name in a list of all keys: ".NAME" for tables by name."""
    closed: bool
    """Whether a list of all keys shows a table as one key."""

    def take(self, given: object) -> Any:
        """Convert a value of a file to a value of the field.

        Raises:
            ValueError: the value is of another kind; the text names the required kind.
        """
        ...

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        """Yield the mistakes in a field's value."""
        ...

    def plain(self, value: Any) -> Any:
        """Convert a correct value of the field to a value of a file."""
        ...

    def schema(self, limits: ValueBounds) -> Schema:
        """Return the JSON Schema of values in a file, with references to tables of other classes."""
        ...

    def harmless(self, limits: ValueBounds) -> Any:
        """Return a valid value that replaces a wrong value of a required key while other keys are checked."""
        ...

    def below(self) -> type | None:
        """Return the class of the table or tables; None for kinds without tables."""
        ...


class _Leaf:
    wanted = "a value"
    suffix = ""
    closed = False

    def take(self, given: object) -> Any:
        return given

    def plain(self, value: Any) -> Any:
        return value

    def harmless(self, limits: ValueBounds) -> Any:
        raise AssertionError(f"no key of a scenario that must be given is of this kind: {type(self).__name__}")

    def below(self) -> type | None:
        return None


class TextKey(_Leaf):
    """A string, or one of the choices if the key has choices."""

    wanted = "a string"

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if not isinstance(value, str):
            yield (), no_string(value)
        elif said := limits.unknown(value):
            yield (), said

    def schema(self, limits: ValueBounds) -> Schema:
        return {"type": "string"} | ({"enum": list(limits.choices())} if limits.choices else {})

    def harmless(self, limits: ValueBounds) -> Any:
        return ""


class CountKey(_Leaf):
    """A whole number."""

    wanted = "a whole number"

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if isinstance(value, bool) or not isinstance(value, int):
            yield (), f"must be a whole number, not {said_of(value)}"
        elif said := limits.outside(value):
            yield (), said

    def schema(self, limits: ValueBounds) -> Schema:
        bounds = {"minimum": limits.at_least, "maximum": limits.at_most}
        return {"type": "integer"} | {name: bound for name, bound in bounds.items() if bound is not None}

    def harmless(self, limits: ValueBounds) -> Any:
        return limits.at_least or 0


class FlagKey(_Leaf):
    """True or false."""

    wanted = "true or false"

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if not isinstance(value, bool):
            yield (), f"must be true or false, not {said_of(value)}"

    def schema(self, limits: ValueBounds) -> Schema:
        return {"type": "boolean"}


class DurationKey(_Leaf):
    """A duration: "20s" in a file, us in the field."""

    wanted = "a duration"

    def take(self, given: object) -> Any:
        if not isinstance(given, str):
            raise ValueError(f'must be a duration such as "250ms" or "20s", not {said_of(given)}')
        return duration_us(given)

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        yield from _wrong_duration(value, limits)

    def plain(self, value: Any) -> Any:
        return duration_text(value)

    def schema(self, limits: ValueBounds) -> Schema:
        return {"type": "string", "pattern": DURATION}


def _wrong_duration(value: Any, limits: ValueBounds) -> Wrong:
    if isinstance(value, str):
        try:
            value = duration_us(value)
        except ValueError as error:
            yield (), str(error)
            return
    if isinstance(value, bool) or not isinstance(value, int):
        yield (), f'must be a duration such as "250ms" or "20s", or whole microseconds, not {said_of(value)}'
    elif value < 0 or (limits.at_least == 1 and value == 0):
        yield (), "must be longer than nothing" if limits.at_least == 1 else f"must not be negative, not {value} us"
    elif said := limits.outside(value, duration_text):
        yield (), said


class LatencyKey(_Leaf):
    """The least and the most latency: ``"1ms"`` (both) or ``["500us", "2ms"]``."""

    wanted = "a duration"

    def take(self, given: object) -> Any:
        words = WordsKey().take(given)
        if not 1 <= len(words) <= 2:
            raise ValueError("is one duration, or the least and the most")
        return duration_us(words[0]), duration_us(words[-1])

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if not isinstance(value, tuple) or len(value) != 2:
            yield (), "is one duration, or the least and the most"
            return
        found = [said for bound in value for said in _wrong_duration(bound, limits)]
        yield from found
        if not found and value[0] > value[1]:
            yield (), "must give the least first, then the most"

    def plain(self, value: Any) -> Any:
        return [duration_text(bound) for bound in value]

    def schema(self, limits: ValueBounds) -> Schema:
        one = {"type": "string", "pattern": DURATION}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": 2}]}

    def harmless(self, limits: ValueBounds) -> Any:
        return "0s"


class ThroughputKey(_Leaf):
    """Bytes per second: "50MB/s" in a file, an integer in the field."""

    wanted = "a throughput"

    def take(self, given: object) -> Any:
        return bytes_per_second(given) if isinstance(given, str) else given

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if isinstance(value, str):
            try:
                value = bytes_per_second(value)
            except ValueError as error:
                yield (), str(error)
                return
        if isinstance(value, bool) or not isinstance(value, int):
            yield (), f'must be a throughput such as "50MB/s", not {said_of(value)}'
        elif said := limits.outside(value, throughput_text):
            yield (), said

    def plain(self, value: Any) -> Any:
        return throughput_text(value)

    def schema(self, limits: ValueBounds) -> Schema:
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": THROUGHPUT}]}


class RateKey(_Leaf):
    """Records per second: ``"100/s"``, ``"6000/m"`` or a number."""

    wanted = "a rate"

    def take(self, given: object) -> Any:
        if isinstance(given, str):
            return per_second(given)
        return given

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if isinstance(value, str):
            try:
                value = per_second(value)
            except ValueError as error:
                yield (), str(error)
                return
        if isinstance(value, bool) or not isinstance(value, int):
            yield (), f'must be a rate such as "100/s", not {said_of(value)}'
        elif said := limits.outside(value):
            yield (), said

    def plain(self, value: Any) -> Any:
        return f"{value}/s"

    def schema(self, limits: ValueBounds) -> Schema:
        return {"anyOf": [{"type": "string", "pattern": RATE}, CountKey().schema(limits)]}


class WordsKey(_Leaf):
    """A list of strings; in a file a string with commas is a list, too."""

    wanted = "a list of strings"

    def take(self, given: object) -> Any:
        if isinstance(given, str):
            return tuple(part.strip() for part in given.split(",") if part.strip())
        if not isinstance(given, list | tuple) or not all(isinstance(item, str) for item in given):
            raise ValueError(f"must be a list of strings, not {said_of(given)}")
        return tuple(given)

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
            yield (), f"must be a list of strings, not {said_of(value)}"
            return
        if limits.at_least is not None and len(value) < limits.at_least:
            yield (), f"needs at least one {limits.what}"
        for name in value:
            if said := limits.unknown(name):
                yield (), said

    def plain(self, value: Any) -> Any:
        return list(value)

    def schema(self, limits: ValueBounds) -> Schema:
        one: Schema = {"type": "string"} | ({"enum": list(limits.choices())} if limits.choices else {})
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": one, "minItems": limits.at_least or 0}]}

    def harmless(self, limits: ValueBounds) -> Any:
        return ["?"] if limits.at_least else []


class CountsKey(_Leaf):
    """A list of whole numbers; in a file a string with commas is a list, too."""

    wanted = "a list of whole numbers"

    def take(self, given: object) -> Any:
        if isinstance(given, str):
            given = [int(part) if re.fullmatch("[0-9]{1,19}", part) else part for part in words(given)]
        if not isinstance(given, list | tuple):
            raise ValueError(f"must be a list of whole numbers, not {said_of(given)}")
        return tuple(given)

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if not isinstance(value, tuple):
            yield (), f"must be a list of whole numbers, not {said_of(value)}"
            return
        for index, count in enumerate(value):
            yield from (((index, *path), text) for path, text in CountKey().wrong(count, limits))

    def plain(self, value: Any) -> Any:
        return list(value)

    def schema(self, limits: ValueBounds) -> Schema:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": CountKey().schema(limits)}]}


class AssignorsKey(WordsKey):
    """Assignors in order of preference: names, Kafka's class names, or ``module:Class`` of the user."""

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        found = list(super().wrong(value, limits))
        yield from found
        if not found:
            yield from (((), text) for text in assignor_problems(value))


class SettingsKey(_Leaf):
    """A table of Kafka's keys of a config class. With ``inside``, the table in a file is below the key ``inside``."""

    wanted = "a table"

    def __init__(self, cls: type, inside: str = "") -> None:
        self.config = cls
        self.inside = inside
        self.suffix = f".{inside}" if inside else ""

    def take(self, given: object) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError(f"must be a table, not {said_of(given)}")
        problems: list[Problem] = []
        table = Table(given, (), problems)
        if self.inside:
            outer, table = table, table.table(self.inside)
            outer.finish()
        settings = read_settings(table, self.config)
        if problems:
            raise ScenarioError(problems)
        return settings

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if isinstance(value, tuple):
            return
        try:
            self.take({self.inside: value} if self.inside else value)
        except ScenarioError as error:
            yield from ((problem.path, problem.text) for problem in error.problems)
        except ValueError as error:
            yield (), str(error)

    def plain(self, value: Settings) -> Any:
        found = settings_dict(self.config, value)
        return {self.inside: found} if self.inside else found

    def schema(self, limits: ValueBounds) -> Schema:
        settings = _settings_schema(self.config)
        if not self.inside:
            return settings
        return {"type": "object", "properties": {self.inside: settings}, "additionalProperties": False}


class TableKey(_Leaf):
    """A table with a class of its own."""

    wanted = "a table"

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def take(self, given: object) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError(f"must be a table, not {said_of(given)}")
        return given

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if value is not None and not isinstance(value, self.cls):
            yield (), f"must be a {self.cls.__name__}, not {said_of(value)}"

    def schema(self, limits: ValueBounds) -> Schema:
        return _reference(self.cls)

    def below(self) -> type | None:
        return self.cls


class NamedKey(TableKey):
    """Tables of one class by name. ``closed`` tables have names of hosts, and a list of all keys shows one key for
    these tables.
    """

    suffix = ".NAME"

    def __init__(self, cls: type, closed: bool) -> None:
        super().__init__(cls)
        self.closed = closed
        self.suffix = "" if closed else ".NAME"

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if not isinstance(value, Mapping):
            yield (), f"must be a table, not {said_of(value)}"
            return
        for name, item in value.items():
            if not isinstance(item, self.cls):
                yield (str(name),), f"must be a {self.cls.__name__}, not {said_of(item)}"

    def schema(self, limits: ValueBounds) -> Schema:
        return {"type": "object", "additionalProperties": _reference(self.cls)}


class TablesKey(TableKey):
    """A list of tables of one class."""

    wanted = "a list of tables"
    closed = True

    def take(self, given: object) -> Any:
        return _tables(given)

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if not isinstance(value, tuple) or not all(isinstance(item, self.cls) for item in value):
            yield (), f"must be a list of {self.cls.__name__}, not {said_of(value)}"

    def schema(self, limits: ValueBounds) -> Schema:
        return {"type": "array", "items": _reference(self.cls)}


class ExpectationsKey(TablesKey):
    """A list of tables. The name of a checker stands for a table with this name, and a string for a list of names."""

    wanted = "a list of tables"

    def take(self, given: object) -> Any:
        if isinstance(given, str):
            given = WordsKey().take(given)
        if not isinstance(given, list | tuple):
            raise ValueError(f"must be a list of tables or of names of checkers, not {said_of(given)}")
        return _tables([{"checker": each} if isinstance(each, str) else each for each in given])

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        for each in value:
            if isinstance(each, str):
                names = list(limits.choices()) if limits.choices else []
                yield (), f'"{each}" is no checker{nearest(each, names)}'
            elif not isinstance(each, self.cls):
                yield (), f"must be a list of {self.cls.__name__}, not {said_of(each)}"

    def schema(self, limits: ValueBounds) -> Schema:
        one: Schema = {"anyOf": [{"type": "string"}, _reference(self.cls)]}
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": one}]}


class DrawsKey(_Leaf):
    """The name of a set of draws, or a table with ``set`` and single draws by name."""

    wanted = "a name or a table"

    def take(self, given: object) -> Any:
        if isinstance(given, str | DrawSet):
            return DrawSet(given) if isinstance(given, str) else given
        if not isinstance(given, Mapping):
            raise ValueError(f"must be one of {', '.join(SETS)}, or a table, not {said_of(given)}")
        settings = {str(name): item for name, item in flatten(given).items()}
        chosen = settings.pop("set", LIFE)
        return DrawSet(chosen, tuple(sorted(settings.items())))

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        if not isinstance(value, DrawSet):
            yield (), f"must be one of {', '.join(SETS)}, or a table, not {said_of(value)}"
            return
        if value.name not in SETS:
            yield (), f'"{value.name}" is no set of draws{nearest(str(value.name), SETS)}'
        for name, text in value.settings:
            if name not in DRAWS:
                yield (name,), f"is no draw{nearest(name, DRAWS)}"
            elif name == DrawName.IDENTITY:
                if text not in (UUIDS, READABLE):
                    yield (name,), f'must be "{UUIDS}" or "{READABLE}", not {said_of(text)}'
            elif not isinstance(text, str):
                yield (name,), f"must be a string, not {said_of(text)}; {HOW}"
            else:
                try:
                    wanted = distribution(DRAWS[name].life)
                    if distribution(text).shares != wanted.shares:
                        yield (name,), f'is a {"share" if wanted.shares else "time"}, such as "{wanted.text}"'
                except ValueError as error:
                    yield (name,), str(error)

    def plain(self, value: DrawSet) -> Any:
        return value.name if not value.settings else {"set": value.name, **dict(value.settings)}

    def schema(self, limits: ValueBounds) -> Schema:
        one = {"enum": list(SETS)}
        table: Schema = {"type": "object", "properties": {"set": one}, "additionalProperties": False}
        for name, row in DRAWS.items():
            leaf: Schema = {"type": "string", "description": row.what, "default": row.life}
            if row.name is DrawName.IDENTITY:
                leaf["enum"] = [UUIDS, READABLE]
            *tables, last = name.split(".")
            table["properties"][name] = leaf
            place = table
            for part in tables:
                empty: Schema = {"type": "object", "properties": {}, "additionalProperties": False}
                place = place["properties"].setdefault(part, empty)
            place["properties"][last] = leaf
        return {"anyOf": [one, table]}


class PlanKey(_Leaf):
    """The plan; the tables of actions, triggers and notes define its entries."""

    wanted = "a list of tables"

    def take(self, given: object) -> Any:
        return _tables(given)

    def wrong(self, value: Any, limits: ValueBounds) -> Wrong:
        return iter(())  # the scenario checks the plan as a whole, because entries name hosts, groups and topics

    def plain(self, value: Plan) -> Any:
        return plan_to_dicts(value)

    def schema(self, limits: ValueBounds) -> Schema:
        return {"type": "array", "items": {"$ref": "#/$defs/Entry"}}


def kind_of(name: str, declared: Any, limits: ValueBounds) -> ValueKind:
    """Return the kind of a field's values."""
    if get_origin(declared) in (Union, types.UnionType):
        (declared,) = (each for each in get_args(declared) if each is not types.NoneType)
    origin, inner = get_origin(declared), get_args(declared)
    if limits.config is not None:
        return SettingsKey(limits.config, "config" if name == "producers" else "")
    if declared is int and name.endswith("_us"):
        return DurationKey()
    if declared is int and name.endswith("_bytes_per_s"):
        return ThroughputKey()
    if declared is int and name == "records_per_s":
        return RateKey()
    if declared == tuple[str, ...]:
        return AssignorsKey() if name == "assignors" else WordsKey()
    if declared == tuple[int, ...]:
        return CountsKey()
    if declared == tuple[int, int]:
        return LatencyKey()
    if declared is DrawSet:
        return DrawsKey()
    if is_frozen(declared):
        return TableKey(declared)
    if origin is Mapping or getattr(origin, "__name__", "") == "Mapping":
        return NamedKey(inner[1], closed=name == "overrides")
    if origin is tuple and is_frozen(inner[0]):
        return ExpectationsKey(inner[0]) if name == "expect" else TablesKey(inner[0])
    plain: Mapping[Any, ValueKind] = {int: CountKey(), bool: FlagKey(), str: TextKey()}
    return plain[declared] if declared in plain else PlanKey()


def _tables(given: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(given, list | tuple) or not all(isinstance(item, Mapping) for item in given):
        raise ValueError(f"must be a list of tables, not {said_of(given)}")
    return given


def _reference(cls: type) -> Schema:
    return {"$ref": f"#/$defs/{cls.__name__}"}


def _settings_schema(cls: type) -> Schema:
    """Return the schema of Kafka's keys, quoted ("a.b" = 1) or bare (a.b = 1, which TOML reads as nested tables)."""
    whole: Schema = {"type": "object", "properties": {}, "additionalProperties": False}
    fields = fields_of(cls)
    others = [(name, fields[key]) for name, key in ALIASES.items() if key in fields]
    for key, field in (*fields.items(), *others):
        if key in SET_BY_SCENARIO:
            continue
        leaf = {**_setting_schema(key, field), "description": source_of(field)}
        whole["properties"][key] = leaf
        *tables, last = key.split(".")
        place = whole
        for part in tables:
            empty: Schema = {"type": "object", "properties": {}, "additionalProperties": False}
            place = place["properties"].setdefault(part, empty)
        place["properties"][last] = leaf
    return whole


def _setting_schema(key: str, field: FrozenField) -> Schema:
    default: object = field.default
    if isinstance(default, bool):
        return {"type": ["boolean", "string"], "default": default}
    if isinstance(default, int) or field.type == int | None:
        number: Schema = {"type": "integer"} | ({} if isinstance(default, int) and default < 0 else {"minimum": 0})
        texts = DURATION if key.endswith((".ms", ".us")) else r"^-?\d+$"
        stated = {} if default is None else {"default": default}
        return {"anyOf": [number, {"type": "string", "pattern": texts}], **stated}
    if isinstance(default, tuple):
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}], "default": [*default]}
    enum = {"enum": list(CHOICES[key])} if key in CHOICES else {}
    return {"type": "string", **enum} | ({} if default is None else {"default": default})
