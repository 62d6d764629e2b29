"""Descriptions of plans. Two different entries never have the same description."""

from kemu.emulator.plan.entries import At, Entry, Noted, Sends, Trigger
from kemu.emulator.text.units import duration_text


def describe_entry(entry: Entry) -> str:
    """The description of an entry: "at 30s: crash b0 (power) for 20s"."""
    if isinstance(entry, At):
        return f"at {duration_text(entry.at_us)}: {entry.action.words()}"
    later = f", {duration_text(entry.after_us)} later" if entry.after_us else ""
    return f"when {describe_trigger(entry.trigger)}{later}: {entry.action.words()}"


def describe_trigger(trigger: Trigger) -> str:
    """The description of a trigger: "leader of g sends SyncGroup (time 2)"."""
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
