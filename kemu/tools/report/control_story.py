"""The control plane's part of the story: who controls, who leads, who is in sync, what was cut off."""

from collections.abc import Callable
from typing import Any, Protocol

from kemu.emulator.facts import Seen
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.names import TopicPartition, broker_host
from kemu.protocol.notes import replication as control_notes
from kemu.protocol.reassign.waiting import WaitReason

CONTROL = "control"
PARTITIONS = "partitions"
NEW = "new"


class Add(Protocol):
    """``Story.add``: at_us, kind, a sentence with "{}" for the hosts or partitions, one of these."""

    def __call__(self, at_us: int, kind: str, sentence: str, who: str = "") -> None:
        """See the class."""


class ControlStory:
    """Tells turning points of the control plane; what is the same of many partitions becomes one line in the story."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._isrs: dict[TopicPartition, tuple[int, ...]] = {}
        self._been: dict[TopicPartition, dict[int, None]] = {}
        """Who was ever in which."""
        self._held_up: dict[TopicPartition, None] = {}
        """Partitions whose ISR a leader could not ask for, as was told."""
        self._starts: dict[TopicPartition, int] = {}
        self._blocked: dict[TopicPartition, str] = {}
        """Why a partition is blocked, as it was just told."""

    def tell(self, seen: Seen, sentence: str, host: str = "") -> None:
        """One line, perhaps about a host."""
        self._add(seen.at_us, CONTROL, sentence, host)

    def tell_of(self, seen: Seen, sentence: str, at: TopicPartition) -> None:
        """One line about a partition."""
        self._add(seen.at_us, PARTITIONS, sentence, f"{at[0]}-{at[1]}")

    def session_ended(self, seen: Seen, fact: control_notes.SessionEnded) -> None:
        """The store's view of a death, or of a sleep."""
        if fact.why != "closed":
            self.tell(seen, f"the store ends the session of {fact.client}: {fact.why}")

    def store_took_over(self, seen: Seen, fact: control_notes.StoreTookOver) -> None:
        """The store is back, and who could not be missed while it was away will be."""
        self.tell(seen, f"the store serves again: {fact.sessions} sessions have their whole timeout from now on")

    def became_controller(self, seen: Seen, fact: control_notes.BecameController) -> None:
        """An election won."""
        self.tell(seen, f"{broker_host(fact.broker_id)} is the controller, epoch {fact.controller_epoch}")

    def resigned(self, seen: Seen, fact: control_notes.ControllerResigned) -> None:
        """One who was in office knows that it is no more."""
        self.tell(
            seen, f"{broker_host(fact.broker_id)} resigns as controller of epoch {fact.controller_epoch}: {fact.why}"
        )

    def write_refused(self, seen: Seen, fact: control_notes.ControllerWriteRefused) -> None:
        """A zombie meets its fence."""
        self.tell(
            seen, f"the store refuses a write of {broker_host(fact.broker_id)}: its controller epoch is not the newest"
        )

    def isr_write_refused(self, seen: Seen, fact: control_notes.IsrWriteRefused) -> None:
        """Often its own first write, of which it heard nothing."""
        said = f"the store refuses the controller's ISR {_list(fact.isr)} of {{}} for its version: it goes on with "
        said += f"{_list(fact.known_isr)}, and {broker_host(fact.leader)} waits for another leader epoch"
        self.tell_of(seen, said, (fact.topic, fact.partition))

    def request_refused(self, seen: Seen, fact: control_notes.ControlRequestRefused) -> None:
        """A broker does not listen to a zombie."""
        self.tell(
            seen, f"{{}} refuses {fact.api} of controller epoch {fact.controller_epoch}: {fact.error.name}", seen.actor
        )

    def brokers_changed(self, seen: Seen, fact: control_notes.BrokersChanged) -> None:
        """What the controller makes of the registrations."""
        for brokers, what in ((fact.dead, "is gone"), (fact.bounced, "was away"), (fact.new, "is there")):
            for broker in brokers:
                self.tell(seen, f"the controller sees that {{}} {what}", broker_host(broker))

    def elected(self, seen: Seen, fact: control_notes.LeaderElectedForPartition) -> None:
        """By election, not when a partition is new."""
        at = (fact.topic, fact.partition)
        self._isrs[at] = fact.isr
        self._been.setdefault(at, {}).update(dict.fromkeys(fact.isr))
        if fact.strategy != NEW:
            who = "nobody" if fact.leader == NO_LEADER else broker_host(fact.leader)
            unclean = ", unclean" if fact.unclean else ""
            self.tell_of(seen, f"{who} is to lead {{}} ({fact.strategy}{unclean})", at)

    def isr_changed(self, seen: Seen, fact: control_notes.IsrChanged) -> None:
        """Who left an ISR, who is back in it."""
        at = (fact.topic, fact.partition)
        self._held_up.pop(at, None)
        before = self._isrs.get(at, fact.isr)
        self._isrs[at] = fact.isr
        for broker in before:
            if broker not in fact.isr:
                self.tell_of(seen, f"{broker_host(broker)} is out of the ISR of {{}}", at)
        for broker in fact.isr:
            if broker not in before:
                back = " again" if broker in self._been.get(at, ()) else ""
                self.tell_of(seen, f"{broker_host(broker)} is in the ISR of {{}}{back}", at)
        self._been.setdefault(at, {}).update(dict.fromkeys((*before, *fact.isr)))

    def isr_change_failed(self, seen: Seen, fact: control_notes.IsrChangeFailed) -> None:
        """A leader has one request at a time, and waits for its answer until its socket times out: told once."""
        at = (fact.topic, fact.partition)
        if fact.why == ErrorCode.OPERATION_NOT_ATTEMPTED.name and at not in self._held_up:
            self._held_up[at] = None
            said = f"{seen.actor} cannot change the ISR of {{}} yet: its last request to a controller has no answer"
            self.tell_of(seen, said, at)

    def truncated(self, seen: Seen, fact: control_notes.Truncated) -> None:
        """Records that a leader does not have."""
        if fact.end_offset < fact.old_end_offset:
            self.tell_of(seen, f"{seen.actor} cuts records off its log of {{}}", (fact.topic, fact.partition))

    def start_moved(self, seen: Seen, fact: control_notes.LogStartMoved) -> None:
        """Records that are deleted on purpose: once, whoever does it first."""
        at = (fact.topic, fact.partition)
        if fact.start_offset > self._starts.get(at, 0):
            self._starts[at] = fact.start_offset
            self.tell_of(seen, f"records below {fact.start_offset} of {{}} are deleted ({fact.why})", at)

    def log_of_another_topic(self, seen: Seen, fact: control_notes.LogOfAnotherTopic) -> None:
        """A log that nobody has removed."""
        said = f"{seen.actor} takes no part in {{}}: its log was left over of a deleted topic of that name"
        self.tell_of(seen, f"{said} (INCONSISTENT_TOPIC_ID)", (fact.topic, fact.partition))

    def log_dir_failed(self, seen: Seen, fact: control_notes.LogDirFailed) -> None:
        """A disk is gone, and what lay there."""
        there = ", ".join(f"{topic}-{number}" for topic, number in sorted(fact.partitions)) or "nothing that it served"
        self.tell(seen, f"log directory {fact.log_dir} of {seen.actor} has failed, with {there}")

    def topic_created(self, seen: Seen, fact: control_notes.TopicCreated) -> None:
        """By an operator, while the cluster runs."""
        self.tell(seen, f"topic {fact.topic} is there, {fact.partitions} partitions")

    def reassigned(self, seen: Seen, fact: control_notes.ReassignmentStarted) -> None:
        """An admin's wish, or what a new controller found half done."""
        how = "goes on its way" if fact.resumed else "is to go"
        said = f"{{}} {how} from {_list(fact.replicas)} to {_list(fact.target)}"
        self.tell_of(seen, said, (fact.topic, fact.partition))

    def step_committed(self, seen: Seen, fact: control_notes.ReassignmentStepCommitted) -> None:
        """As far as it has come."""
        self.tell_of(seen, f"{{}} is on {_list(fact.replicas)} now", (fact.topic, fact.partition))

    def reassignment_blocked(self, seen: Seen, fact: control_notes.ReassignmentBlocked) -> None:
        """Nobody is there to go to, or nobody can be spared."""
        why = fact.why or "no broker that could get a replica is up"
        self._blocked[fact.topic, fact.partition] = why
        said = f"{{}} waits on its way to {_list(fact.target)}: {why}"
        self.tell_of(seen, said, (fact.topic, fact.partition))

    def deletion_queued(self, seen: Seen, fact: control_notes.TopicDeletionQueued) -> None:
        """By an admin, or found by a new controller."""
        self.tell(seen, f"topic {fact.topic} is to be deleted")

    def deletion_halted(self, seen: Seen, fact: control_notes.TopicDeletionHalted) -> None:
        """Something stands against it."""
        self.tell(seen, f"the deletion of {fact.topic} waits: {fact.why}")

    def reassignment_waits(self, seen: Seen, fact: control_notes.ReassignmentWaits) -> None:
        """What is no matter of course: every step waits for what it copies, and what is blocked is told as that."""
        at = (fact.topic, fact.partition)
        if fact.reason != WaitReason.NOT_IN_SYNC and self._blocked.pop(at, None) != fact.why:
            self.tell_of(seen, f"{{}} waits: {fact.why}", at)

    def topic_deleted(self, seen: Seen, fact: control_notes.TopicDeleted) -> None:
        """Every replica is gone."""
        self.tell(seen, f"topic {fact.topic} is deleted")


