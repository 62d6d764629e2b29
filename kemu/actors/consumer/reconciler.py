"""The steps of a member of the consumer protocol from its assignment to its target (KIP-848), inside poll().

A reconciliation commits the positions, calls onPartitionsRevoked, assigns the partitions, and calls
onPartitionsAssigned. One reconciliation runs at a time, always to the newest target. It stops between two steps if the
member was fenced or leaves.

The network thread takes the steps, and the application's thread runs the callbacks (``actors.consumer.passes``). With
auto-commit, a reconciliation begins only with a pass of the application's thread, whose positions are then settled.

Source: Kafka 4.0 ``AbstractMembershipManager.maybeReconcile``, ``revokeAndAssign``, ``ConsumerMembershipManager``.
"""

from collections.abc import Callable
from functools import partial

from kemu.actors.consumer.commits import Commit, Commits
from kemu.actors.consumer.machine import ConsumerMachine
from kemu.actors.consumer.modern_membership import ModernMembership
from kemu.actors.consumer.modern_state import TURNS, LocalAssignment, ModernState, Resolved
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.state import Result
from kemu.protocol.consumer_group.states import TopicId
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import JOINS
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import AssignmentReceived, PartitionsAssigned
from kemu.protocol.rebalancing.client_rules import ClientRules
from kemu.protocol.rebalancing.rules import minus

_S = ModernState
_RAISED = "a callback of the rebalance listener raised"


