"""What can be done to a running cluster: faults, and the actions of its operators. ``ACTIONS`` is the table of all.

Three conventions hold throughout:

* Times are integer microseconds (``for_us``); in a scenario file the same field is ``for = "20s"``.
* ``for_us=0`` means "until healed" for whatever lasts, and "stays down" for a crash.
* A host is an actor's host ("c1", "b0") or is named by its role, resolved when the action is applied:
  "coordinator of g" (the broker that leads the group's offsets partition), "leader of g" (the member that assigns).
  Where a field says so, "" stands for every host.
"""

from kemu.emulator.plan.action import KINDS, Action, ActionKind
from kemu.emulator.plan.actions.admin import (
    ConfigsAlteration,
    GroupDeletion,
    GroupDescription,
    GroupsListing,
    LeadersElection,
    MembersExpulsion,
    OffsetsDeletion,
    OffsetsReset,
)
from kemu.emulator.plan.actions.consumers import (
    ListenerFailure,
    PartitionsPause,
    PartitionsResumption,
    PollingStop,
    PositionChange,
    RebalanceRequest,
    Subscription,
    Unsubscription,
)
from kemu.emulator.plan.actions.hosts import (
    ClockDrift,
    Crash,
    Heal,
    KillCoordinator,
    LoseDiskTail,
    Pause,
    Restart,
)
from kemu.emulator.plan.actions.network import Disconnect, Hold, Isolate, Lossy, Slow, Split
from kemu.emulator.plan.actions.operators import (
    AddMembers,
    CloseHost,
    CreateTopic,
    DeleteTopic,
    ElectPreferredLeaders,
    GrowTopic,
    MoveCoordinator,
    RemoveMembers,
    RollingRestart,
    RollingUpgrade,
    SetRateOf,
    StartHost,
)
from kemu.emulator.plan.actions.replies import Duplicate, ErrorReply
from kemu.emulator.plan.actions.store import ExpiredSession, FrozenSession, LateWatches, LostStoreAnswer

_ALL: tuple[type[Action], ...] = (
    Crash,
    Restart,
    Pause,
    ClockDrift,
    LoseDiskTail,
    Isolate,
    Split,
    Slow,
    Lossy,
    Hold,
    Disconnect,
    Duplicate,
    KillCoordinator,
    MoveCoordinator,
    ErrorReply,
    Heal,
    LostStoreAnswer,
    FrozenSession,
    LateWatches,
    ExpiredSession,
    StartHost,
    CloseHost,
    RollingRestart,
    RollingUpgrade,
    AddMembers,
    RemoveMembers,
    GrowTopic,
    SetRateOf,
    CreateTopic,
    DeleteTopic,
    ElectPreferredLeaders,
    GroupsListing,
    GroupDescription,
    GroupDeletion,
    MembersExpulsion,
    OffsetsReset,
    OffsetsDeletion,
    LeadersElection,
    ConfigsAlteration,
    Subscription,
    Unsubscription,
    PollingStop,
    ListenerFailure,
    PartitionsPause,
    PartitionsResumption,
    PositionChange,
    RebalanceRequest,
)
"""In the order in which they are listed and drawn; another place moves what random plans draw from a seed."""

ACTIONS: dict[str, ActionKind] = {KINDS[cls].kind: KINDS[cls] for cls in _ALL}
"""Everything a plan can say, by kind."""

__all__ = [
    "ACTIONS",
    "Action",
    "AddMembers",
    "ClockDrift",
    "CloseHost",
    "ConfigsAlteration",
    "Crash",
    "CreateTopic",
    "DeleteTopic",
    "Disconnect",
    "Duplicate",
    "ElectPreferredLeaders",
    "ErrorReply",
    "ExpiredSession",
    "FrozenSession",
    "GroupDeletion",
    "GroupDescription",
    "GroupsListing",
    "GrowTopic",
    "Heal",
    "Hold",
    "Isolate",
    "KillCoordinator",
    "LateWatches",
    "LeadersElection",
    "ListenerFailure",
    "LoseDiskTail",
    "Lossy",
    "LostStoreAnswer",
    "MembersExpulsion",
    "MoveCoordinator",
    "OffsetsDeletion",
    "OffsetsReset",
    "PartitionsPause",
    "PartitionsResumption",
    "Pause",
    "PollingStop",
    "PositionChange",
    "RebalanceRequest",
    "RemoveMembers",
    "Restart",
    "RollingRestart",
    "RollingUpgrade",
    "SetRateOf",
    "Slow",
    "Split",
    "StartHost",
    "Subscription",
    "Unsubscription",
]
