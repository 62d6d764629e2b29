"""The compared data: for each step of a plan and each partition, the store's contents and the requests to each broker.

Every entry is a line, so that people can read recordings and use ``diff``:

| line | event |
|---|---|
| assignment 2,1,0 adding 2 removing 0 | the partition's part of the topic's node changed |
| state leader 0 epoch 1 isr 0,1 | the partition's state node was written |
| LeaderAndIsr leader 0 epoch 1 isr 0,1 version 1 replicas 2,1,0 ... | the broker got this request |
| StopReplica epoch 2 delete | likewise |
| UpdateMetadata leader 0 epoch 1 isr 0,1 version 1 replicas 2,1,0 | likewise |

Epochs and versions are relative to the start of the plan, which excludes the creation of topics. ISRs are sets, so they
are written in ascending order.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kemu.protocol.nodes import PartitionState, ReplicaAssignment

STORE = "store"


class Sequences:
    """A run of a plan: step -> partition -> "store" or a broker ("b0", ...) -> lines."""

    def __init__(self, steps: Iterable[str]) -> None:
        self.steps: dict[str, dict[str, dict[str, list[str]]]] = {step: {} for step in steps}

    def add(self, step: str, partition: str, who: str, line: str) -> None:
        """Add one line."""
        self.steps[step].setdefault(partition, {}).setdefault(who, []).append(line)

    def lines(self, step: str, partition: str, who: str) -> list[str]:
        """The lines of this step, partition and place, in order."""
        return self.steps.get(step, {}).get(partition, {}).get(who, [])

    def places(self) -> list[tuple[str, str, str]]:
        """(step, partition, place) of all entries with lines, sorted within each step."""
        return [
            (step, partition, who)
            for step, partitions in self.steps.items()
            for partition in sorted(partitions)
            for who in sorted(partitions[partition])
        ]

    def to_json(self, about: Mapping[str, Any]) -> str:
        """The text of a recording; ``about`` describes its origin."""
        kept = {
            step: {p: dict(sorted(of.items())) for p, of in sorted(each.items())} for step, each in self.steps.items()
        }
        return json.dumps({**about, "steps": kept}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Sequences":
        """The sequences of a recording."""
        kept = json.loads(text)["steps"]
        made = cls(kept)
        made.steps = kept
        return made


class LinesDiffer(NamedTuple):
    """A difference between two runs of a plan."""

    step: str
    partition: str
    who: str
    kafka: list[str]
    emulated: list[str]


def differences(
    kafka: Sequences, emulated: Sequences, races: Mapping[tuple[str, str], tuple[int, int]]
) -> list[LinesDiffer]:
    """All differences, line by line.

    Args:
        races: (step, partition) -> two replicas that are added together; either can be the first in the ISR.
    """
    found = []
    for place in dict.fromkeys((*kafka.places(), *emulated.places())):
        theirs, ours = kafka.lines(*place), emulated.lines(*place)
        if theirs == ours or theirs == _joined_in_turn(ours, races.get(place[:2])):
            continue
        found.append(LinesDiffer(*place, theirs, ours))
    return found


def _joined_in_turn(lines: list[str], pair: tuple[int, int] | None) -> list[str]:
    """The lines with the two replicas in the other order."""
    if pair is None:
        return lines
    swapped = {str(pair[0]): str(pair[1]), str(pair[1]): str(pair[0])}

    def swap(found: re.Match[str]) -> str:
        return "isr " + ",".join(sorted(swapped.get(one, one) for one in found[1].split(",")))

    return [re.sub(r"isr ([0-9,]+)", swap, line) for line in lines]


# --- lines ---------------------------------------------------------------------------------------------------------


def ids(brokers: Iterable[int]) -> str:
    """A list of brokers."""
    return ",".join(map(str, brokers))


def _parts(*parts: tuple[str, Iterable[int]]) -> str:
    return "".join(f" {name} {ids(brokers)}" for name, brokers in parts if list(brokers))


def assignment_line(assignment: ReplicaAssignment) -> str:
    """The line for a partition in the topic's node."""
    more = _parts(("adding", assignment.adding), ("removing", assignment.removing))
    return f"assignment {ids(assignment.replicas)}{more}"


def state_line(state: PartitionState, first_epoch: int) -> str:
    """The line for a partition's state node."""
    return f"state leader {state.leader} epoch {state.leader_epoch - first_epoch} isr {ids(sorted(state.isr))}"


class Base(NamedTuple):
    """Leader epoch and version of a partition's state at the start of the plan."""

    epoch: int
    version: int


class Led(NamedTuple):
    """The common part of a partition's lines for LeaderAndIsr and UpdateMetadata."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    version: int
    replicas: tuple[int, ...]

    def line(self, api: str, base: Base, *more: tuple[str, Iterable[int]]) -> str:
        """The line for a request of this API, without the parts of single APIs."""
        return (
            f"{api} leader {self.leader} epoch {self.epoch - base.epoch} isr {ids(sorted(self.isr))} "
            f"version {self.version - base.version} replicas {ids(self.replicas)}{_parts(*more)}"
        )


def leader_and_isr_line(led: Led, base: Base, adding: Iterable[int], removing: Iterable[int], *, is_new: bool) -> str:
    """The line for a partition of a LeaderAndIsr."""
    return led.line("LeaderAndIsr", base, ("adding", adding), ("removing", removing)) + (" new" if is_new else "")


def update_metadata_line(led: Led, base: Base, offline: Iterable[int]) -> str:
    """The line for a partition of an UpdateMetadata."""
    return led.line("UpdateMetadata", base, ("offline", offline))


def stop_replica_line(epoch: int, base: Base, *, delete: bool) -> str:
    """The line for a partition of a StopReplica."""
    return f"StopReplica epoch {epoch - base.epoch}" + (" delete" if delete else "")
