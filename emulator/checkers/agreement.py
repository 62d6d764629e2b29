"""When all is quiet everybody knows what the store says, and nothing is left over in it.

Theory (numbers of the table in ``emulator.checkers``). Some time after the faults are over and the last change:

* Q2: every broker that runs is registered; what its metadata cache tells clients of every partition (leader, leader
  epoch, ISR, replicas) and of the live brokers is what the store has. ISR changes of leaders get there last: they are
  announced to the controller up to 7.5 s later.
* Q6: no request or announcement stands in the store any more: topics to be deleted (while all brokers run), preferred
  elections, reassignments, ISR changes.

What changed only a moment ago is not judged at the end of a run that did not come to rest.

One disagreement is Kafka's own (2.7 to 3.9, brokers that use AlterIsr) and no violation: the store's answer to a
controller's ISR write was lost, the retried write was refused for its version (INVALID_UPDATE_VERSION), and the
controller tells the ISR from before that write until another controller is elected; ``UnheardIsrs`` has the rule and
its source. It excuses that ISR alone, of that partition, while that write is the last of its state: a broker that has
another leader, epoch, ISR or other replicas disagrees, and so does one that a later controller does not correct.
"""

from collections.abc import Iterator

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import BrokerHostAdded, Healed, HostDown, HostResumed, HostStarted, RunStarted, Seen
from kemu.protocol.messages.data import PartitionMetadata
from kemu.protocol.names import TopicPartition, broker_of
from kemu.protocol.nodes import (
    BROKER_IDS,
    DELETE_TOPICS,
    ISR_CHANGES,
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
)
from kemu.protocol.notes.replication import MetadataCached, NodeWritten

SETTLE_US = 15_000_000
"""How long a change may take to reach everybody."""
REQUESTS = (f"{DELETE_TOPICS}/", f"{ISR_CHANGES}/", PREFERRED_ELECTION, REASSIGN_PARTITIONS)


class Cache:
    """One broker's metadata cache, as its notes tell."""

    __slots__ = ("brokers", "rows")

    def __init__(self) -> None:
        self.brokers: tuple[int, ...] = ()
        self.rows: dict[TopicPartition, PartitionMetadata] = {}


class Agreement(Checker):
    """When all is quiet metadata caches equal the store, and no request is left over."""

    name = "agreement"

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[str, int] = {}
        """Path of a request or announcement -> since when it stands."""
        self._caches: dict[str, Cache] = {}
        """Of brokers that run and were told something."""
        self._brokers: tuple[str, ...] = ()
        self._changed_us: dict[TopicPartition | str, int] = {}
        """A partition, a broker, or "brokers" -> when the store or the host last changed about it."""
        self._healed: Seen | None = None
        self.on = {
            RunStarted: self._run_started,
            BrokerHostAdded: self._broker_added,
            NodeWritten: self._written,
            MetadataCached: self._cached,
            HostDown: self._down,
            HostStarted: self._runs,
            HostResumed: self._runs,
            Healed: self._heal,
        }

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        self._brokers = fact.brokers

    def _broker_added(self, seen: Seen, fact: BrokerHostAdded) -> None:
        self._brokers = (*self._brokers, fact.host)
        self._changed_us[fact.host] = seen.at_us

    def _heal(self, seen: Seen, fact: Healed) -> None:
        self._healed = seen

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        panel = self.panel
        for at in panel.replicas_changed:
            self._changed_us[at] = seen.at_us
        if panel.written is not None:
            self._changed_us[panel.written] = seen.at_us
        elif fact.path.startswith(f"{BROKER_IDS}/"):
            self._changed_us["brokers"] = seen.at_us
        elif fact.path.startswith(REQUESTS):
            if fact.what == "deleted":
                self._requests.pop(fact.path, None)
            else:
                self._requests.setdefault(fact.path, seen.at_us)

    # --- brokers -----------------------------------------------------------------------------------------------

    def _cached(self, seen: Seen, fact: MetadataCached) -> None:
        cache = self._caches.get(seen.actor)
        if cache is None:
            cache = self._caches[seen.actor] = Cache()
        cache.brokers = tuple(sorted(fact.live_brokers))
        for topic in fact.topics:
            for row in topic.partitions:
                cache.rows[topic.topic, row.partition] = row
        for at in fact.gone:
            cache.rows.pop(at, None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._caches.pop(fact.host, None)

    def _runs(self, seen: Seen, fact: HostStarted | HostResumed) -> None:
        self._changed_us[fact.host] = seen.at_us

    # --- when all is quiet -------------------------------------------------------------------------------------

    @property
    def satisfied(self) -> bool:
        """Whether everybody agrees now."""
        return not any(True for _ in self._disagreements())

    def _disagreements(self) -> Iterator[tuple[str, int, str]]:
        """(whom or what it is about, when that last changed, what is wrong)."""
        if not self.panel.states:
            return
        for host in self._brokers:
            if not self.panel.is_out(host):
                yield from self._of_broker(host)
        whole = not any(map(self.panel.is_out, self._brokers))
        for path, since_us in self._requests.items():
            if whole or not path.startswith(DELETE_TOPICS):
                yield path, since_us, f"{path} is left over in the store (Q6)"

    def _of_broker(self, host: str) -> Iterator[tuple[str, int, str]]:
        changed = self._changed_us
        since_us = max(changed.get(host, 0), changed.get("brokers", 0))
        if broker_of(host) not in self.panel.registered:
            yield host, since_us, f"{host} runs and is not registered (Q2)"
            return
        cache = self._caches.get(host)
        live = tuple(sorted(self.panel.registered))
        if cache is None or cache.brokers != live:
            known = cache.brokers if cache is not None else ()
            yield host, since_us, f"{host} takes brokers {known} for alive; registered are {live} (Q2)"
            return
        for at, state in self.panel.states.items():
            row = cache.rows.get(at)
            assignment = self.panel.assigned.get(at)
            replicas = () if assignment is None else assignment.replicas
            there = _told(state.leader, state.leader_epoch, state.isr, replicas)
            told = _told(row.leader, row.leader_epoch, row.isr, row.replicas) if row is not None else "nothing"
            if told != there:
                at_us = max(since_us, changed.get(at, 0))
                unheard = self.panel.unheard.of(at)
                if unheard is not None and told == _told(state.leader, state.leader_epoch, unheard.told, replicas):
                    if unheard.outlived_us is None:
                        continue
                    at_us = max(at_us, unheard.outlived_us)
                name = f"{at[0]}-{at[1]}"
                text = f"{host} knows of {name} {told}; the store has {there}"
                yield name, at_us, f"{text} (Q2)"

    def finish(self, at_us: int) -> None:
        """Where somebody still disagrees at the end of a run that was given its time to get well."""
        if self._healed is None:
            return
        for what, since_us, text in self._disagreements():
            for_us = at_us - max(since_us, self._healed.at_us)
            if for_us >= SETTLE_US:
                seen = Seen(self._healed.seq, at_us, "", 0, self._healed.fact)
                self.violation(
                    seen, "disagreement", (what,), f"{text}, for {for_us // 1_000_000} s in peace", liveness=True
                )


def _told(leader: int, epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...]) -> str:
    return f"leader {leader} in epoch {epoch}, ISR {isr} of {replicas}"
