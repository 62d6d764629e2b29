"""The plan of a run: what is done when. Pure data, written in a scenario or drawn from a seed.

An entry is due at a time (``At``) or when something is seen (``When``); every entry fires at most once. A run is
repeated from its plan, and a failure is shrunk by removing entries from it.
"""

from typing import TypeAlias

from attrs import field, frozen

from emulator.faults import Action

Field: TypeAlias = tuple[str, str | int | bool | None]


@frozen(kw_only=True)
class Sends:
    """The ``nth`` time that a host sends a message of this API.

    ``api``: Kafka's name ("SyncGroup"); with "Reply" at its end, the answers. ``by``, ``to``: hosts, also by role;
    "" is any. ``generation``: only messages that carry this one.
    """

    api: str
    by: str = ""
    to: str = ""
    nth: int = 1
    generation: int | None = None


@frozen(kw_only=True)
class Receives:
    """The ``nth`` time that a message of this API is about to be handed to a host (it is, if it still runs then)."""

    api: str
    by: str = ""
    to: str = ""
    nth: int = 1
    generation: int | None = None


@frozen(kw_only=True)
class Noted:
    """The ``nth`` time that a machine reports this note with all of these field values."""

    note: str
    nth: int = 1
    fields: tuple[Field, ...] = ()


Trigger: TypeAlias = Sends | Receives | Noted


@frozen
class At:
    """Do it at this time of the world."""

    at_us: int
    action: Action


@frozen
class When:
    """Do it as soon as the trigger is seen (after the step that shows it), or this much later."""

    trigger: Trigger
    action: Action
    after_us: int = field(default=0, kw_only=True)


Entry: TypeAlias = At | When
Plan: TypeAlias = tuple[Entry, ...]
