"""Replication gets well: when the faults are over, everything is led and everybody is in sync again.

Theory. Some time after all brokers run and hear each other (numbers of the table in ``emulator.checkers``): every
partition has a leader that acts in the epoch the store has (Q1), every assigned replica is in the ISR (Q4), every
broker that is assigned a partition takes part in its newest epoch (Q3), no broker keeps a log of a partition it is not
assigned (Q3). A broker that restarts takes no more for committed than any leader ever did. Q7: what a leader appends is
below its high watermark a moment later (an acks=all request ends), and what a producer sent is decided for it:
acknowledged, or given up.

A replica that a reassignment takes from a broker stays on its disk for good when the order to delete it never comes:
its broker is down then (StopReplica goes to live brokers only); or the broker's registration ends with the request
still queued, which goes with its channel (the broker may be up already, in a life that is not registered yet); or the
broker is registered anew and the controller has not heard of it; or the controller dies or resigns with the request, or
was gone already when its last write arrived. No controller waits for the answer, and nothing in the store reminds the
next one (so in Kafka 2.8, ``ControllerChannelManager.removeBroker``). That is no violation here, as long as the broker
takes no part in the partition again; any other log left over is one. Old orders may still arrive after the store has
the partition elsewhere: of no newer leader epoch than there was then. Nor is it one when the order came and the log is
back all the same: power was cut in the life of the process that deleted it (the deletion was on its way to the disk),
or the disk lost the end of that log.

A log left over so may meet another topic of its name, created after the first one was deleted. A broker that knows
topic ids (KIP-516) keeps out of that partition then (``LogOfAnotherTopic``), for as long as nobody removes the log: it
is in no ISR, and if it was to be the first leader there is none. One that knows none joins, or, if it still takes part
in a later leader epoch of the first topic, heeds none of the second's until these are later. That is Kafka's doing, and
no violation here as long as somebody else leads; a partition that nobody leads is one, of a kind of its own.

A replica out of the ISR is no violation while its leader waits for another leader epoch, because the controller does
not know of an ISR that it wrote itself (``UnheardIsrs``: Kafka's rule, and its source): such a leader asks for no ISR.
Nor is it one that its high watermark stands then, below ``min.insync.replicas`` (KAFKA-15583).

What the last ISR member took with it when it lost its disk, or never came back with, is not waited for here: after the
plan every broker runs. Where a core alone is healed (``CoreHealed``) nobody waits for those that stay away: they need
be in no ISR, but nobody of them may lead.
"""

from collections.abc import Callable, Iterator
from enum import Enum

from kemu.actors.broker.partition_log import log_name
from kemu.actors.broker.replica_log import JOURNALS
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, Healed, HostDown, HostStarted, Seen, TopicFilled
from kemu.emulator.findings import EPOCH_OF_ANOTHER_TOPIC, LEFT_OVER_LOG, LOG_OF_ANOTHER_TOPIC, UNHEARD_ISR
from kemu.protocol.names import ActorName, TopicPartition, broker_host, broker_of, host_of
from kemu.protocol.nodes import BROKER_IDS, PartitionState
from kemu.protocol.notes.groups import ProduceFailed, ProducerStarted, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import (
    BecameController,
    BecameFollower,
    BecameLeader,
    BrokersChanged,
    ControllerResigned,
    HighWatermarkAdvanced,
    LogOfAnotherTopic,
    NodeWritten,
    ReplicaRestored,
    ReplicaStopped,
)

SOON_US = 2_000_000
"""How long what is appended may be behind everybody's back in a run that ends because all is well."""
ANSWER_US = 10_000_000
"""How long it may be so at all."""


class _Deletion(Enum):
    """What the disk may know of a log's deletion."""

    BY_THIS_LIFE = "on its way to the disk, or there"
    FORGOTTEN = "power was cut before it was there for certain, or the end of the log was lost: it may be back"
    DONE = "there"


