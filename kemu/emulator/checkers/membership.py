"""A coordinator's answers and rebalances agree with a model of the group.

``watching/shadow_groups.py`` builds the model from the requests that the
coordinator read.

- evicted: a removed member left, was replaced or refused, or missed a
  timeout.
- refused, accepted: an error, or its absence, was true at the read or at
  the answer.
- no-cause, join-phase: a join phase has a cause, and ends when no member is
  awaited or at its timeout.
- join-answer: a join gets the present generation; only the leader gets the
  members.
- protocol, assignment: each member supports the protocol, and gets what the
  leader sent.
- not-revoked: a member's owned partitions belong to its topics.
- left-out, not-divided, not-ranged, not-sticky, off-rack, unbalanced: the
  assignor's promises (``assignments.py``).
- transition, generation, members, loaded: states follow ``GroupMetadata``;
  generations rise by 1; a generation has members of the group; a loaded
  group is Empty or Stable.

Source: Kafka 3.4 ``GroupCoordinator``, ``GroupMetadata``; answers recorded
in tests/data/raw-requests.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

from kemu.actors.machine import Received, Send
from kemu.emulator.checkers.assignments import broken_promises, owned_unsubscribed
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, FaultApplied, HostDown, Seen, received, sent
from kemu.emulator.watching.settings import Settings
from kemu.emulator.watching.shadow_groups import (
    COMPLETING,
    DEAD,
    EARLY,
    EMPTY,
    OF_MEMBERS,
    PREPARING,
    STABLE,
    GroupRequest,
    ShadowGroup,
    ShadowGroups,
    ShadowMember,
)
from kemu.protocol.config import GROUP_PROTOCOLS
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import MetadataReply
from kemu.protocol.messages.group import SyncGroup
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, GroupId, MemberId, host_of, is_real_client
from kemu.protocol.notes.consumer_groups import GroupConverted, GroupEpochsChanged
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    GroupRecordWritten,
    GroupRequestAnswered,
    GroupRequestRead,
    JoinPhaseCompleted,
    MemberAdded,
    MemberRemoved,
)
from kemu.protocol.notes.replication import BecameLeader

_E = ErrorCode
_JAVA_SINCE = (4, 0)
"""The first release with the Java coordinator."""
JUDGED = (
    _E.NONE,
    _E.FENCED_INSTANCE_ID,
    _E.UNKNOWN_MEMBER_ID,
    _E.ILLEGAL_GENERATION,
    _E.REBALANCE_IN_PROGRESS,
)
"""Judged errors, which concern the group. Other errors concern the group's log, the broker or the request."""
LATE = 1.01
"""Factor for bounds: a host's clock may be wrong by less than one per cent."""
SLACK_US = 1_000_000
"""Longest delay of a coordinator's due action, in us."""

CLASSIC_PROTOCOL, _ = GROUP_PROTOCOLS

MAY_FOLLOW: Mapping[str, tuple[str, ...]] = {
    PREPARING: (EMPTY, COMPLETING, STABLE),
    COMPLETING: (PREPARING,),
    STABLE: (COMPLETING,),
    EMPTY: (PREPARING,),
    DEAD: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
}
"""New state -> permitted former states. Source: ``GroupMetadata.validPreviousStates``."""


class _Step:
    """A coordinator's actions in one step, which are judged at the end of the step."""

    __slots__ = ("added", "answers", "causes", "left", "refused", "removed", "seen", "shrunk")

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.causes: set[GroupId] = set()
        """Groups with a cause for a join phase."""
        self.removed: list[tuple[Seen, ShadowGroup, ShadowMember]] = []
        """Removed members without an earlier cause."""
        self.shrunk: dict[GroupId, None] = {}
        """Groups that lost a member."""
        self.added: dict[MemberId, None] = {}
        self.left: dict[tuple[GroupId, str], None] = {}
        """Member and instance ids in a LeaveGroup, and instances that joined without a member id."""
        self.refused: dict[MemberId, None] = {}
        self.answers: list[tuple[Seen, GroupRequest, ShadowGroup, ErrorCode]] = []
        """Answers that were not true at their requests."""


