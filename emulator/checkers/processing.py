"""Nobody processes what it knows it does not own, and each owner processes in order, without gaps.

Theory. A partition is handed over by callbacks: from ``onPartitionsAssigned`` until ``onPartitionsRevoked`` or ``Lost``
a member serves it. The application runs on the polling thread, as the callbacks do, so work that is reported was
begun under the ownership that still stands. Hence:

1. A member processes only partitions it owns by its own callbacks, and of these only what the last assignment it took
   over gave it.
2. Within one ownership, work begins where the position was set and goes on without gap or repetition.

What the protocol allows: a zombie (paused, cut off, or simply busy) goes on with what it owned until it polls and
learns; meanwhile another member may own and process the same partition. Fencing stops its commits, not its work. That
is no violation; the figure ``zombie_records`` counts the records processed that way. Whether two members could own a
partition *within* the protocol is the business of ``one-owner``.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Seen
from kemu.emulator.watching.panel import Holding
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import (
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
)


class Processing(Checker):
    """Members process only what they own, in order and without gaps."""

    name = "processing"

    def __init__(self) -> None:
        super().__init__()
        self._positions: dict[tuple[str, int, str, int], int] = {}
        """(actor, life, topic, partition) -> the next record to be processed."""
        self.on = {
            Processed: self._processed,
            PositionSet: self._positioned,
            PartitionsRevoked: self._revoked,
            PartitionsLost: self._lost,
        }

    def _processed(self, seen: Seen, fact: Processed) -> None:
        holding = self.panel.holding(seen)
        partition = (fact.topic, fact.partition)
        if self._may(seen, fact, holding, partition):
            self._in_order(seen, fact)

    def _may(self, seen: Seen, fact: Processed, holding: Holding, partition: TopicPartition) -> bool:
        if partition not in holding.owned:
            why = "does not own"
        elif holding.assignment is not None and partition not in holding.assignment:
            why = f"was not assigned in generation {holding.generation}"
        else:
            return True
        self._report(seen, "not-owned", fact, f"which it {why}")
        return False

    def _in_order(self, seen: Seen, fact: Processed) -> None:
        key = (seen.actor, seen.life, fact.topic, fact.partition)
        position = self._positions.get(key)
        if position is None:
            self._report(seen, "out-of-order", fact, "but never set a position there")
        elif position != fact.first:
            self._report(seen, "out-of-order", fact, f"but its position was {position}")
        elif fact.last <= fact.first:
            self._report(seen, "out-of-order", fact, "which is no range")
        self._positions[key] = fact.last

    def _report(self, seen: Seen, kind: str, fact: Processed, why: str) -> None:
        name = f"{fact.topic}-{fact.partition}"
        text = f"{seen.actor} processed records {fact.first} to {fact.last - 1} of {name}, {why}"
        self.violation(seen, kind, (fact.group, name, seen.actor), text)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        self._positions[seen.actor, seen.life, fact.topic, fact.partition] = fact.offset

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        self._forget(seen, fact.revoked)

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        self._forget(seen, fact.lost)

    def _forget(self, seen: Seen, partitions: tuple[TopicPartition, ...]) -> None:
        for topic, partition in partitions:
            self._positions.pop((seen.actor, seen.life, topic, partition), None)