class ClusterRecovery(Checker):
    """After the faults every partition is led, all its replicas are in sync, and producers are answered."""

    name = "recovery"

    def __init__(self) -> None:
        super().__init__()
        self._logs: dict[tuple[str, TopicPartition], None] = {}
        """Who has a log of what."""
        self._left_behind: dict[tuple[str, TopicPartition], None] = {}
        """Logs of partitions that were moved away while their broker could not be told."""
        self._deleted: dict[tuple[str, TopicPartition], _Deletion] = {}
        """Logs that brokers deleted."""
        self._to_go: dict[tuple[str, TopicPartition], ActorName] = {}
        """Logs of partitions that were moved away -> the controller that is to see to their end."""
        self._retired: dict[ActorName, None] = {}
        """Controllers that resigned."""
        self._went_in: dict[tuple[str, TopicPartition], int] = {}
        """Logs of partitions that were moved away -> the leader epoch then."""
        self._of_another: dict[tuple[str, TopicPartition], None] = {}
        """Logs that keep their brokers out of a partition: they are of a deleted topic of that name."""
        self._deleted_topics: dict[str, None] = {}
        """Topics that were deleted at some time."""
        self._uncovered: dict[TopicPartition, tuple[int, int]] = {}
        """(log end, since when) of an append that is not below its leader's high watermark yet."""
        self._undecided: dict[TopicPartition, int] = {}
        """Since when there is an append of which no producer has heard what became of it."""
        self._producers: dict[tuple[str, str], None] = {}
        """(actor, topic) of producers that run and want answers."""
        self._committed: dict[TopicPartition, int] = {}
        """The highest watermark that any leader ever reached, deleted topics of the same name included."""
        self._now_us = 0
        """Of the last append or high watermark."""
        self._healed: Seen | None = None
        self.on = {
            TopicFilled: self._filled,
            BecameLeader: self._led,
            BecameFollower: self._followed,
            LogOfAnotherTopic: self._kept_out,
            ReplicaStopped: self._stopped,
            ReplicaRestored: self._restored,
            RecordsAppended: self._appended,
            HighWatermarkAdvanced: self._advanced,
            ProducerStarted: self._produces,
            RecordsAcknowledged: self._decided,
            ProduceFailed: self._decided,
            BecameController: self._controls,
            ControllerResigned: self._resigned,
            BrokersChanged: self._brokers_changed,
            HostDown: self._down,
            DiskTailLost: self._tail_lost,
            HostStarted: self._up,
            NodeWritten: self._written,
            Healed: self._heal,
        }

    def _filled(self, seen: Seen, fact: TopicFilled) -> None:
        self._committed.update(dict.fromkeys(((fact.topic, number) for number in range(fact.partitions)), fact.records))

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        self._has_log(seen.actor, at, fact.leader_epoch)
        self._committed[at] = max(self._committed.get(at, 0), fact.high_watermark)
        self._uncovered.pop(at, None)
        self._undecided.pop(at, None)  # what came of it is for its former leader's producers to find out
        if fact.high_watermark < fact.end_offset:
            self._uncovered[at] = (fact.end_offset, seen.at_us)

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        self._has_log(seen.actor, (fact.topic, fact.partition), fact.leader_epoch)

    def _has_log(self, host: str, at: TopicPartition, leader_epoch: int) -> None:
        """It takes part in the partition (again): if it is taken from it once more, it can be told."""
        self._logs[host, at] = None
        self._deleted.pop((host, at), None)
        self._of_another.pop((host, at), None)
        if leader_epoch > self._went_in.get((host, at), -1):
            self._left_behind.pop((host, at), None)
            self._to_go.pop((host, at), None)

    def _kept_out(self, seen: Seen, fact: LogOfAnotherTopic) -> None:
        self._of_another[seen.actor, (fact.topic, fact.partition)] = None

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        if fact.deleted:
            key = (seen.actor, (fact.topic, fact.partition))
            self._logs.pop(key, None)
            self._left_behind.pop(key, None)
            self._to_go.pop(key, None)
            self._went_in.pop(key, None)
            self._of_another.pop(key, None)
            self._deleted[key] = _Deletion.BY_THIS_LIFE

    def _tail_lost(self, seen: Seen, fact: DiskTailLost) -> None:
        for key in self._deleted:
            if key[0] == fact.host and fact.log == JOURNALS + log_name(*key[1]):
                self._deleted[key] = _Deletion.FORGOTTEN

    def _restored(self, seen: Seen, fact: ReplicaRestored) -> None:
        at = (fact.topic, fact.partition)
        self._logs[seen.actor, at] = None
        if fact.high_watermark > self._committed.get(at, 0):
            name = f"{at[0]}-{at[1]}"
            text = f"{seen.actor} starts with {fact.high_watermark} as the high watermark of {name}"
            text += f"; no leader ever had more than {self._committed.get(at, 0)}"
            self.violation(seen, "watermark-at-start", (name, seen.actor), text)
        if self._deleted.pop((seen.actor, at), None) is _Deletion.FORGOTTEN and at in self.panel.assigned:
            self._left_behind[seen.actor, at] = None

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        if fact.what == "deleted" and fact.path.startswith(f"{BROKER_IDS}/"):
            gone = broker_host(int(fact.path.rpartition("/")[2]))
            self._give_up(lambda host, controller: host == gone)
        if fact.what == "deleted" and self.panel.written_topic:
            self._deleted_topics[self.panel.written_topic] = None
        for at in self.panel.replicas_changed:
            there = self.panel.assigned.get(at)
            state = self.panel.states.get(at)
            for host, _ in [key for key in self._logs if key[1] == at]:
                if there is not None and state is not None and broker_of(host) not in there.replicas:
                    self._went_in.setdefault((host, at), state.leader_epoch)
                else:
                    self._went_in.pop((host, at), None)
                if there is not None and broker_of(host) in there.replicas:
                    self._left_behind.pop((host, at), None)
                    self._to_go.pop((host, at), None)
                elif there is not None and (broker_of(host) not in self.panel.registered or self._is_no_more(fact)):
                    self._left_behind[host, at] = None
                elif there is not None:
                    self._to_go.setdefault((host, at), fact.client)

    def _is_no_more(self, fact: NodeWritten) -> bool:
        """Whether the controller that wrote this died or resigned while it was on its way to the store."""
        return self.panel.is_down(host_of(fact.client)) or fact.client in self._retired

    def _controls(self, seen: Seen, fact: BecameController) -> None:
        self._retired.pop(seen.actor, None)

    def _resigned(self, seen: Seen, fact: ControllerResigned) -> None:
        self._retired[seen.actor] = None
        self._give_up(lambda host, controller: controller == seen.actor)

    def _brokers_changed(self, seen: Seen, fact: BrokersChanged) -> None:
        """Until now these got no orders from it."""
        news = [broker_host(broker) for broker in (*fact.new, *fact.bounced)]
        self._give_up(lambda host, controller: host in news)

    def _give_up(self, concerns: Callable[[str, ActorName], bool]) -> None:
        """Orders to delete are lost: with who was to send them, or with who was to get them."""
        for key, controller in list(self._to_go.items()):
            if concerns(key[0], controller):
                del self._to_go[key]
                self._left_behind[key] = None

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for key, deletion in self._deleted.items():
            if key[0] == fact.host:  # what was not back after the last start is gone for good
                lost = fact.how == "power" and deletion is _Deletion.BY_THIS_LIFE
                self._deleted[key] = _Deletion.FORGOTTEN if lost else _Deletion.DONE
        self._give_up(lambda host, controller: fact.host in (host, host_of(controller)))
        gone = [each for each in self._producers if host_of(each[0]) == fact.host]
        for each in gone:
            del self._producers[each]
        unheard = {topic for _, topic in gone}
        self._undecided = {at: since_us for at, since_us in self._undecided.items() if at[0] not in unheard}

    def _up(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            for key in [key for key in self._logs if key[0] == fact.host]:
                del self._logs[key]
                self._of_another.pop(key, None)
            self._deleted = {key: deletion for key, deletion in self._deleted.items() if key[0] != fact.host}

    def _heal(self, seen: Seen, fact: Healed) -> None:
        self._healed = seen
        self._now_us = seen.at_us

    # --- requests ----------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        at = (fact.topic, fact.partition)
        state = self.panel.states.get(at)
        if state is None or self.panel.roles.get((seen.actor, at)) != (state.leader_epoch, True):
            return  # no replication here, or a leader that is deposed
        self._now_us = seen.at_us
        if at not in self._uncovered:
            self._uncovered[at] = (fact.base_offset + fact.count, seen.at_us)
        if at not in self._undecided and any(topic == fact.topic for _, topic in self._producers):
            self._undecided[at] = seen.at_us

    def _advanced(self, seen: Seen, fact: HighWatermarkAdvanced) -> None:
        at = (fact.topic, fact.partition)
        waiting = self._uncovered.get(at)
        self._now_us = seen.at_us
        self._committed[at] = max(self._committed.get(at, 0), fact.high_watermark)
        if waiting is not None and fact.high_watermark >= waiting[0]:
            del self._uncovered[at]

    def _produces(self, seen: Seen, fact: ProducerStarted) -> None:
        if fact.acks != 0:
            self._producers[seen.actor, fact.topic] = None

    def _decided(self, seen: Seen, fact: RecordsAcknowledged | ProduceFailed) -> None:
        self._undecided.pop((fact.topic, fact.partition), None)

    def _unanswered(self, now_us: int, after_us: int) -> Iterator[tuple[str, str, str, str]]:
        """(kind, partition, what waits there for longer than this, why it may stay so: "" if it may not)."""
        if self._healed is None:
            return
        latest_us = now_us - after_us
        healed_us = self._healed.at_us
        for at, (end, since_us) in self._uncovered.items():
            if max(since_us, healed_us) <= latest_us and at in self.panel.states:
                text = f"has records to {end - 1}; its high watermark does not pass them (Q7)"
                yield "watermark-stuck", f"{at[0]}-{at[1]}", text, self._waits_with_too_few(at)
        for at, since_us in self._undecided.items():
            if max(since_us, healed_us) <= latest_us:
                text = "has records of which their producer hears nothing (Q7)"
                yield "unanswered", f"{at[0]}-{at[1]}", text, ""

    def _waits_with_too_few(self, at: TopicPartition) -> str:
        """Why its high watermark may stand; "" if it may not. (KAFKA-15583, 3.7; before, it passes all the same.)"""
        unheard = self.panel.unheard.of(at)
        too_few = unheard is not None and unheard.leader_waits and len(unheard.told) < self.panel.min_insync.of(at)
        return UNHEARD_ISR if too_few else ""

    # --- well again --------------------------------------------------------------------------------------------

    @property
    def satisfied(self) -> bool:
        """Whether everything is led, in sync and answered now."""
        return not self._missing() and all(why for *_, why in self._unanswered(self._now_us, SOON_US))

    def _missing(self) -> list[tuple[str, str, str]]:
        """(kind, partition, what is wrong with it)."""
        return [(kind, name, text) for kind, name, text, why in self._unwell() if not why]

    def _unwell(self) -> Iterator[tuple[str, str, str, str]]:
        """(kind, partition, what is wrong with it, why it may stay so: "" if it may not)."""
        for at, assignment in self.panel.assigned.items():
            name = f"{at[0]}-{at[1]}"
            state = self.panel.states.get(at)
            replicas = [replica for replica in assignment.replicas if self._is_waited_for(broker_host(replica))]
            if state is not None and not any(replica in state.isr for replica in replicas):
                continue  # its last in-sync replica does not run
            if state is None:
                yield "no-leader", name, "has no state in the store (Q1)", ""
                continue
            leader = broker_host(state.leader)
            unled = self._of_former_life(leader, at, state)
            if leader in self.panel.away:
                yield "no-leader", name, f"is led by {leader} in epoch {state.leader_epoch}, which stays away (Q1)", ""
            elif self.panel.roles.get((leader, at)) != (state.leader_epoch, True):
                text = f"is led by {leader} in epoch {state.leader_epoch}, which does not act so (Q1)"
                yield "no-leader", name, text, unled
            yield from self._out_of_sync(at, name, state, replicas, unled)
            for one in map(broker_host, replicas):
                epoch, _ = self.panel.roles.get((one, at), (-1, False))
                if epoch != state.leader_epoch:
                    text = f"is in epoch {state.leader_epoch}, {one} takes part in {epoch} (Q3)"
                    yield "old-epoch", name, text, self._of_former_life(one, at, state)
        for host, at in self._logs:
            there = self.panel.assigned.get(at)
            if host not in self.panel.away and (there is None or broker_of(host) not in there.replicas):
                text = f"has a log on {host}, which is no replica of it (Q3)"
                why = LEFT_OVER_LOG if (host, at) in self._left_behind else ""
                yield "stray-replica", f"{at[0]}-{at[1]}", text, why

    def _is_waited_for(self, broker: str) -> bool:
        return not self.panel.is_down(broker) and broker not in self.panel.away

    def _out_of_sync(
        self, at: TopicPartition, name: str, state: PartitionState, replicas: list[int], unled: str
    ) -> Iterator[tuple[str, str, str, str]]:
        unheard = self.panel.unheard.of(at)
        waits = UNHEARD_ISR if unheard is not None and unheard.leader_waits else ""
        out = [replica for replica in replicas if replica not in state.isr]
        reasons: dict[str, list[int]] = {}
        for replica in out:
            why = self._of_former_life(broker_host(replica), at, state) or unled or waits
            reasons.setdefault(why, []).append(replica)
        for why, some in reasons.items():
            yield "out-of-isr", name, f"has replicas {some} out of its ISR {state.isr} (Q4)", why

    def _of_former_life(self, host: str, at: TopicPartition, state: PartitionState) -> str:
        """Why a broker takes no part in a topic that was created again; "" if nothing of the first one is why."""
        if (host, at) in self._of_another:
            return LOG_OF_ANOTHER_TOPIC
        epoch, _ = self.panel.roles.get((host, at), (-1, False))
        return EPOCH_OF_ANOTHER_TOPIC if epoch > state.leader_epoch and at[0] in self._deleted_topics else ""

    def finish(self, at_us: int) -> None:
        """What is still missing at the end of a run that was given its time to get well."""
        if self._healed is None or at_us <= self._healed.at_us:
            return
        bad: list[tuple[str, str, str]] = []
        for kind, name, text, why in [*self._unwell(), *self._unanswered(at_us, ANSWER_US)]:
            if why and kind != "no-leader":
                self.stays_so(at_us, name, why, f"{name} {text.rpartition(' (')[0]}")
            else:
                bad.append((why or kind, name, text))
        for kind, name, text in bad:
            seen = Seen(self._healed.seq, at_us, "", 0, self._healed.fact)
            self.violation(
                seen,
                kind,
                (name,),
                f"{name} {text}, {(at_us - self._healed.at_us) // 1_000_000} s after the faults ended",
                liveness=True,
            )
