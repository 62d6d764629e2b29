"""Conditions on the present state of a run, for the verb ``wait``.

``group payments Stable members=2``, ``group payments lag<=10``, ``partition orders-0 leader=b1 isr=3``,
``broker b1 up``, ``client app connections>=1``, ``host c1 down``. Short forms: ``lag payments 0`` (at most 0),
``leader orders-0`` (any leader), ``leader orders-0 b1``, ``isr orders-0 3``.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kemu.emulator.control.state import DOWN, PAUSED, UNKNOWN, UP, LiveState, numbers
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.protocol.frozen import frozen
from kemu.protocol.names import TopicPartition, client_host, client_of

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_TEST = re.compile(r"([a-z_]+)(<=|>=|!=|=|<|>)(.+)")
_STATES = (UP, PAUSED, DOWN)
GROUP_STATES = (
    *("Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead"),
    UNKNOWN,
)
NONE = "none"
"""The value of a condition for "no leader" or "no coordinator"."""

FIELDS: Mapping[str, Sequence[str]] = {
    "group": ("state", "members", "generation", "lag", "coordinator"),
    "partition": ("leader", "isr", "epoch", "start", "end"),
    "broker": ("state", "life"),
    "host": ("state", "life"),
    "client": ("state", "connections", "life"),
}
"""Subject of a condition -> the fields that a condition can compare. ``isr`` and ``connections`` are numbers."""
_TEXTS = ("state", "coordinator", "leader")


def refused(text: str) -> ScenarioError:
    """The error of a wrong order."""
    return ScenarioError([Problem((), text)])


@frozen
class FieldComparison:
    """One comparison of a condition: ``members=2``."""

    field: str
    sign: str
    value: str | int

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Whether the comparison is true for the fields of a subject."""
        return _OPERATORS[self.sign](NONE if fields[self.field] is None else fields[self.field], self.value)


@frozen
class StateCondition:
    """A condition on a group, a partition or a host."""

    text: str
    subject: str
    name: str
    comparisons: tuple[FieldComparison, ...]

    def look(self, state: LiveState) -> tuple[bool, str]:
        """Whether the condition holds now, and the present fields of the subject as text."""
        fields = numbers(_seen(state, self.subject, self.name))
        said = ", ".join(f"{key} {NONE if fields[key] is None else fields[key]}" for key in FIELDS[self.subject])
        return all(each.holds(fields) for each in self.comparisons), f"{self.subject} {self.name}: {said}"


def read_condition(text: str, state: LiveState) -> StateCondition:
    """Return the condition of a text.

    Raises:
        ScenarioError: the text is no condition; the error names the word.
    """
    words = text.split()
    subject, name, *rest = _long_form(words)
    if subject not in FIELDS:
        raise refused(f'"{subject}" is no subject of a condition{nearest(subject, [*FIELDS, "lag", "leader", "isr"])}')
    if not name:
        raise refused(f'"{text}" names no {subject}: write "{subject} NAME", such as "{_EXAMPLES[subject]}"')
    _check_name(subject, name, state)
    comparisons = tuple(_comparison(subject, word) for word in rest)
    if not comparisons:
        raise refused(f'"{text}" compares nothing: write "{_EXAMPLES[subject]}"')
    return StateCondition(" ".join(words), subject, name, comparisons)


_EXAMPLES = {
    "group": "group payments Stable members=2",
    "partition": "partition orders-0 leader=b1",
    "broker": "broker b1 up",
    "host": "host c1 down",
    "client": "client app connections>=1",
}


def _long_form(words: Sequence[str]) -> list[str]:
    subject, name, *rest = [*words, "", ""][: max(len(words), 2)]
    match subject, rest:
        case "lag", [most]:
            return ["group", name, f"lag<={most}"]
        case "leader", []:
            return ["partition", name, f"leader!={NONE}"]
        case "leader", [broker]:
            return ["partition", name, f"leader={broker}"]
        case "isr", [count]:
            return ["partition", name, f"isr={count}"]
        case _:
            return [subject, name, *rest]


def _comparison(subject: str, word: str) -> FieldComparison:
    found, fields = _TEST.fullmatch(word), FIELDS[subject]
    if found is None:
        states = GROUP_STATES if subject == "group" else _STATES
        if "state" in fields and word in states:
            return FieldComparison("state", "=", word)
        raise refused(f'"{word}" is no state and no comparison of a {subject}{nearest(word, (*states, *fields))}')
    key, sign, given = found.groups()
    if key not in fields:
        raise refused(f'"{key}" is no field of a {subject}{nearest(key, fields)}')
    if key in _TEXTS:
        if sign not in ("=", "!="):
            raise refused(f'"{word}": {key} is a text, so only "=" and "!=" compare it')
        return FieldComparison(key, sign, given)
    if re.fullmatch(r"-?[0-9]{1,18}", given) is None:
        raise refused(f'"{word}": {key} must be a whole number')
    return FieldComparison(key, sign, int(given))


def _check_name(subject: str, name: str, state: LiveState) -> None:
    """Refuse an unknown name. Groups may come later, because real clients form groups that no scenario names."""
    known: Mapping[str, Callable[[], list[str]]] = {
        "partition": state.partitions,
        "broker": state.brokers,
        "host": state.hosts,
        "client": lambda: [client_of(host) for host in state.clients()],
    }
    if subject in known and name not in (names := known[subject]()):
        raise refused(f'"{name}" is no {subject}{nearest(name, names)}')


def partition_at(name: str) -> TopicPartition:
    """The partition with this name: ("orders", 0) for "orders-0"."""
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def _seen(state: LiveState, subject: str, name: str) -> Mapping[str, Any]:
    match subject:
        case "group":
            return state.group(name)
        case "partition":
            return state.partition(partition_at(name))
        case "client":
            return state.client(client_host(name))
        case _:
            return state.host(name)
