"""What can be done to a running cluster: faults, and the actions of its operators. Pure data; the world applies them.

Every action is a frozen, recordable value. ``FAULTS`` and ``ACTIONS`` are the tables of all of them, by the kind a
scenario file names. Three conventions hold throughout:

* Times are integer microseconds (``for_us``); in a scenario file the same field is ``for = "20s"``.
* ``for_us=0`` means "until healed" for whatever lasts, and "stays down" for a crash.
* A host is an actor's host ("c1", "b0") or is named by its role, resolved when the action is applied:
  "coordinator of g" (the broker that leads the group's offsets partition), "leader of g" (the member that assigns).
  Where a field says so, "" stands for every host.

What is not here on purpose: a network that reorders or duplicates packets. Kafka's links are TCP connections; a fault
that no such link can have would find bugs that Kafka does not have.
"""

from collections.abc import Mapping
from typing import TypeAlias

from kemu.emulator.plan.kinds import ANYONE, ActionKind
from kemu.emulator.plan.store_actions import CHOICES_OF_STORE, STORE_FAULTS, STORE_WORKLOAD, StoreAction
from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.values import value

# --- hosts ---------------------------------------------------------------------------------------------------------


@value
class Crash:
    """A host dies. ``power``: silently, unflushed disk writes lost; ``process``: its connections are reset at once.

    Neither says goodbye: no LeaveGroup, no commit. After ``for_us`` it starts again from its disk.
    """

    host: str
    mode: str = "power"
    for_us: int = 0


@value
class Restart:
    """A host that is down starts (one that runs is power cut first), from its disk or from an empty one."""

    host: str
    keep_disk: bool = True


@value
class Pause:
    """A host stands still (a stop-the-world collection): mail and timers wait for it, then come in order."""

    host: str
    for_us: int


@value
class ClockDrift:
    """A host's clock runs too fast (positive) or too slow by this many parts per million."""

    host: str
    ppm: int
    for_us: int = 0


@value
class LoseDiskTail:
    """A power cut that takes the last ``records`` records of one log ("" = of each) with it, flushed or not."""

    host: str
    records: int
    log: str = ""
    for_us: int = 0


# --- network -------------------------------------------------------------------------------------------------------


@value
class Isolate:
    """A host hears nothing of the others, nor they of it."""

    host: str
    for_us: int = 0


@value
class Split:
    """Two sides hear nothing of each other; ``one_way``: ``other`` hears nothing of ``side``, but is heard.

    An empty ``other`` is every host not in ``side``.
    """

    side: tuple[str, ...]
    other: tuple[str, ...] = ()
    one_way: bool = False
    for_us: int = 0


@value
class Slow:
    """Packets from ``sender`` to ``receiver`` ("" = any) take longer: by ``add_us`` and up to ``jitter_us`` more."""

    sender: str = ANYONE
    receiver: str = ANYONE
    add_us: int
    jitter_us: int = 0
    for_us: int = 0


@value
class Lossy:
    """Of 1,000 packets from ``sender`` to ``receiver`` ("" = any) this many are lost; each breaks its connection."""

    sender: str = ANYONE
    receiver: str = ANYONE
    per_mille: int
    for_us: int = 0


@value
class Hold:
    """Packets from ``sender`` to ``receiver`` ("" = any) are held back, and delivered in order when it ends.

    With ``api`` the hold begins at the first packet of that API; what follows it on the connection waits behind it.
    """

    sender: str = ANYONE
    receiver: str = ANYONE
    api: str = ""
    for_us: int = 0


@value
class Disconnect:
    """The connections between two hosts are reset; both may connect again at once."""

    a: str
    b: str


@value
class Duplicate:
    """The ``nth`` request of this API from ``sender`` ("" = anyone) is delivered, its reply lost with the connection.

    So the client's retry makes the server see the request twice: the only duplicate that TCP allows.
    """

    api: str
    sender: str = ANYONE
    nth: int = 1


# --- protocol ------------------------------------------------------------------------------------------------------


@value
class ErrorReply:
    """The server answers the ``nth`` request of this API from ``sender`` ("" = anyone) with an error, unexecuted."""

    api: str
    sender: str = ANYONE
    nth: int = 1
    error: ErrorCode


@value
class Heal:
    """All that lasts ends now: splits, rules, drifts, pauses; hosts that are to come back start."""


# --- what operators do ---------------------------------------------------------------------------------------------


@value
class StartHost:
    """Start a host that has not started yet, or was closed."""

    host: str


@value
class CloseHost:
    """End a host cleanly: a consumer commits and (when dynamic) leaves its group, a broker hands its partitions on."""

    host: str


@value
class RollingRestart:
    """Members of a group go down one after the other, ``every_us`` apart, each for ``down_us``.

    ``how``: "close" (a clean close, as a deployment does) or "crash" (killed).
    """

    group: str
    every_us: int
    down_us: int
    how: str = "close"


@value
class RollingUpgrade:
    """As a rolling restart, but members come back as another release or configured otherwise.

    ``hosts``: only these, in this order; none = all of the group, and members added later are like them. ``profile``:
    the release they become ("" = stays). ``assignors``: their new list (none = stays). ``settings``: consumer keys,
    each as "KEY=VALUE", on top of what they have.
    """

    group: str
    every_us: int
    down_us: int
    how: str = "close"
    hosts: tuple[str, ...] = ()
    profile: str = ""
    assignors: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


@value
class AddMembers:
    """The group gets more members, configured as the others."""

    group: str
    count: int = 1