class Reconciler:
    """The reconciliations of one member. No member of this protocol leads its group."""

    is_leader = False
    is_leading = False
    holds_poll = False

    def __init__(
        self,
        machine: ConsumerMachine,
        membership: ModernMembership,
        positions: Positions,
        commits: Commits,
        client: ClientRules,
    ) -> None:
        config = machine.config
        self.client = client
        self._machine = machine
        self._membership = membership
        self._positions = positions
        self._commits = commits
        self._group = config.group_id
        self._commit_us = config.max_poll_interval_ms * 1000
        self._retry_us = config.retry_backoff_ms * 1000
        self._names: dict[TopicId, str] = {}
        """The names of the topics of the present assignment."""
        self._running: Resolved | None = None
        """The reconciliation in progress."""
        self._abandoned = False
        """Whether the member has left or rejoined during the commit in progress. The next reconciliation waits for the
        end of this commit (``AbstractMembershipManager.rejoinedWhileReconciliationInProgress``, 4.0 to 4.3).
        """
        self._commit: Commit | None = None
        self._commit_until_us = 0
        """The end of the commit in progress; 0 without a commit."""
        self._commit_retry_us = 0
        self._queued: Callable[[], None] | None = None
        """The callback that the application's thread runs in its next pass."""
        self._not_before_us = 0
        """The time at which the process has loaded its classes for a first assignment, or for the rejoin after a first
        loss.
        """
        self._has_joined = self._has_lost = False
        self._new: tuple[TopicPartition, ...] = ()
        """The assigned partitions before the end of onPartitionsAssigned."""
        self.timer_seen_us = 0
        """The time from which the network thread measures an interval that begins now."""

    # --- events --------------------------------------------------------------------------------------------------

    def resume_leading(self) -> None:
        """Do nothing: the coordinator computes the assignment."""

    def coordinator_found(self) -> None:
        """Continue a commit that waits for a coordinator."""
        self._machine.wake()

    def coordinator_lost(self) -> None:
        """Do nothing: a commit in progress fails by itself."""

    def metadata_refreshed(self, changed: bool) -> None:
        """Continue a reconciliation that waits for the name of a topic."""
        self._machine.wake()

    def lost(self) -> None:
        """Return no records of the lost partitions until the callback, in releases that do so."""
        if self.client.stops_lost_partitions:
            self._positions.stop_serving(self._positions.owned())

    # --- reconciliation ----------------------------------------------------------------------------------------

    def epoch_changed(self, epoch: int) -> None:
        """Let the positions' notes have the member's present epoch. The first answer gives the first epoch."""
        self._positions.generation = epoch
        if epoch > JOINS and not self._has_joined:
            self._has_joined = True
            if loads_us := self._machine.draws.us(DrawName.FIRST_ACK, 0):
                self._not_before_us = self._machine.now_us + loads_us

    def begin(self, *, can_commit: bool) -> None:
        """Begin a reconciliation, unless one is in progress. The network thread alone acknowledges a target without
        new partitions whose topics' names are known: with each answer, until metadata has the missing names.

        ``can_commit``: whether the application's thread is inside poll() and returns no records at this moment.
        """
        machine, membership = self._machine, self._membership
        if self._running is not None:
            return
        target = membership.target
        assert target is not None, f"{machine.name}: nothing to reconcile"
        resolved = self._resolved(target)
        if membership.current is not None and resolved.target.partitions == membership.current.partitions:
            membership.adopted(resolved.target)
            return
        auto_commit = machine.config.enable_auto_commit
        revoked = minus(self._positions.owned(), resolved.named)
        waits = auto_commit or (revoked and self.client.polls_in_the_background)
        if waits and not can_commit:
            return
        self._running = resolved
        machine.note(
            AssignmentReceived(
                group=self._group,
                member_id=membership.member_id,
                generation=membership.epoch,
                partitions=resolved.named,
            )
        )
        self._positions.stop_serving(revoked)
        if auto_commit:
            self._commit_until_us = machine.now_us + self._commit_us
            self.advance()
        else:
            self._committed()

    def advance(self) -> None:
        """Do the network thread's next step."""
        if self._running is None:
            self.begin(can_commit=False)
        elif self._commit_until_us and self._is_over():
            self._committed()

    @property
    def commits(self) -> bool:
        """Whether the commit before a reconciliation is in progress."""
        return self._commit_until_us > 0

    @property
    def has_callback(self) -> bool:
        """Whether a callback waits for the application's thread."""
        return self._queued is not None

    @property
    def loads_until_us(self) -> int:
        """The time until which a callback or a rejoin waits for the classes of its process; 0 if none is requested."""
        waits = self._queued is not None or self._membership.modern in (_S.FENCED, _S.STALE)
        return self._not_before_us if waits else 0

    def call_listener(self) -> bool:
        """Run the callback that the network thread has requested. Returns whether there was a callback."""
        if self._machine.now_us < self._not_before_us:
            return False
        queued, self._queued = self._queued, None
        if queued is not None:
            queued()
        elif self._membership.modern in (_S.FENCED, _S.STALE):
            self._lose_everything()
        else:
            return False
        return True

    def _resolved(self, target: LocalAssignment) -> Resolved:
        """The part of the target whose topics' names are known; missing names are requested."""
        metadata = self._machine.metadata
        known = {layout.topic_id: name for name, layout in metadata.cluster.topics.items() if layout.topic_id}
        names = {topic: known.get(topic) or self._names.get(topic, "") for topic, _ in target.partitions}
        if not all(names.values()):
            metadata.refresh_often()
        self._names.update({topic: name for topic, name in names.items() if name})
        part = frozenset(at for at in target.partitions if names[at[0]])
        named = tuple(sorted((names[topic], number) for topic, number in part))
        return Resolved(LocalAssignment(target.number, part), named)

    def _is_over(self) -> bool:
        """Whether the commit before the reconciliation is over: done, failed for good, or too late."""
        machine = self._machine
        if machine.now_us >= self._commit_until_us:
            return True
        if machine.now_us < self._commit_retry_us:
            machine.wake_at(self._commit_retry_us)
            return False
        if self._commit is None:
            self._commit = self._commits.send()
        result, error = self._commit.result, self._commit.error
        if result is None:
            machine.wake_at(self._commit_until_us)
            return False
        # Retries for a deleted topic would last until the rebalance timeout (CommitRequestManager 4.0 to 4.3).
        again = result is Result.RETRIABLE and error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        stale = error is ErrorCode.STALE_MEMBER_EPOCH and self._membership.epoch > JOINS
        if again or stale:
            self._commit = None
            self._commit_retry_us = machine.now_us + self._retry_us
            machine.wake_at(self._commit_retry_us)
            return False
        return True

    def _committed(self) -> None:
        self._commit, self._commit_until_us, self._commit_retry_us = None, 0, 0
        assert self._running is not None
        revoked = minus(self._positions.owned(), self._running.named)
        if self._is_outdated():
            return
        if revoked:
            self._queued = partial(self._machine.call_listener, "onPartitionsRevoked", revoked, self._revoked)
            self._machine.wake()
        else:
            self._assign()

    def _is_outdated(self) -> bool:
        """Whether the member has left the state RECONCILING, so that the reconciliation stops."""
        if self._membership.modern is _S.RECONCILING and not self._abandoned:
            return False
        self._running, self._abandoned = None, False
        return True

    def _revoked(self, revoked: tuple[TopicPartition, ...], raised: bool) -> None:
        if raised:
            self._running = None
            self._machine.raise_to_application(_RAISED)
            return
        outdated = self._is_outdated()
        self._positions.revoke(revoked, drops=not outdated)  # onPartitionsLost names them again
        if not outdated:
            self._assign()

    def _assign(self) -> None:
        """Assign the partitions. New partitions are not fetched before the end of the callback."""
        assert self._running is not None
        membership, positions = self._membership, self._positions
        named = self._running.named
        self._new = minus(named, positions.owned())
        self._queued = self._call_assigned
        loads_us = 0
        if self._new and membership.current is None:
            loads_us = self._machine.draws.us(DrawName.FIRST_JOIN, 0)
            self._not_before_us = self._machine.now_us + loads_us
        if not self.client.assigns_with_the_callback:
            positions.assign(named, membership.epoch, membership.member_id)
            positions.hold(self._new, loads_us * 3 // 4)
        self._machine.wake()

    def _call_assigned(self) -> None:
        machine, membership, positions = self._machine, self._membership, self._positions
        assert self._running is not None
        added, self._new = self._new, ()
        if self.client.assigns_with_the_callback:
            positions.assign(self._running.named, membership.epoch, membership.member_id)
            positions.hold(added)
        machine.note(
            PartitionsAssigned(
                group=self._group,
                member_id=membership.member_id,
                generation=membership.epoch,
                added=added,
                owned=positions.owned(),
            )
        )
        positions.report()
        machine.call_listener("onPartitionsAssigned", added, self._assigned)

    def _assigned(self, added: tuple[TopicPartition, ...], raised: bool) -> None:
        running, outdated = self._running, self._is_outdated()
        self._running = None
        if not raised:
            self._positions.serve(added)
        if raised:
            self._machine.raise_to_application(_RAISED)
        elif running is not None and not outdated:
            self._commits.restart_interval(self.timer_seen_us)
            client, chance = self.client, self._machine.chance
            late = client.assigns_with_the_callback and not chance.below(TURNS)
            if late or (not client.polls_in_the_background and chance.below(2)):
                self._positions.poll()  # the next event of poll() overtakes the network thread
            self._membership.adopted(running.target)
            topics = {topic for topic, _ in running.target.partitions}
            self._names = {topic: name for topic, name in self._names.items() if topic in topics}

    # --- giving up ---------------------------------------------------------------------------------------------

    def _lose_everything(self) -> None:
        """Give up all partitions as lost, because the membership has ended; then rejoin."""
        self._stop()
        owned = self._positions.owned()
        if owned:
            self._machine.call_listener("onPartitionsLost", owned, self._lost)
        else:
            self._membership.join("rejoin")

    def _lost(self, lost: tuple[TopicPartition, ...], raised: bool) -> None:
        self._positions.lose(lost)
        if self._membership.modern in (_S.FENCED, _S.STALE):
            loads_us = 0 if self._has_lost else self._machine.draws.us(DrawName.FIRST_JOIN, 0)
            self._has_lost = True
            self._not_before_us = self._machine.now_us + loads_us
            if loads_us:
                self._machine.wake_at(self._not_before_us)
            else:
                self._membership.join("rejoin")
        if raised:
            self._machine.raise_to_application(_RAISED)

    def give_up_everything(self, then: Callable[[], None]) -> None:
        """Revoke all partitions, or give them up as lost after the end of the membership; ``then`` follows."""
        membership = self._membership
        is_member = membership.epoch > 0 and membership.modern is not _S.FATAL
        membership.prepare_leaving("leaves the group")
        self._stop()
        self._positions.stop_serving(self._positions.owned())
        self._positions.give_up_everything(not is_member, then)

    def _stop(self) -> None:
        if self._commit_until_us:
            self._abandoned = True
        else:
            self._running = None
        self._queued = None
        new, self._new = self._new, ()
        self._positions.drop(tuple(at for at in new if at in self._positions.partitions))
