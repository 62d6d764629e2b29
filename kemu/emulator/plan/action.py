"""The declaration of an action: one value class with its fields, check, words, effect and random form.

``@action`` makes a class recordable and registers the class. The type checker refuses a class without ``words``,
``check``, ``apply`` or a random form. The type of a field declares the accepted values: ``host: AnyHost``, ``group:
GroupName``, ``mode: Annotated[str, OneOf("power", "process")]``. The end of a field's name is the unit. ``for_us`` is
in microseconds, and a file has ``for = "20s"``; for ``records_per_s`` a file has ``rate = "5/s"``.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar, dataclass_transform

import attrs

from kemu.emulator.plan.draw import Draw
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table
from kemu.emulator.text.units import duration_text
from kemu.protocol.frozen import frozen, frozen_fields
from kemu.protocol.wire.schema import STRUCTS, since
from kemu.protocol.wire.values import value

ANYONE = ""


class Action(Protocol):
    """An operation on a running cluster, as a frozen, recordable value."""

    def words(self) -> str:
        """A unique description of the action: "crash b0 (power) for 20s"."""

    def check(self, table: Table, known: Known) -> None:
        """Report problems of the fields' combination to the table."""

    def apply(self, stage: Stage) -> Outcome:
        """Carry out the action now. Return None, or the reason for no effect."""


def lasts(action: Action) -> bool:
    """Whether the action lasts until a ``FaultEnded``. A crash without a restart has no ``FaultEnded``."""
    for_us: int | None = getattr(action, "for_us", None)
    return for_us is not None and (for_us > 0 or not hasattr(action, "mode"))


def nothing_more(self: object, table: Table, known: Known) -> None:
    """The ``check`` of actions whose fields need no further check."""


Drawn: TypeAlias = Callable[[Draw], Action]
NEVER: tuple[Drawn, ...] = ()
"""The random form of actions that random plans never draw."""
Given: TypeAlias = Mapping[str, Any]
"""The unchecked plain form of an entry, as in a file."""


def nothing_new(known: Known, given: Given) -> Known:
    """The ``brings`` of actions that create nothing."""
    return known


@frozen(kw_only=True)
class ActionKind:
    """The declaration of an action, one row of ``ACTIONS``.

    ``kind``: name in scenario files. ``summary``: the effect in one line. ``drawn``: random forms, all equally likely.
    ``drawn_replicated``: forms drawn only where brokers replicate. ``workload``: an operation of operators and users,
    not a fault.

    ``replicated``: True for an action only with ``[brokers.replication]``, False for an action only without; None for
    both. ``instead``: the action to use where this action is refused. ``brings``: adds the created names to ``Known``.
    """

    cls: type[Action]
    kind: str
    summary: str
    drawn: tuple[Drawn, ...]
    drawn_replicated: tuple[Drawn, ...] = ()
    workload: bool = False
    replicated: bool | None = None
    instead: str = ""
    brings: Callable[[Known, Given], Known] = nothing_new


KINDS: dict[type, ActionKind] = {}
"""Every action that ``@action`` declared, by class."""
ACTIONS: dict[str, ActionKind] = {}
"""Every action that ``@action`` declared, by kind."""

AnyAction = TypeVar("AnyAction", bound=Action)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(since,))
def action(
    kind: str,
    summary: str,
    *,
    drawn: tuple[Drawn, ...],
    drawn_replicated: tuple[Drawn, ...] = (),
    workload: bool = False,
    replicated: bool | None = None,
    instead: str = "",
    brings: Callable[[Known, Given], Known] = nothing_new,
) -> Callable[[type[AnyAction]], type[AnyAction]]:
    """Declare an action; the arguments are the fields of its ``ActionKind``."""

    def declare(cls: type[AnyAction]) -> type[AnyAction]:
        made = value(cls)
        assert kind not in ACTIONS, f"two actions are called {kind}"
        KINDS[made] = ACTIONS[kind] = ActionKind(
            cls=made,
            kind=kind,
            summary=summary,
            drawn=drawn,
            drawn_replicated=drawn_replicated,
            workload=workload,
            replicated=replicated,
            instead=instead,
            brings=brings,
        )
        return made

    return declare


def kind_of(item: Action) -> str:
    """The name of an action in scenario files: "crash" for a ``Crash``."""
    return KINDS[type(item)].kind


# --- fields --------------------------------------------------------------------------------------------------------


@frozen
class HostNames:
    """A host by name or role, or a list of them; ``kind``: "any", "member" or "broker"."""

    kind: str = "any"


@frozen
class NameOf:
    """A name of the scenario. ``what``: "group", "topic", "profile", "API" (requests) or "message" (requests and
    replies).

    ``internal``: whether names of internal topics are accepted, too.
    """

    what: str
    internal: bool = False


@frozen(init=False)
class OneOf:
    """A value that must be one of these words."""

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        self.__attrs_init__(words)


@frozen
class Bounds:
    """A whole number from ``least`` to ``most``."""

    least: int = 1
    most: int = 10_000_000


Accepts: TypeAlias = HostNames | NameOf | OneOf | Bounds

AnyHost = Annotated[str, HostNames()]
AnyHosts = Annotated[tuple[str, ...], HostNames()]
MemberHost = Annotated[str, HostNames("member")]
MemberHosts = Annotated[tuple[str, ...], HostNames("member")]
BrokerHost = Annotated[str, HostNames("broker")]
BrokerHosts = Annotated[tuple[str, ...], HostNames("broker")]
GroupName = Annotated[str, NameOf("group")]
TopicName = Annotated[str, NameOf("topic")]
AnyTopicName = Annotated[str, NameOf("topic", internal=True)]
"""The name of a topic, or ``__consumer_offsets``."""
ProfileName = Annotated[str, NameOf("profile")]
Api = Annotated[str, NameOf("API")]
MessageName = Annotated[str, NameOf("message")]
"""The name of a request or its reply: "SyncGroup", "SyncGroupReply"."""
Count = Annotated[int, Bounds()]


@frozen
class Key:
    """One field of an action and its key in scenario files: "for" for ``for_us``, "rate" for ``records_per_s``.

    ``accepts``: the restriction of the values beyond ``annotation``; None without a restriction.
    """

    name: str
    key: str
    annotation: Any
    default: Any
    accepts: Accepts | None

    @property
    def required(self) -> bool:
        """Whether the key has no default."""
        return self.default is attrs.NOTHING

    @property
    def duration(self) -> bool:
        """Whether the key is a duration, in microseconds."""
        return self.name.endswith("_us")

    @property
    def rate(self) -> bool:
        """Whether the key is a rate per second."""
        return self.name == "records_per_s"


@cache
def keys_of(cls: type) -> tuple[Key, ...]:
    """The fields of an action, in order of declaration."""
    written = {each.name: each.type for each in frozen_fields(cls)}
    return tuple(
        Key(
            name=spec.name,
            key="rate" if spec.name == "records_per_s" else spec.name.removesuffix("_us"),
            annotation=spec.annotation,
            default=spec.default,
            accepts=next(iter(getattr(written[spec.name], "__metadata__", ())), None),
        )
        for spec in STRUCTS[cls]
    )


# --- words and hosts that many actions need ------------------------------------------------------------------------


def for_words(for_us: int, endless: str = " until healed") -> str:
    """The duration as text: " for 20s"; ``endless`` for 0."""
    return f" for {duration_text(for_us)}" if for_us else endless
