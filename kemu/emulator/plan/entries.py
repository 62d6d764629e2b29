"""The plan of a run: actions with their times or triggers. A plan is pure data, written in a scenario or drawn from a
seed.

An entry is due at a time (``At``) or after a trigger (``When``), and takes effect at most once.

The plain form, in files and traces::

    {"at": "30s", "do": "crash", "host": "b0", "for": "20s"}
    {"when": {"sends": "SyncGroup", "by": "leader of g"}, "after": "5ms", "do": "crash", "host": "leader of g"}
    {"when": {"noted": "GroupBecame", "group": "g", "new": "Stable", "nth": 2}, "do": "heal"}
"""

from typing import Any, TypeAlias, overload

import attrs

from kemu.emulator.plan.action import Action, Key, keys_of, kind_of
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import duration_text, microseconds
from kemu.emulator.text.wrong_arguments import names_arguments
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen

FieldValue: TypeAlias = tuple[str, str | int | bool | None]


@frozen(kw_only=True)
class Sends:
    """The ``nth`` time that a host sends a message of this API.

    ``api``: Kafka's name of a request ("SyncGroup") or of a reply ("SyncGroupReply"). ``by``, ``to``: hosts or roles;
    "" for any host. ``generation``: only messages of this generation.
    """

    api: str
    by: str = ""
    to: str = ""
    nth: int = 1
    generation: int | None = None


@frozen(kw_only=True)
class Receives:
    """The ``nth`` time that a message of this API is about to be delivered to a host.

    The host receives the message if the host still runs after the action. ``by`` is the receiver, ``to`` the sender (in
    files: ``from``).
    """

    api: str
    by: str = ""
    to: str = ""
    nth: int = 1
    generation: int | None = None


@frozen(kw_only=True)
class Noted:
    """The ``nth`` time that a machine reports a note, or the world a fact, of this type with all of these field values.

    Error codes are given by name ("ILLEGAL_GENERATION").
    """

    note: str
    nth: int = 1
    fields: tuple[FieldValue, ...] = ()


Trigger: TypeAlias = Sends | Receives | Noted


SHORTEST_BARE_US = 1_000_000
"""``At`` refuses a smaller bare number as a time, because the author may have meant seconds or milliseconds."""


@names_arguments
@frozen(init=False)
class At:
    """Perform an action at a virtual time: ``At("30s", Crash(host="c1"))``, or ``At(at_us=30_000_000, action=...)``.

    Raises:
        ScenarioError: the time is a bare number below one second.
    """

    at_us: int = attrs.field(converter=microseconds)
    action: Action
    jitter_us: int = attrs.field(default=0, converter=microseconds, kw_only=True)
    """The largest random delay of the action, drawn uniformly; 0 for the draw ``plan.jitter``."""

    @overload
    def __init__(self, at: str, action: Action, *, jitter_us: int | str = 0) -> None: ...

    @overload
    def __init__(self, *, at_us: int | str, action: Action, jitter_us: int | str = 0) -> None: ...

    def __init__(self, at: Any = None, action: Any = None, *, at_us: Any = None, jitter_us: Any = 0) -> None:
        if action is None or (at is None) is (at_us is None):
            raise TypeError('At takes a time and an action: At("30s", kemu.Heal())')
        if isinstance(at, int) and 0 < at < SHORTEST_BARE_US:
            text = f'At({at}, ...) would be {at} microseconds: write "{at}s" for seconds, or at_us={at}, action=...'
            raise ScenarioError([Problem((), text)])
        self.__attrs_init__(at if at_us is None else at_us, action, jitter_us=jitter_us)


@names_arguments
@frozen
class When:
    """Perform an action ``after`` the step that shows the trigger."""

    trigger: Trigger
    action: Action
    after_us: int = attrs.field(default=0, converter=microseconds, kw_only=True)
    jitter_us: int = attrs.field(default=0, converter=microseconds, kw_only=True)
    """The largest random delay of the action, as in ``At``."""


Entry: TypeAlias = At | When
Plan: TypeAlias = tuple[Entry, ...]


# --- plain form -----------------------------------------------------------------------------------------------------


def plan_to_dicts(plan: Plan) -> list[dict[str, Any]]:
    """The plain form of a plan, without default values."""
    return [entry_to_dict(entry) for entry in plan]


def entry_to_dict(entry: Entry) -> dict[str, Any]:
    """The plain form of an entry, without default values."""
    given: dict[str, Any] = {}
    if isinstance(entry, At):
        given["at"] = _plain_time(entry.at_us)
    else:
        given["when"] = _trigger_dict(entry.trigger)
        if entry.after_us:
            given["after"] = _plain_time(entry.after_us)
    if entry.jitter_us:
        given["jitter"] = _plain_time(entry.jitter_us)
    given["do"] = kind_of(entry.action)
    for key in keys_of(type(entry.action)):
        item = getattr(entry.action, key.name)
        if key.required or item != key.default:
            given[key.key] = _plain_field(key, item)
    return given


def _trigger_dict(trigger: Trigger) -> dict[str, Any]:
    nth = {"nth": trigger.nth} if trigger.nth != 1 else {}
    if isinstance(trigger, Noted):
        return {"noted": trigger.note, **{name: _plain(wanted) for name, wanted in trigger.fields}, **nth}
    given: dict[str, Any] = {"sends" if isinstance(trigger, Sends) else "receives": trigger.api}
    other = "to" if isinstance(trigger, Sends) else "from"
    given |= {name: item for name, item in (("by", trigger.by), (other, trigger.to)) if item}
    if trigger.generation is not None:
        given["generation"] = trigger.generation
    return given | nth


def _plain_field(key: Key, item: Any) -> Any:
    if key.duration:
        return _plain_time(item)
    return f"{item}/s" if key.rate and isinstance(item, int) else _plain(item)


def _plain_time(item: Any) -> Any:
    """A time in plain form. Texts such as "20s" and invalid values are returned unchanged; the reader refuses invalid
    values.
    """
    return duration_text(item) if isinstance(item, int) and item >= 0 else item


def _plain(item: Any) -> Any:
    if isinstance(item, ErrorCode):
        return item.name
    return list(item) if isinstance(item, tuple) else item
