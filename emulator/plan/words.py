"""A plan in words: exact enough that two different entries never read alike."""

from kemu.emulator.plan.actions import (
    Action,
    AddMembers,
    ClockDrift,
    CloseHost,
    Crash,
    Disconnect,
    Duplicate,
    ErrorReply,
    GrowTopic,
    Heal,
    Hold,
    Isolate,
    KillCoordinator,
    LoseDiskTail,
    Lossy,
    MoveCoordinator,
    Pause,
    RemoveMembers,
    Restart,
    RollingRestart,
    RollingUpgrade,
    SetRateOf,
    Slow,
    Split,
    StartHost,
    kind_of,
)
from kemu.emulator.plan.entries import At, Entry, Noted, Sends, Trigger
from kemu.emulator.plan.store_actions import (
    CreateTopic,
    DeleteTopic,
    ElectPreferredLeaders,
    ExpiredSession,
    FrozenSession,
    LateWatches,
    LostStoreAnswer,
)
from kemu.emulator.text.units import duration_text


def describe_entry(entry: Entry) -> str:
    """An entry in words: "at 30s: crash b0 (power) for 20s"."""
    if isinstance(entry, At):
        return f"at {duration_text(entry.at_us)}: {describe_action(entry.action)}"
    later = f", {duration_text(entry.after_us)} later" if entry.after_us else ""
    return f"when {describe_trigger(entry.trigger)}{later}: {describe_action(entry.action)}"


def describe_trigger(trigger: Trigger) -> str:
    """A trigger in words: "leader of g sends SyncGroup (time 2)"."""
    times = "" if trigger.nth == 1 else f" (time {trigger.nth})"
    if isinstance(trigger, Noted):
        values = ", ".join(f"{name}={wanted}" for name, wanted in trigger.fields)
        return f"{trigger.note}({values}){times}"
    of = f" of generation {trigger.generation}" if trigger.generation is not None else ""
    if isinstance(trigger, Sends):
        to = f" to {trigger.to}" if trigger.to else ""
        return f"{trigger.by or 'anyone'} sends {trigger.api}{of}{to}{times}"
    sender = f" from {trigger.to}" if trigger.to else ""
    return f"{trigger.by or 'anyone'} receives {trigger.api}{of}{sender}{times}"


def describe_action(action: Action) -> str:
    """An action in words, exact enough to tell it from any other: "crash b0 (power) for 20s"."""
    match action:
        case Crash(host=host, mode=mode, for_us=for_us):
            said = f"crash {host} ({mode}){_for(for_us, '')}"
        case Restart(host=host, keep_disk=keep_disk):
            said = f"restart {host}" + ("" if keep_disk else " with an empty disk")
        case ClockDrift(host=host, ppm=ppm, for_us=for_us):
            said = f"clock of {host} drifts by {ppm:+,} ppm{_for(for_us)}"
        case LoseDiskTail(host=host, records=records, log=log, for_us=for_us):
            said = f"power cut at {host}, last {records} records of {log or 'each log'} lost{_for(for_us, '')}"
        case Pause(host=host, for_us=for_us) | Isolate(host=host, for_us=for_us):
            said = f"{kind_of(action)} {host}{_for(for_us)}"
        case Disconnect(a=a, b=b):
            said = f"disconnect {a} and {b}"
        case Duplicate(api=api, sender=sender, nth=nth):
            said = f"lose the reply to request {nth} {api} of {sender or 'anyone'}"
        case ErrorReply(api=api, sender=sender, nth=nth, error=error):
            said = f"answer request {nth} {api} of {sender or 'anyone'} with {error.name}"
        case Heal():
            said = "heal"
        case Split() | Slow() | Lossy() | Hold():
            said = _link_text(action)
        case _:
            said = _workload_text(action)
    return said