@value
class RemoveMembers:
    """The group's youngest members close cleanly and do not come back."""

    group: str
    count: int = 1


@value
class GrowTopic:
    """The topic has this many partitions from now on."""

    topic: str
    partitions: int


@value
class SetRateOf:
    """The topic's producer appends this many records per second from now on, over all partitions (0 = none)."""

    topic: str
    records_per_s: int


@value
class MoveCoordinator:
    """Another broker becomes leader of the group's offsets partition, without any crash ("" = the next one).

    Where brokers replicate it is the controller who moves leaders: see elect-preferred-leaders and close-host.
    """

    group: str
    to: str = ANYONE


@value
class KillCoordinator:
    """The group's coordinator loses power; another broker takes its partition over, if there is one."""

    group: str
    for_us: int = 0


Action: TypeAlias = (
    Crash
    | Restart
    | Pause
    | ClockDrift
    | LoseDiskTail
    | Isolate
    | Split
    | Slow
    | Lossy
    | Hold
    | Disconnect
    | Duplicate
    | ErrorReply
    | Heal
    | StartHost
    | CloseHost
    | RollingRestart
    | RollingUpgrade
    | AddMembers
    | RemoveMembers
    | GrowTopic
    | SetRateOf
    | MoveCoordinator
    | KillCoordinator
    | StoreAction
)


_LINK = (("sender", "any"), ("receiver", "any"))

FAULTS: Mapping[str, ActionKind] = {
    "crash": ActionKind(Crash, "a host loses power or its process dies; it may come back", (("host", "any"),)),
    "restart": ActionKind(Restart, "a host starts again, with its disk or without", (("host", "any"),)),
    "pause": ActionKind(Pause, "a host stands still; its mail and timers wait (GC pause)", (("host", "any"),)),
    "clock-drift": ActionKind(ClockDrift, "a host's clock runs too fast or too slow", (("host", "any"),)),
    "lose-disk-tail": ActionKind(
        LoseDiskTail, "a power cut that also takes the last records of a log", (("host", "broker"),)
    ),
    "isolate": ActionKind(Isolate, "a host is cut off from all others", (("host", "any"),)),
    "split": ActionKind(
        Split, "two sides are cut off from each other, or one way", (("side", "any"), ("other", "any"))
    ),
    "slow": ActionKind(Slow, "a link gets slower, with jitter", _LINK),
    "lossy": ActionKind(Lossy, "a link loses packets, and so breaks connections", _LINK),
    "hold": ActionKind(Hold, "a link holds packets back and delivers them later, in order", _LINK),
    "disconnect": ActionKind(Disconnect, "the connections of two hosts are reset", (("a", "any"), ("b", "any"))),
    "duplicate": ActionKind(
        Duplicate, "a request is executed, its reply lost: the retry comes twice", (("sender", "any"),)
    ),
    "error-reply": ActionKind(ErrorReply, "a request is answered with an error", (("sender", "any"),)),
    "kill-coordinator": ActionKind(KillCoordinator, "the group's coordinator loses power"),
    "heal": ActionKind(Heal, "everything that lasts ends"),
    **STORE_FAULTS,
}

WORKLOAD: Mapping[str, ActionKind] = {
    "start-host": ActionKind(StartHost, "a host starts", (("host", "any"),), workload=True),
    "close-host": ActionKind(CloseHost, "a host ends cleanly", (("host", "any"),), workload=True),
    "rolling-restart": ActionKind(RollingRestart, "members restart one after the other", workload=True),
    "rolling-upgrade": ActionKind(
        RollingUpgrade, "members come back as another release, or set otherwise", (("hosts", "member"),), workload=True
    ),
    "add-members": ActionKind(AddMembers, "a group gets more members", workload=True),
    "remove-members": ActionKind(RemoveMembers, "members close and do not come back", workload=True),
    "grow-topic": ActionKind(GrowTopic, "a topic gets more partitions", workload=True),
    "set-rate": ActionKind(SetRateOf, "a topic's producer gets faster or slower", workload=True),
    "move-coordinator": ActionKind(
        MoveCoordinator,
        "another broker becomes the group's coordinator",
        (("to", "broker"),),
        workload=True,
        replicated=False,
        instead='"elect-preferred-leaders", "kill-coordinator", or "close-host" with host = "coordinator of GROUP"',
    ),
    **STORE_WORKLOAD,
}

ACTIONS: Mapping[str, ActionKind] = {**FAULTS, **WORKLOAD}
"""Everything a plan can say, by kind."""

_KIND_OF = {row.cls: kind for kind, row in ACTIONS.items()}

ROLES = ("coordinator", "leader")
"""What "... of <group>" may begin with."""

REPLICATED_ROLES = ("controller", "partition leader")
"""Where brokers replicate: "controller", and "partition leader of t-0"."""

CHOICES: Mapping[tuple[type, str], tuple[str, ...]] = {
    (Crash, "mode"): ("power", "process"),
    (RollingRestart, "how"): ("close", "crash"),
    (RollingUpgrade, "how"): ("close", "crash"),
    **CHOICES_OF_STORE,
}
"""Fields that take one of a few words."""


def kind_of(action: Action) -> str:
    """The kind a scenario file names it by: "crash" for a Crash."""
    return _KIND_OF[type(action)]


def role_of(host: str) -> tuple[str, str] | None:
    """(role, group) of a host named by its role ("leader of g" gives ("leader", "g")), None for a plain name."""
    role, of, group = host.partition(" of ")
    return (role, group) if of and role in (*ROLES, *REPLICATED_ROLES) and group else None