def _list(brokers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, brokers))})"


TELLERS: dict[type, Callable[[ControlStory, Seen, Any], None]] = {
    control_notes.SessionEnded: ControlStory.session_ended,
    control_notes.StoreTookOver: ControlStory.store_took_over,
    control_notes.BecameController: ControlStory.became_controller,
    control_notes.ControllerResigned: ControlStory.resigned,
    control_notes.ControllerWriteRefused: ControlStory.write_refused,
    control_notes.IsrWriteRefused: ControlStory.isr_write_refused,
    control_notes.ControlRequestRefused: ControlStory.request_refused,
    control_notes.BrokersChanged: ControlStory.brokers_changed,
    control_notes.LeaderElectedForPartition: ControlStory.elected,
    control_notes.IsrChanged: ControlStory.isr_changed,
    control_notes.IsrChangeFailed: ControlStory.isr_change_failed,
    control_notes.Truncated: ControlStory.truncated,
    control_notes.LogOfAnotherTopic: ControlStory.log_of_another_topic,
    control_notes.LogDirFailed: ControlStory.log_dir_failed,
    control_notes.LogStartMoved: ControlStory.start_moved,
    control_notes.TopicCreated: ControlStory.topic_created,
    control_notes.TopicDeletionQueued: ControlStory.deletion_queued,
    control_notes.TopicDeletionHalted: ControlStory.deletion_halted,
    control_notes.TopicDeleted: ControlStory.topic_deleted,
    control_notes.ReassignmentStarted: ControlStory.reassigned,
    control_notes.ReassignmentStepCommitted: ControlStory.step_committed,
    control_notes.ReassignmentBlocked: ControlStory.reassignment_blocked,
    control_notes.ReassignmentWaits: ControlStory.reassignment_waits,
}
"""Which fact is told by what. Any row is only ever called with its own type of fact."""