def _link_text(action: Split | Slow | Lossy | Hold) -> str:
    if isinstance(action, Split):
        side, other = ", ".join(action.side), ", ".join(action.other) or "everyone else"
        cut = f"{other} hears nothing of {side}" if action.one_way else f"split {side} from {other}"
        return cut + _for(action.for_us)
    link = f"{action.sender or 'any'} -> {action.receiver or 'any'}"
    match action:
        case Slow(add_us=add_us, jitter_us=jitter_us):
            jitter = f" to {duration_text(add_us + jitter_us)}" if jitter_us else ""
            said = f"slow {link} by {duration_text(add_us)}{jitter}"
        case Lossy(per_mille=per_mille):
            said = f"lose {per_mille} of 1,000 packets {link}"
        case Hold(api=api):
            said = f"hold {link}" + (f" from the next {api}" if api else "")
    return said + _for(action.for_us)


def _workload_text(action: Action) -> str:
    match action:
        case StartHost(host=host):
            said = f"start {host}"
        case CloseHost(host=host):
            said = f"close {host}"
        case RollingRestart(group=group, every_us=every_us, down_us=down_us, how=how):
            said = f"rolling restart of {group} ({how}), one every {duration_text(every_us)}, each down"
            said += _for(down_us)
        case RollingUpgrade():
            said = _upgrade_text(action)
        case AddMembers(group=group, count=count):
            said = f"add {count} to {group}"
        case RemoveMembers(group=group, count=count):
            said = f"remove {count} of {group}"
        case GrowTopic(topic=topic, partitions=partitions):
            said = f"grow {topic} to {partitions} partitions"
        case SetRateOf(topic=topic, records_per_s=records_per_s):
            said = f"append {records_per_s} records/s to {topic}"
        case MoveCoordinator(group=group, to=to):
            said = f"move the coordinator of {group} to {to or 'the next broker'}"
        case KillCoordinator(group=group, for_us=for_us):
            said = f"power cut at the coordinator of {group}{_for(for_us, '')}"
        case _:
            said = _store_text(action)
    return said


def _store_text(action: Action) -> str:
    match action:
        case LostStoreAnswer(host=host, part=part, nth=nth, applied=applied):
            said = f"lose the store's answer to write {nth} of {host} ({part}), which is "
            said += "applied" if applied else "not applied"
        case FrozenSession(host=host, for_us=for_us):
            said = f"freeze the session of {host}{_for(for_us)}"
        case LateWatches(host=host, for_us=for_us):
            said = f"keep the next watch of {host} back{_for(for_us)}"
        case ExpiredSession(host=host, linger_us=linger_us):
            lingers = f", whose nodes linger for {duration_text(linger_us)}" if linger_us else ""
            said = f"expire the session of {host}{lingers}"
        case CreateTopic():
            said = _creation_text(action)
        case DeleteTopic(topic=topic):
            said = f"delete topic {topic}"
        case ElectPreferredLeaders(topics=topics):
            said = f"elect the preferred leaders of {', '.join(topics) or 'all partitions'}"
        case _:
            raise AssertionError(f"no words for {action!r}")
    return said


def _creation_text(action: CreateTopic) -> str:
    copies = f", {action.replication_factor} replicas each" if action.replication_factor else ""
    load = f", {action.records_per_s} records/s" if action.records_per_s else ""
    return f"create topic {action.topic} with {action.partitions} partitions{copies}{load}"


def _upgrade_text(action: RollingUpgrade) -> str:
    whom = f"{', '.join(action.hosts)} of {action.group}" if action.hosts else action.group
    becomes = [action.profile] if action.profile else []
    if action.assignors:
        becomes.append(f"assignors {', '.join(action.assignors)}")
    becomes += action.settings
    pace = f"one every {duration_text(action.every_us)}, each down{_for(action.down_us)}"
    return f"rolling upgrade of {whom} ({action.how}) to {'; '.join(becomes)}; {pace}"


def _for(for_us: int, endless: str = " until healed") -> str:
    return f" for {duration_text(for_us)}" if for_us else endless
