"""Story lines about the control plane: controllers, leaders, ISRs, truncations, reassignments, deletions."""

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
    """The signature of ``Story.add``: time, kind, a sentence with "{}" as a placeholder, and one host or partition."""

    def __call__(self, at_us: int, kind: str, sentence: str, who: str = "") -> None:
        """Add a line."""


class ControlStory:
    """Adds lines about the control plane to a story, which merges equal lines about several partitions."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._isrs: dict[TopicPartition, tuple[int, ...]] = {}
        self._former: dict[TopicPartition, dict[int, None]] = {}
        """Partition -> all brokers that were in its ISR at any time."""
        self._held_up: dict[TopicPartition, None] = {}
        """Partitions for which the story tells that the leader cannot change the ISR."""
        self._starts: dict[TopicPartition, int] = {}
        """Partition -> the highest log start offset in a story line."""
        self._blocked: dict[TopicPartition, str] = {}
        """Partition -> the reason in the last story line about its blocked reassignment."""

    def tell(self, seen: Seen, sentence: str, host: str = "") -> None:
        """Add one line; ``host`` replaces the placeholder of the sentence."""
        self._add(seen.at_us, CONTROL, sentence, host)

    def tell_of(self, seen: Seen, sentence: str, at: TopicPartition) -> None:
        """Add one line; the partition ``at`` replaces the placeholder of the sentence."""
        self._add(seen.at_us, PARTITIONS, sentence, f"{at[0]}-{at[1]}")

    def session_ended(self, seen: Seen, fact: control_notes.SessionEnded) -> None:
        """Tell that the store ended the session of a client that had not closed the session."""
        if fact.why != "closed":
            self.tell(seen, f"the store ended the session of {fact.client}: {fact.why}")

    def store_took_over(self, seen: Seen, fact: control_notes.StoreTookOver) -> None:
        """Tell that the store serves requests again after a failure."""
        self.tell(seen, f"the store recovered: {fact.sessions} sessions, each with its full timeout from now on")

    def became_controller(self, seen: Seen, fact: control_notes.BecameController) -> None:
        """Tell the election of a controller."""
        self.tell(seen, f"{broker_host(fact.broker_id)} elected controller, epoch {fact.controller_epoch}")

    def resigned(self, seen: Seen, fact: control_notes.ControllerResigned) -> None:
        """Tell that a controller resigned."""
        self.tell(
            seen, f"{broker_host(fact.broker_id)} resigned as controller of epoch {fact.controller_epoch}: {fact.why}"
        )

    def write_refused(self, seen: Seen, fact: control_notes.ControllerWriteRefused) -> None:
        """Tell that the store fenced a deposed controller."""
        self.tell(seen, f"the store fenced {broker_host(fact.broker_id)}: a write of a deposed controller")

    def isr_write_refused(self, seen: Seen, fact: control_notes.IsrWriteRefused) -> None:
        """Tell that the store refused an ISR because of its version, often after a lost answer to an earlier write."""
        said = f"the store refused the controller's ISR {_list(fact.isr)} of {{}} (version mismatch): the ISR stays "
        said += f"{_list(fact.known_isr)}, and {broker_host(fact.leader)} waits for another leader epoch"
        self.tell_of(seen, said, (fact.topic, fact.partition))

    def request_refused(self, seen: Seen, fact: control_notes.ControlRequestRefused) -> None:
        """Tell that a broker fenced a deposed controller."""
        self.tell(
            seen, f"{{}} refused {fact.api} of controller epoch {fact.controller_epoch}: {fact.error.name}", seen.actor
        )

    def brokers_changed(self, seen: Seen, fact: control_notes.BrokersChanged) -> None:
        """Tell that the controller sees new or lost registrations of brokers."""
        for brokers, what in ((fact.dead, "deleted"), (fact.bounced, "bounced"), (fact.new, "newly added")):
            for broker in brokers:
                self.tell(seen, f"the controller sees {what} broker {{}}", broker_host(broker))

    def elected(self, seen: Seen, fact: control_notes.LeaderElectedForPartition) -> None:
        """Tell the election of a leader, except for a new partition."""
        at = (fact.topic, fact.partition)
        self._isrs[at] = fact.isr
        self._former.setdefault(at, {}).update(dict.fromkeys(fact.isr))
        if fact.strategy != NEW:
            how = f"({fact.strategy}{', unclean' if fact.unclean else ''})"
            if fact.leader == NO_LEADER:
                self.tell_of(seen, f"no leader elected for {{}} {how}", at)
            else:
                self.tell_of(seen, f"{broker_host(fact.leader)} elected leader of {{}} {how}", at)

    def isr_changed(self, seen: Seen, fact: control_notes.IsrChanged) -> None:
        """Tell which replicas a leader removed from an ISR or added to an ISR."""
        at = (fact.topic, fact.partition)
        self._held_up.pop(at, None)
        before = self._isrs.get(at, fact.isr)
        self._isrs[at] = fact.isr
        for broker in before:
            if broker not in fact.isr:
                self.tell_of(seen, f"{broker_host(broker)} removed from the ISR of {{}}", at)
        for broker in fact.isr:
            if broker not in before:
                again = " again" if broker in self._former.get(at, ()) else ""
                self.tell_of(seen, f"{broker_host(broker)} added to the ISR of {{}}{again}", at)
        self._former.setdefault(at, {}).update(dict.fromkeys((*before, *fact.isr)))

    def isr_change_failed(self, seen: Seen, fact: control_notes.IsrChangeFailed) -> None:
        """Tell once that a leader cannot change an ISR, because its only request in flight has no answer yet."""
        at = (fact.topic, fact.partition)
        if fact.why == ErrorCode.OPERATION_NOT_ATTEMPTED.name and at not in self._held_up:
            self._held_up[at] = None
            said = f"{seen.actor} cannot change the ISR of {{}} yet: the controller did not answer its last request"
            self.tell_of(seen, said, at)

    def truncated(self, seen: Seen, fact: control_notes.Truncated) -> None:
        """Tell that a follower removed records that its leader does not have."""
        if fact.end_offset < fact.old_end_offset:
            self.tell_of(seen, f"{seen.actor} truncated its log of {{}}", (fact.topic, fact.partition))

    def start_moved(self, seen: Seen, fact: control_notes.LogStartMoved) -> None:
        """Tell once that records were deleted by retention or DeleteRecords, at the first replica that deletes them."""
        at = (fact.topic, fact.partition)
        if fact.start_offset > self._starts.get(at, 0):
            self._starts[at] = fact.start_offset
            self.tell_of(seen, f"records below {fact.start_offset} of {{}} were deleted ({fact.why})", at)

    def log_of_another_topic(self, seen: Seen, fact: control_notes.LogOfAnotherTopic) -> None:
        """Tell that a broker cannot make a replica, because it has a log of a deleted topic with the same name."""
        said = f"{seen.actor} does not replicate {{}}: its log is of a deleted topic of that name"
        self.tell_of(seen, f"{said} (INCONSISTENT_TOPIC_ID)", (fact.topic, fact.partition))

    def log_dir_failed(self, seen: Seen, fact: control_notes.LogDirFailed) -> None:
        """Tell that a log directory failed, and name the online replicas in the directory."""
        there = ", ".join(f"{topic}-{number}" for topic, number in sorted(fact.partitions)) or "no online replica"
        self.tell(seen, f"log directory {fact.log_dir} of {seen.actor} failed, with {there}")

    def topic_created(self, seen: Seen, fact: control_notes.TopicCreated) -> None:
        """Tell that a topic was created during the run."""
        self.tell(seen, f"topic {fact.topic} created with {fact.partitions} partitions")

    def reassigned(self, seen: Seen, fact: control_notes.ReassignmentStarted) -> None:
        """Tell a reassignment that an admin requested, or that a new controller resumed."""
        how = "resumed" if fact.resumed else "started"
        said = f"reassignment of {{}} from {_list(fact.replicas)} to {_list(fact.target)} {how}"
        self.tell_of(seen, said, (fact.topic, fact.partition))

    def step_committed(self, seen: Seen, fact: control_notes.ReassignmentStepCommitted) -> None:
        """Tell a finished step of a reassignment."""
        self.tell_of(seen, f"the replicas of {{}} are {_list(fact.replicas)} now", (fact.topic, fact.partition))

    def reassignment_blocked(self, seen: Seen, fact: control_notes.ReassignmentBlocked) -> None:
        """Tell that a reassignment cannot begin its next step, and the reason."""
        why = fact.why or "no broker that could get a replica is up"
        self._blocked[fact.topic, fact.partition] = why
        said = f"reassignment of {{}} to {_list(fact.target)} waits: {why}"
        self.tell_of(seen, said, (fact.topic, fact.partition))

    def deletion_queued(self, seen: Seen, fact: control_notes.TopicDeletionQueued) -> None:
        """Tell a deletion of a topic that an admin requested, or that a new controller found."""
        self.tell(seen, f"topic {fact.topic} queued for deletion")

    def deletion_halted(self, seen: Seen, fact: control_notes.TopicDeletionHalted) -> None:
        """Tell that the deletion of a topic waits, and the reason."""
        self.tell(seen, f"the deletion of {fact.topic} waits: {fact.why}")

    def reassignment_waits(self, seen: Seen, fact: control_notes.ReassignmentWaits) -> None:
        """Tell that a reassignment waits. Omit the wait for in-sync replicas, and a reason already told as blocked."""
        at = (fact.topic, fact.partition)
        if fact.reason != WaitReason.NOT_IN_SYNC and self._blocked.pop(at, None) != fact.why:
            self.tell_of(seen, f"reassignment of {{}} waits: {fact.why}", at)

    def topic_deleted(self, seen: Seen, fact: control_notes.TopicDeleted) -> None:
        """Tell that every replica of a topic is deleted."""
        self.tell(seen, f"topic {fact.topic} deleted")


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
"""Type of fact -> the method that adds a line about the fact. Each method accepts only its type of fact."""
