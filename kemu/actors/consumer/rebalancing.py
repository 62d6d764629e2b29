"""The consumer's steps around a join: commit and revoke partitions, assign as the leader, adopt the assignment.

The module is a part of the consumer that always runs on the polling thread. Callbacks of the listener take time; the
next step waits for a callback's end. ``MemberRules`` (eager, cooperative) select the partitions to revoke.

Source: Kafka's ``ConsumerCoordinator``: ``onJoinPrepare``, ``onLeaderElected``, ``onJoinComplete``, ``onLeavePrepare``.
"""

from collections.abc import Callable, Mapping

from kemu.actors.consumer.commits import Commit, Commits
from kemu.actors.consumer.machine import ConsumerMachine
from kemu.actors.consumer.membership import Membership
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.reasons import METADATA_CHANGED, NOT_SUBSCRIBED
from kemu.actors.consumer.state import Generation, MemberState, Result
from kemu.protocol.assign.base import Assignor, MemberAssignor, Subscriber, Topics, for_member
from kemu.protocol.assign.checked import InvalidAssignment, NotAnAssignor
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.group import JoinGroupReply, JoinProtocol, MemberAssignment
from kemu.protocol.messages.member import Subscription
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, MemberId, TopicPartition
from kemu.protocol.notes.groups import (
    AssignmentRefused,
    IncompatibleRebalance,
    PartitionsAssigned,
    Rejoin,
)
from kemu.protocol.rebalancing.client_rules import ClientRules
from kemu.protocol.rebalancing.rules import Given, Known, MemberRules, MemberSubscription, minus
from kemu.protocol.wire.codec import CodecError

INCOMPATIBLE = "members of incompatible rebalance protocols are in the group"