class MembershipRules(Checker):
    """Judges the answers and rebalances of coordinators."""

    name = "membership"
    kinds = (
        "accepted",
        "assignment",
        "evicted",
        "generation",
        "join-answer",
        "join-phase",
        "left-out",
        "loaded",
        "members",
        "no-cause",
        "not-divided",
        "not-ranged",
        "not-revoked",
        "not-sticky",
        "off-rack",
        "protocol",
        "refused",
        "transition",
        "unbalanced",
    )

    def __init__(
        self, initial_delay_us: int = 0, settings: Settings | None = None, *, one_protocol_type: bool = True
    ) -> None:
        """Create a checker of one run.

        ``initial_delay_us``: ``group.initial.rebalance.delay.ms``. ``settings``: the settings in force.
        ``one_protocol_type``: whether all clients join with the protocol type of consumers, which no note has.
        """
        super().__init__()
        self._settings = settings
        self._one_protocol_type = one_protocol_type
        self._initial_delay_us = initial_delay_us
        self._shadows = ShadowGroups()
        self._step: _Step | None = None
        self._wrong_clocks: dict[str, None] = {}
        """Hosts whose clock was wrong by one per cent or more in their present life."""
        self._durable: dict[GroupId, int] = {}
        """Group -> last generation that became Stable at a current coordinator, or was loaded."""
        self._completed_last: dict[GroupId, int] = {}
        self._metadata: dict[ActorName, MetadataReply] = {}
        """Member -> last Metadata answer of the member."""
        self._led_with: dict[ActorName, MetadataReply] = {}
        """Leader -> last Metadata answer before its assignment."""
        of_classic_groups: dict[type, Any] = {
            GroupRequestRead: self._read,
            GroupRecordWritten: self._written,
            JoinPhaseCompleted: self._completed,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            GroupBecame: self._became,
        }
        self.on: dict[type, Any] = {
            **self._shadows.on,
            **{kind: self._if_classic(take) for kind, take in of_classic_groups.items()},
            GroupRequestAnswered: self._answered,
            GroupLoaded: self._loaded,
            GroupConverted: self._converted,
            GroupEpochsChanged: self._epochs_changed,
            HostDown: self._down,
            FaultApplied: self._fault,
            DiskTailLost: self._lost_tail,
            BecameLeader: self._led,
            received(MetadataReply): self._metadata_received,
            sent(SyncGroup): self._assigns,
        }
        if settings is not None:
            self.shown_to(settings.on)

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(settings.broker.group_initial_rebalance_delay_ms * 1_000, settings)

    # --- the consumer protocol ---------------------------------------------------------------------------------

    def _if_classic(self, take: Callable[[Seen, Any], None]) -> Callable[[Seen, Any], None]:
        """Take facts of classic groups; of other groups only the data of joins and the end."""
        of_consumers = self._shadows.of_consumers

        def taken(seen: Seen, fact: Any) -> None:
            if (seen[2], fact.group) not in of_consumers:
                take(seen, fact)
            elif isinstance(fact, GroupRequestRead):
                self._shadows.read(seen, fact)
            elif isinstance(fact, MemberAdded):
                self._shadows.joined_with(seen, fact)
            elif isinstance(fact, GroupBecame) and fact.new == DEAD:
                self._shadows.became(seen, fact)

        return taken

    def _of_consumers(self, seen: Seen, name: GroupId) -> None:
        """Judge the group no more: it is a group of the consumer protocol (KIP-848)."""
        self._at(seen)
        self._shadows.became_of_consumers(seen, name)
        self._durable.pop(name, None)
        self._completed_last.pop(name, None)

    def _converted(self, seen: Seen, fact: GroupConverted) -> None:
        if fact.protocol != CLASSIC_PROTOCOL:
            self._of_consumers(seen, fact.group)
        elif fact.state == STABLE:  # otherwise the conversion of a rebalancing group was taken back
            self._at(seen).causes.add(fact.group)
            self._shadows.became_classic(seen, fact)

    def _epochs_changed(self, seen: Seen, fact: GroupEpochsChanged) -> None:
        if not self._shadows.is_of_consumers(seen, fact.group):
            self._of_consumers(seen, fact.group)

    # --- steps -------------------------------------------------------------------------------------------------

    def _at(self, seen: Seen) -> _Step:
        step = self._begun(seen)
        if step is None:
            step = self._step = _Step(seen)
        return step

    def _begun(self, seen: Seen) -> _Step | None:
        """The step of this fact, if it has anything to judge so far; a former step is judged."""
        step = self._step
        if step is not None and (step.seen.seq != seen.seq or step.seen.actor != seen.actor):
            self._end_step()
            step = None
        return step

    def _say(self, seen: Seen, kind: str, group: GroupId, text: str) -> None:
        self.violation(seen, kind, (group, seen.actor), f"group {group} at {seen.actor}: {text}")

    # --- facts -----------------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._end_step()
        self._wrong_clocks.pop(fact.host, None)
        self._shadows.down(seen, fact)

    def _fault(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind == "clock-drift":
            self._wrong_clocks.update(dict.fromkeys([host for host, _ in fact.links]))

    def _read(self, seen: Seen, fact: GroupRequestRead) -> None:
        if fact.api in OF_MEMBERS:
            self._begun(seen)
            self._shadows.read(seen, fact)
            return
        step = self._at(seen)
        group = self._shadows.group(seen.actor, fact.group)
        if fact.api == "LeaveGroup":
            step.causes.add(fact.group)
            for member_id, instance in fact.ids:
                step.left.update({(fact.group, member_id): None, (fact.group, instance or ""): None})
        elif fact.api == "JoinGroup":
            ((member_id, instance),) = fact.ids
            if not member_id:
                step.left[fact.group, instance or ""] = None
            member = None if group is None else group.members.get(member_id)
            if group is not None and member is not None:
                leads = group.leader in ("", member_id) and group.state == STABLE
                if leads or member.protocols != fact.rows:
                    step.causes.add(fact.group)
        self._shadows.read(seen, fact)
        if fact.api == "SyncGroup" and group is not None and group.new_assignment and fact.rows:
            rows = {member_id: dict(rows).get(group.protocol, b"") for member_id, rows in group.listed.items()}
            knows, topics = self._led_with.get(fact.client), self.panel.topics
            release = (0, 0) if self._settings is None else self._settings.profile(fact.client).release
            for kind, text in broken_promises(group.protocol, rows, dict(fact.rows), topics, knows, release):
                self._say(seen, kind, fact.group, f"generation {fact.generation}: {text}")
        elif fact.api == "JoinGroup":
            for text in owned_unsubscribed(fact.rows):
                self._say(seen, "not-revoked", fact.group, f"{fact.client} joins and {text}")

    def _metadata_received(self, seen: Seen, fact: Received) -> None:
        # A real client is a connection, which does not live as long as the member. Clients ignore a response without
        # brokers (``NetworkClient.DefaultMetadataUpdater``).
        if not is_real_client(seen[2]) and fact[4].brokers:
            self._metadata[seen[2]] = fact[4]

    def _assigns(self, seen: Seen, fact: Send) -> None:
        if fact.message.assignments and seen.actor in self._metadata:
            self._led_with[seen.actor] = self._metadata[seen.actor]

    def _answered(self, seen: Seen, fact: GroupRequestAnswered) -> None:
        self._begun(seen)
        request = self._shadows.answered(seen, fact)
        if request is None:
            return
        if fact.error is _E.GROUP_MAX_SIZE_REACHED:
            self._at(seen).refused[request.member_id] = None
        group = self._shadows.group(seen.actor, request.group)
        if group is not None and fact.error in JUDGED and fact.error not in request.permitted:
            self._at(seen).answers.append((seen, request, group, fact.error))
        if group is not None and fact.error is _E.INCONSISTENT_GROUP_PROTOCOL and request.seq == seen.seq:
            self._refuses_protocols(seen, group, request, fact.client)
        if group is not None and fact.error is _E.NONE:
            self._content(seen, group, request, fact)

    def _refuses_protocols(self, seen: Seen, group: ShadowGroup, request: GroupRequest, client: ActorName) -> None:
        """Judge a join that the coordinator refused when it read the join, so that no member has changed since."""
        settings, one_type = self._settings, self._one_protocol_type
        if settings is not None:  # stream.rebalancing.mode names another protocol type
            one_type = settings.consumer(client) is not None and not settings.is_streams(client)
        if one_type and group.supports(request.join_data.rows):
            error = _E.INCONSISTENT_GROUP_PROTOCOL.name
            text = f"the join of {client} is refused with {error}, though all members support a protocol"
            self._say(seen, "refused", request.group, text)

    def _content(self, seen: Seen, group: ShadowGroup, request: GroupRequest, fact: GroupRequestAnswered) -> None:
        for member_id in [each for each in request.leaves if each in group.members]:
            self._say(seen, "members", group.name, f"the leave of {member_id} is answered, but it is still a member")
        if request.api == "SyncGroup":
            sent_for_member = [each[request.member_id] for each in group.assignments if request.member_id in each]
            if group.assignments and fact.assignment not in (sent_for_member or [b""]):
                text = f"{request.member_id} gets {len(fact.assignment)} bytes that the leader did not send for it"
                self._say(seen, "assignment", group.name, text)
        elif request.api == "JoinGroup":
            answer = f"{fact.member_id} gets generation {fact.generation}"
            if fact.generation != group.generation:
                self._say(seen, "join-answer", group.name, f"{answer} in generation {group.generation}")
            if fact.members and group.leader not in ("", fact.member_id):
                self._say(
                    seen, "join-answer", group.name, f"{answer} and all members, but {group.leader} is the leader"
                )
            if fact.members and set(fact.members) != set(group.members):
                listed, present = ", ".join(sorted(fact.members)), ", ".join(sorted(group.members))
                self._say(seen, "join-answer", group.name, f"{answer} with members {listed}, instead of {present}")
            if group.completed_seq == seen.seq and fact.member_id == group.leader and not fact.members:
                self._say(seen, "join-answer", group.name, f"{answer} as its leader, and no members")

    def _written(self, seen: Seen, fact: GroupRecordWritten) -> None:
        step = self._at(seen)
        if fact.error is not _E.NONE:
            step.causes.add(fact.group)
        self._shadows.written(seen, fact)

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        self._at(seen).causes.add(fact.group)
        if self._shadows.is_of_consumers(seen, fact.group):
            return
        self._judge_loaded(seen, fact)
        self._shadows.loaded(seen, fact)

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        step = self._at(seen)
        step.added[fact.member_id] = None
        step.causes.add(fact.group)
        group = self._shadows.of(seen, fact.group)
        if fact.member_id in group.members:
            self._say(seen, "members", fact.group, f"{fact.member_id} was added twice")
        if self._is_late(seen, *group.pending.get(fact.member_id, (seen.at_us, 0))):
            self._say(seen, "accepted", fact.group, f"{fact.member_id} joins although that id has expired")
        self._shadows.added(seen, fact)

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        step = self._at(seen)
        step.shrunk[fact.group] = None
        step.causes.add(fact.group)
        group = self._shadows.of(seen, fact.group)
        member = group.members.get(fact.member_id)
        if member is None:
            self._say(seen, "members", fact.group, f"{fact.member_id} was removed, but is no member ({fact.why})")
        else:
            named = (fact.group, fact.member_id) in step.left or (fact.group, member.instance or " ") in step.left
            if group.has_requests and not named and not self._timed_out(seen, group, member):
                step.removed.append((seen, group, member))
            elif not named and group.state in (COMPLETING, STABLE) and self._syncs_late(seen, group, member):
                text = f"{fact.member_id} was removed {(seen.at_us - group.began_us) / 1e6:.1f} s after its generation"
                self._say(seen, "evicted", fact.group, f"{text} began, without a SyncGroup of it (KAFKA-12890)")
        self._shadows.removed(seen, fact)

    def _timed_out(self, seen: Seen, group: ShadowGroup, member: ShadowMember) -> bool:
        """Whether a member missed its session, the join phase or the sync phase."""
        waits = not member.is_new and (member.joining or member.syncing)
        if not waits and self._over(seen, member.sign_us, member.session_us):
            return True
        if group.state == PREPARING:
            longest_us = self._initial_delay_us if member.turned_away else group.rebalance_us
            return not member.joining and self._over(seen, group.preparing_us, longest_us)
        return not member.synced and self._over(seen, group.began_us, group.rebalance_us)

    def _syncs_late(self, seen: Seen, group: ShadowGroup, member: ShadowMember) -> bool:
        """Whether the coordinator removes a live member because of a missing SyncGroup after the sync phase."""
        lives = not self._over(seen, member.sign_us, member.session_us)
        waits = member.member_id in group.unsynced  # False for a static member that rejoined in this generation
        return lives and waits and self._is_late(seen, group.began_us, group.rebalance_us)

    def _over(self, seen: Seen, since_us: int, timeout_us: int) -> bool:
        """Whether a coordinator's timer may have fired. A timer of a wrong clock may always have fired."""
        return seen.at_us - since_us >= timeout_us * EARLY or host_of(seen.actor) in self._wrong_clocks

    def _is_late(self, seen: Seen, since_us: int, timeout_us: int) -> bool:
        """Whether a coordinator's timer is overdue. A disturbed coordinator may be late."""
        if seen.at_us - since_us <= timeout_us * LATE + SLACK_US:
            return False
        free_us = self.panel.disturbances.undisturbed_since_us([host_of(seen.actor)])
        return free_us is not None and free_us <= since_us

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        self._at(seen)
        group = self._shadows.of(seen, fact.group)
        self._judge_generation(seen, fact, group)
        self._shadows.completed(seen, fact)
        if not group.has_requests:
            return
        for member_id, member in group.members.items():
            if member.protocols and fact.protocol not in [name for name, _ in member.protocols]:
                self._say(seen, "protocol", fact.group, f"{member_id} does not support {fact.protocol}")

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        step = self._at(seen)
        group = self._shadows.of(seen, fact.group)
        self._judge_transition(seen, fact, group)
        if fact.old == PREPARING and fact.new != DEAD and group.has_requests:
            self._judge_phase(seen, group, step)
        if group.unsynced and self._over(seen, group.began_us, group.rebalance_us):
            step.causes.add(fact.group)
        if fact.new == PREPARING and group.has_requests and fact.group not in step.causes:
            self._say(seen, "no-cause", fact.group, f"a join phase begins in {fact.old} without a cause ({fact.why})")
        if fact.new == PREPARING:
            step.causes.discard(fact.group)
        self._shadows.became(seen, fact)

    # --- states and generations --------------------------------------------------------------------------------

    def _judge_transition(self, seen: Seen, fact: GroupBecame, group: ShadowGroup) -> None:
        became = f"it became {fact.new} from {fact.old}"
        if fact.old != group.state:
            self._say(seen, "transition", fact.group, f"{became}, but it was {group.state}")
        if fact.old not in MAY_FOLLOW.get(fact.new, ()):
            self._say(seen, "transition", fact.group, f"{became}, which is no legal transition ({fact.why})")
        rises = fact.new in (COMPLETING, EMPTY) and not group.has_begun
        if not group.generation and fact.generation == group.former_generation + rises:
            group.generation = group.former_generation
        if fact.generation != group.generation + rises:
            text = f"it became {fact.new} in generation {fact.generation} after {group.generation}"
            self._say(seen, "generation", fact.group, text)
        if fact.new == EMPTY and group.members:
            self._say(seen, "members", fact.group, f"it became Empty with members {', '.join(sorted(group.members))}")
        if self.panel.is_current(seen) and fact.new == STABLE:
            self._durable[fact.group] = fact.generation
        elif self.panel.is_current(seen) and fact.new == DEAD:
            self._durable.pop(fact.group, None)
            self._completed_last.pop(fact.group, None)

    def _judge_phase(self, seen: Seen, group: ShadowGroup, step: _Step) -> None:
        """Judge whether a join phase ends exactly when no member is awaited or its time is over.

        Source: ``GroupCoordinator``, ``DelayedJoin``, ``InitialDelayedJoin`` (KIP-134), ``addPendingMember``
        (KIP-394).
        """
        awaited, lasted = group.awaited(seen.at_us), f"{(seen.at_us - group.preparing_us) / 1e6:.1f} s"
        longest_us, initial_us = max(group.rebalance_us, group.timeout_us()), self._initial_delay_us
        if group.was_empty:
            over = self._over(seen, group.preparing_us, initial_us) or group.name in step.shrunk
            over = over or self._id_expires_now(seen, group)
            awaited = awaited or ["more members"]
        else:
            over = self._over(seen, group.preparing_us, group.rebalance_us)
        if awaited and not over:
            text = f"a join phase ends after {lasted} although it waits for {', '.join(awaited)}"
            self._say(seen, "join-phase", group.name, text)
        if any(not member.rebalance_us for member in group.members.values()):
            return  # A member's timeout in a join to another coordinator may be unknown.
        expiries_us = [since_us + session_us for since_us, session_us in group.pending.values()]
        ready_us = max([group.changed_us, *[us for us in expiries_us if us <= seen.at_us]])
        kept = not awaited and self._is_late(seen, ready_us, 0) and not self._is_overlooked(seen, group)
        # A member that joins in a delay begins another delay (KIP-134).
        if group.was_empty and awaited == ["more members"]:
            came_us, delays = group.added_us - group.preparing_us, 1
            if group.added_seq > group.prepared_seq:
                delays = int(came_us * LATE) // max(1, initial_us) + 2
            kept = self._is_late(seen, group.preparing_us, delays * initial_us)
        if kept or (group.joined_us and self._is_late(seen, group.joined_us, max(longest_us, initial_us))):
            whom = "nobody" if kept else ", ".join(awaited)
            self._say(seen, "join-phase", group.name, f"a join phase lasts {lasted}, and waits for {whom}")

    def _id_expires_now(self, seen: Seen, group: ShadowGroup) -> bool:
        """Whether the expiry of an id without a join may end the initial delay, as the removal of a member does.

        Source: ``GroupMetadataManager.removePendingMemberAndUpdateClassicGroup`` (4.0 to 4.3).
        """
        expired = [each for each in group.pending if group.may_be_over(each, seen.at_us)]
        return any(not self._is_late(seen, *group.pending[each]) for each in expired)

    def _is_overlooked(self, seen: Seen, group: ShadowGroup) -> bool:
        """Whether a coordinator since Kafka 4.0 has not checked the join phase since a full group refused a member."""
        answer = self.panel.memberships.groups.get(group.name)
        if answer is None or answer.speaker[0] != seen.actor or self._settings is None or not answer.overlooked:
            return False
        return self._settings.broker_profile(seen.actor).release >= _JAVA_SINCE

    def _judge_generation(self, seen: Seen, fact: JoinPhaseCompleted, group: ShadowGroup) -> None:
        began = f"generation {fact.generation} began"
        if fact.generation != group.generation + 1:
            self._say(seen, "generation", fact.group, f"{began} after {group.generation}")
        if group.state not in (PREPARING, COMPLETING if fact.members else EMPTY):
            self._say(seen, "transition", fact.group, f"a join phase was completed in {group.state}")
        unknown = [member for member in (*fact.members, fact.leader) if member and member not in group.members]
        if unknown:
            self._say(seen, "members", fact.group, f"{began} with {', '.join(unknown)}, not in the group")
        if self.panel.is_current(seen):
            durable = self._durable.get(fact.group, 0)
            if fact.generation <= durable:
                self._say(seen, "generation", fact.group, f"{began} although {durable} was Stable before")
            self._completed_last[fact.group] = fact.generation

    def _judge_loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        if fact.state != (STABLE if fact.members else EMPTY):
            self._say(seen, "loaded", fact.group, f"it was loaded as {fact.state} with {len(fact.members)} members")
        durable, completed = self._durable.get(fact.group, 0), self._completed_last.get(fact.group)
        loaded = f"it was loaded with generation {fact.generation}"
        if fact.generation < durable:
            self._say(seen, "loaded", fact.group, f"{loaded}; {durable} was Stable before")
        if completed is not None and fact.generation > completed:
            self._say(seen, "loaded", fact.group, f"{loaded}; the last completed was {completed}")
        self._durable[fact.group] = fact.generation

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        if fact.topic == OFFSETS_TOPIC and self.panel.logs.changed:
            for name, durable in self._durable.items():
                group = self.panel.groups[name]
                if durable in group.forgotten:
                    self._durable[name] = group.remembered[-1][0] if group.remembered else 0

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        """Note that the disk may have lost the last generation of each group."""
        if fact.log.startswith(OFFSETS_TOPIC):
            self._durable.clear()

    # --- the end of a step -------------------------------------------------------------------------------------

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        for seen, group, member in step.removed:
            if member.member_id in step.refused or any(each in member.former for each in step.added):
                continue  # The group is full, or the write of a replacement failed and the former id returns.
            quiet_us = seen.at_us - member.sign_us
            text = (
                f"{member.member_id} was removed {quiet_us / 1e6:.1f} s after its last sign of life, in {group.state}"
            )
            self._say(seen, "evicted", group.name, text)
        for each in step.answers:
            self._judge_answer(*each)

    def _judge_answer(self, seen: Seen, request: GroupRequest, group: ShadowGroup, error: ErrorCode) -> None:
        if error in self._shadows.permitted(group, request, seen.at_us) or group.prepared_at(seen, error):
            return
        what = f"{request.api} of {request.member_id or 'a new member'} in generation {request.generation}"
        now = f"the group is {group.state} in generation {group.generation}"
        if error is _E.NONE:
            self._say(seen, "accepted", group.name, f"{what} is accepted; {now}")
        else:
            self._say(seen, "refused", group.name, f"{what} is answered {error.name}; {now}")

    def finish(self, at_us: int) -> None:
        """Judge the actions of the last step."""
        self._end_step()