class Rebalancing:
    """The consumer's steps before and after a join. ``assignors``: the configured assignors, the preferred
    one first.
    """

    def __init__(
        self,
        machine: ConsumerMachine,
        membership: Membership,
        positions: Positions,
        commits: Commits,
        assignors: tuple[Assignor, ...],
        rules: MemberRules,
    ) -> None:
        self.rules = rules
        self.is_leader = False
        self._machine = machine
        self._membership = membership
        self._positions = positions
        self._commits = commits
        self._group = machine.config.group_id
        self._assignors: Mapping[str, MemberAssignor] = {one.name: for_member(one) for one in assignors}
        self._leading: tuple[JoinGroupReply, dict[MemberId, MemberSubscription]] | None = None
        """The answer to JoinGroup and each member's metadata, while the leader waits for topic metadata or the
        assignor.
        """
        self._known: Known = ()
        """The members of the generation, if this member led it."""
        self._incompatible: tuple[int, Known] | None = None
        """The generation and known members of the last assignment, if it contained INCOMPATIBLE_MEMBERS."""
        self._assigned_from: Topics | None = None
        """The topic metadata that the leader used for its last assignment."""
        self._snapshots: tuple[tuple[int, Topics], ...] = ()
        """Snapshots of the topic metadata, each with its arrival time, that a leader without a coordinator collects."""
        self._commit: Commit | None = None
        """The auto-commit before a join."""
        self._prepare_until_us = 0
        self._commit_retry_us = 0
        self._raised = False
        """Whether a callback of this onJoinPrepare or onJoinComplete raised an error."""
        self._taking: tuple[Generation, Given] | None = None
        """The assignment in onJoinComplete, and its generation: the heartbeat thread may reset the present
        generation.
        """

    @property
    def prepares_after_reset(self) -> bool:
        return self.rules.prepare_after_reset

    @property
    def heeds_resets(self) -> bool:
        return self.rules.heeds_resets_while_joining

    @property
    def client(self) -> ClientRules:
        return self.rules.client

    @property
    def holds_poll(self) -> bool:
        """Whether poll() returns no records during a join, or during the commit before a join."""
        client = self.client
        return not client.returns_records_while_joining or (
            not client.serves_while_committing and self._prepare_until_us > 0
        )

    @property
    def protocol_type(self) -> str:
        return self.rules.protocol_type

    def reconcile(self) -> None:
        raise AssertionError("a classic member has no target")

    def lose_everything(self) -> None:
        raise AssertionError("a classic member loses its partitions before a join")

    def epoch_changed(self, epoch: int) -> None:
        raise AssertionError("a classic member has no epoch")

    # --- before the join ---------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        if not self._commit_before_join():
            return False
        machine = self._machine
        membership, owned = self._membership, self._positions.owned()
        membership.needs_prepare = False
        self._raised = False
        if membership.generation.id == NO_GENERATION or membership.generation.member_id == UNKNOWN_MEMBER:
            if owned:
                machine.call_listener("onPartitionsLost", owned, self._lost_before_join)
            else:
                self._prepared()
        else:
            give_up = self.rules.give_up_before_join(owned, machine.subscription.topics)
            if give_up is not None:
                machine.call_listener("onPartitionsRevoked", give_up, self._revoked_before_join)
            else:
                self._prepared()
        return machine.polling

    def _commit_before_join(self) -> bool:
        """Commit the positions, for at most the rebalance timeout. False while the commit is in progress."""
        machine = self._machine
        now_us, config = machine.now_us, machine.config
        if not config.enable_auto_commit:
            return True
        if not self._prepare_until_us:
            self._prepare_until_us = now_us + config.max_poll_interval_ms * 1000
        if now_us < self._prepare_until_us:
            if now_us < self._commit_retry_us:
                machine.wake_at(min(self._commit_retry_us, self._prepare_until_us))
                return False
            if self._commit is None:
                if not self.rules.serve_while_joining:
                    self._positions.stop_serving()
                self._commit = self._commits.send()
            result = self._commit.result
            if result is None:
                machine.wake_at(self._prepare_until_us)
                return False
            if result is Result.RETRIABLE:
                self._commit = None
                self._commit_retry_us = now_us + config.retry_backoff_ms * 1000
                machine.wake_at(min(self._commit_retry_us, self._prepare_until_us))
                return False
        self._commit = None
        self._prepare_until_us = self._commit_retry_us = 0
        return True

    def _lost_before_join(self, lost: tuple[TopicPartition, ...], raised: bool) -> None:
        self._positions.lose(lost)
        self._prepared(raised)

    def _revoked_before_join(self, revoked: tuple[TopicPartition, ...], raised: bool) -> None:
        self._positions.revoke(revoked)
        self._prepared(raised)

    def _prepared(self, raised: bool = False) -> None:
        self.is_leader = False
        self._machine.metadata.want(self._machine.subscription.topics)
        if raised:
            self._machine.raise_to_application("a callback of the rebalance listener raised")

    # --- subscriptions -----------------------------------------------------------------------------------------

    def subscriptions(self) -> tuple[JoinProtocol, ...]:
        machine, topics = self._machine, self._machine.subscription.topics
        version, rack = machine.versions.subscription, machine.config.client_rack or None
        owned, generation = tuple(sorted(self._positions.owned())), self._membership.generation.id
        self._known = ()
        return tuple(
            JoinProtocol(
                name=name,
                metadata=self.rules.write_subscription(
                    Subscription(topics, assignor.user_data(topics), owned, generation, rack),
                    version,
                ),
            )
            for name, assignor in self._assignors.items()
        )

    # --- the leader --------------------------------------------------------------------------------------------

    def lead(self, reply: JoinGroupReply) -> None:
        """Assign partitions to all members, once the metadata of all their topics is known."""
        try:
            by_member = {row.member_id: self.rules.leading.read(row.metadata) for row in reply.members}
        except CodecError as error:
            self._membership.leading_failed(f"a member's subscription cannot be read: {error}")
            return
        metadata = self._machine.metadata
        topics = {topic for one in by_member.values() for topic in one.subscription.topics}
        metadata.want(tuple(sorted(topics.union(self._machine.subscription.topics))))
        self._leading = reply, by_member
        if not metadata.stale:
            self._assign()

    @property
    def is_leading(self) -> bool:
        """Whether the polling thread waits in the leader's part of a join."""
        return self._leading is not None

    def metadata_refreshed(self, changed: bool) -> None:
        """Metadata arrived: continue as the waiting leader, or check whether the stable group needs a rebalance."""
        if self._leading is not None:
            if not self._machine.metadata.behind:
                self._assign()
        elif changed and self.is_leader:
            if self._machine.discovery.coordinator is None:
                self._snapshots += ((self._machine.now_us, self._snapshot()),)
            else:
                self._check_metadata()

    def coordinator_lost(self) -> None:
        """Only collect snapshots of metadata from now on: poll() checks no metadata until the coordinator is found."""
        self._snapshots = ((0, self._snapshot()),) if self.is_leader else ()

    def coordinator_found(self) -> None:
        """Continue poll() with the snapshot from its beginning. The next poll() uses later metadata.

        Source: ``ConsumerCoordinator.poll`` (3.4.1): ``maybeUpdateSubscriptionMetadata``, then
        ``coordinatorUnknownAndUnreadySync`` for its whole duration, and then ``rejoinNeededOrPending``.
        """
        snapshots, self._snapshots = self._snapshots, ()
        if not self.is_leader or self._leading is not None:
            return
        if self._machine.polling:
            began_us, _ = self._machine.poll_span_us
            taken = [snapshot for since_us, snapshot in snapshots if since_us <= began_us]
            self._check_against(taken[-1] if taken else self._snapshot())
        self._check_metadata()

    def resume_leading(self) -> None:
        """Assign partitions, now that the assignor has its missing input, unless metadata is still missing."""
        if self._leading is not None and not self._machine.metadata.behind:
            self._assign()

    def membership_reset(self) -> None:
        """React to a reset of the membership: stop waiting as the leader."""
        self._incompatible = None
        if self._leading is not None:
            self._leading = None
            self._membership.leading_ended()

    def _check_metadata(self) -> None:
        """Rejoin if the leader's assignment used other metadata than the present metadata
        (``rejoinNeededOrPending``).
        """
        self._check_against(self._snapshot())

    def _check_against(self, snapshot: Topics) -> None:
        if self.is_leader and not self._membership.rejoin_needed and self._assigned_from != snapshot:
            self._membership.request_rejoin(METADATA_CHANGED)

    def _snapshot(self) -> Topics:
        metadata = self._machine.metadata
        seen = metadata.cluster.seen_by_assignor(metadata.interest)
        # Kafka's snapshot contains racks only if the client has a rack.
        return seen if self._machine.config.client_rack else Topics(seen.partitions)

    def _assign(self) -> None:
        assert self._leading is not None
        reply, by_member = self._leading
        self._leading = None
        machine = self._machine
        membership = self._membership
        self.is_leader = True
        self._known = tuple(sorted(by_member))
        self._assigned_from = self._snapshot()
        if reply.skip_assignment:
            membership.send_sync(())
            return
        assignor = self._assignors.get(reply.protocol_name or "")
        if assignor is None:
            membership.leading_failed(f"the coordinator selected an unknown protocol: {reply.protocol_name}")
            return
        members = {row.member_id: _subscriber(by_member[row.member_id], row.instance_id) for row in reply.members}
        topics = machine.metadata.cluster.seen_by_assignor(machine.metadata.interest)
        try:
            decided = assignor.assign(topics, members)
        except (InvalidAssignment, NotAnAssignor) as error:
            membership.leading_failed(str(error))
            return
        if decided is None:
            self._leading = reply, by_member
            return
        too_early = self.rules.moved_too_early(assignor.name, members, decided.partitions)
        if too_early:
            names = ", ".join(f"{topic}-{number}" for topic, number in too_early)
            membership.leading_failed(f"{assignor.name} assigned partitions that other members still own: {names}")
            return
        leading, version, bytes_of = self.rules.leading, machine.versions.subscription, decided.user_data
        rows: list[MemberAssignment] = []
        for one, given in leading.segment(decided.partitions, by_member).items():
            if one in bytes_of:
                given = evolve(given, user_data=bytes_of[one])
            rows.append(
                MemberAssignment(member_id=one, assignment=leading.write(given, by_member[one].version, version))
            )
        membership.send_sync(tuple(rows))

    # --- after the join ----------------------------------------------------------------------------------------

    def complete(self, data: bytes) -> bool:
        machine, membership = self._machine, self._membership
        repeated, self._raised = self._raised, False
        if not self.is_leader:
            self._assigned_from = None
        if membership.generation.protocol not in self._assignors:
            why = f"the coordinator selected an unknown protocol: {membership.generation.protocol}"
            return self._reject_assignment(why)
        if len(data) < 2:
            return self._reject_assignment("the leader left this member out of the assignment")
        try:
            given = self.rules.read_assignment(data)
        except CodecError as error:
            return self._reject_assignment(f"the assignment cannot be read: {error}")
        if not repeated:
            membership.assignment_received(given.assigned)
        if not self._is_subscribed_to({topic for topic, _ in given.assigned}):
            membership.assignment_taken()
            membership.request_rejoin(NOT_SUBSCRIBED)
            return True
        changes = self.rules.after_sync(self._positions.owned(), given)
        if changes.violation:
            self._refuse(changes.violation)
        if changes.violation or changes.failed:
            return self._reject_assignment(changes.violation or changes.failed)
        self._taking = membership.generation, given
        self._check_incompatible(changes.incompatible)
        if changes.revoked:
            after = self._revoked_and_rejoins if changes.rejoin else self._revoked_after_join
            machine.call_listener("onPartitionsRevoked", changes.revoked, after)
        else:
            if changes.rejoin:
                membership.request_rejoin("the new assignment asks for another rebalance")
            self._take()
        return machine.polling

    def _is_subscribed_to(self, assigned: set[str]) -> bool:
        """Whether the assigned topics are subscribed.

        Topics that match the pattern become subscribed: the leader learned of them before this member.
        Source: ``SubscriptionState.checkAssignmentMatchedSubscription``,
        ``ConsumerCoordinator.maybeUpdateJoinedSubscription``.
        """
        machine = self._machine
        if machine.subscription.pattern is None or assigned.issubset(machine.subscription.topics):
            return assigned.issubset(machine.subscription.topics)
        if not all(map(machine.subscription.pattern.matches, assigned)):
            return False
        before = machine.subscription.topics
        machine.subscription.match((*before, *assigned), keeps_others=self.is_leader)
        if self._membership.joined_topics == before:
            self._membership.joined_topics = machine.subscription.topics
        return True

    def _check_incompatible(self, incompatible: bool) -> None:
        """Report an assignment with INCOMPATIBLE_MEMBERS once per generation, and rejoin if the rules say so."""
        before, self._incompatible = self._incompatible, None
        if not incompatible:
            return
        membership, config = self._membership, self._machine.config
        generation, member_id, _ = membership.generation
        self._incompatible = generation, self._known
        if before is None or before[0] != generation:
            self._machine.note(IncompatibleRebalance(group=self._group, member_id=member_id, generation=generation))
        if self.rules.rejoin_when_incompatible(before and before[1], self._known):
            wait_us = config.retry_backoff_ms * 1000 if self.rules.waits_when_incompatible else 0
            membership.request_rejoin(INCOMPATIBLE, wait_us)

    def _refuse(self, why: str) -> None:
        generation, member_id, _ = self._membership.generation
        self._machine.note(AssignmentRefused(group=self._group, member_id=member_id, generation=generation, why=why))

    def _reject_assignment(self, why: str) -> bool:
        self._machine.fail(ErrorCode.UNKNOWN_SERVER_ERROR, why)
        return False

    def _revoked_and_rejoins(self, revoked: tuple[TopicPartition, ...], raised: bool) -> None:
        self._membership.request_rejoin(Rejoin.REVOKED)
        self._revoked_after_join(revoked, raised)

    def _revoked_after_join(self, revoked: tuple[TopicPartition, ...], raised: bool) -> None:
        self._positions.revoke(revoked)
        self._raised = raised
        self._take()

    def _take(self) -> None:
        """Own the assigned partitions, and call onPartitionsAssigned, even without new partitions."""
        assert self._taking is not None
        machine = self._machine
        (generation, member_id, protocol), given = self._taking
        added = minus(given.assigned, self._positions.owned())
        self._positions.assign(given.assigned, generation, member_id)
        self._assignors[protocol or ""].on_assignment(given.assigned, given.user_data, generation)
        self._commits.restart_interval()
        machine.note(
            PartitionsAssigned(
                group=self._group,
                member_id=member_id,
                generation=generation,
                added=added,
                owned=self._positions.owned(),
            )
        )
        machine.call_listener("onPartitionsAssigned", added, self._assigned)

    def _assigned(self, added: tuple[TopicPartition, ...], raised: bool) -> None:
        self._taking = None
        if raised or self._raised:
            self._raised = True
            self._machine.raise_to_application("a callback of the rebalance listener raised")
            return
        self._membership.assignment_taken()
        self._check_metadata()

    # --- leaving -----------------------------------------------------------------------------------------------

    def give_up_everything(self, then: Callable[[], None]) -> None:
        """Revoke all partitions, or give them up as lost (onLeavePrepare); ``then`` follows the callback."""
        self._positions.stop_serving()
        membership = self._membership
        self.is_leader = False
        rebalancing = membership.state in (MemberState.PREPARING, MemberState.COMPLETING)
        is_lost = membership.generation.id == NO_GENERATION or not membership.generation.member_id or rebalancing
        self._positions.give_up_everything(is_lost, then)


def _subscriber(member: MemberSubscription, instance_id: str | None) -> Subscriber:
    its = member.subscription
    return Subscriber(its.topics, its.owned, its.generation, its.rack, instance_id, its.user_data)


def assignors_of(config: ConsumerConfig, assignors: Mapping[str, Assignor]) -> tuple[Assignor, ...]:
    """The configured assignors, the preferred assignor first.

    Raises:
        ValueError: the configuration names an unknown assignor.
    """
    for name in config.partition_assignment_strategy:
        if name not in assignors:
            raise ValueError(f"partition.assignment.strategy: no assignor is called {name!r}")
    return tuple(assignors[name] for name in dict.fromkeys(config.partition_assignment_strategy))
