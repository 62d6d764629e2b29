"""A reference of each coordinator: what it may answer its members, whom it may remove, why it may rebalance.

Theory. ``watching/shadow_groups.py`` follows each coordinator's copy of a group from the requests that it read, not
from its reasons. A copy without told requests is not judged.

=============  ==========================================================================================
kind           rule
=============  ==========================================================================================
evicted        a member is removed if it left, was replaced, was refused by a full group, or missed a timeout:
               its session, the join phase or, no later than that, the sync phase
refused        an answer with FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or
               REBALANCE_IN_PROGRESS is true of the copy when the request was read or when it is answered
accepted       an answer without an error is, too; a sync is answered when the assignment is in the log, and an id
               that was handed out joins within its session timeout (KIP-394)
no-cause       a join phase begins after a join that changes something, a leave, a removal, a failed write, a
               sync phase in which an id of the generation sent no sync, or when a group is loaded
join-phase     a join phase ends when it waits for nobody, or when its time is over, and no later: the longest
               rebalance timeout; of an Empty group ``group.initial.rebalance.delay.ms`` in which nobody came
join-answer    a join is answered the generation in force; its leader, alone, is told all members
protocol       every member of a generation supports its protocol
assignment     a member is given what the leader sent for it
not-revoked    a member joins with partitions of topics only that it subscribes to
unbalanced ..  what the leader sent keeps the promises of its assignor: ``assignments.py``
transition     the state changes along ``MAY_FOLLOW`` only, from the state that the group was in
generation     it rises by 1 with each completed join phase, and does not repeat one that became Stable
members        who leaves is gone; a generation has members of the group only, its leader among them; a group
               without members is Empty
loaded         a loaded group is Empty or Stable, with the last Stable generation or a later completed one
=============  ==========================================================================================

Source: Kafka 3.4 ``GroupCoordinator`` (validateHeartbeat, doSyncGroup, doCommitOffsets, doJoinGroup,
onExpireHeartbeat); tests/data/raw-requests has recorded answers.
"""

from collections.abc import Mapping
from typing import Any

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
    PREPARING,
    STABLE,
    GroupRequest,
    ShadowGroup,
    ShadowGroups,
    ShadowMember,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import MetadataReply
from kemu.protocol.messages.group import SyncGroup
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, GroupId, MemberId, host_of
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
JUDGED = (
    _E.NONE,
    _E.FENCED_INSTANCE_ID,
    _E.UNKNOWN_MEMBER_ID,
    _E.ILLEGAL_GENERATION,
    _E.REBALANCE_IN_PROGRESS,
)
"""Answers that say something about the group; others are about its log, its broker or the request."""
LATE = 1.01
"""A clock may be wrong by less than a per cent."""
SLACK_US = 1_000_000
"""A coordinator does at once what is due."""

MAY_FOLLOW: Mapping[str, tuple[str, ...]] = {
    PREPARING: (EMPTY, COMPLETING, STABLE),
    COMPLETING: (PREPARING,),
    STABLE: (COMPLETING,),
    EMPTY: (PREPARING,),
    DEAD: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
}
"""New state: the states it may follow. Source: ``GroupMetadata.validPreviousStates``."""


class _Step:
    """What a coordinator did in one step, as far as it is judged at its end."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.causes: set[GroupId] = set()
        """Groups that have a reason to begin a join phase."""
        self.removed: list[tuple[Seen, ShadowGroup, ShadowMember]] = []
        """Members that went without a cause that was there before."""
        self.went: dict[GroupId, None] = {}
        """Groups that lost a member."""
        self.added: dict[MemberId, None] = {}
        self.left: dict[tuple[GroupId, str], None] = {}
        """Ids (of members or instances) that a LeaveGroup named, and instances that joined without an id."""
        self.turned_away: dict[MemberId, None] = {}
        self.answers: list[tuple[Seen, GroupRequest, ShadowGroup, ErrorCode]] = []
        """Answers that were not true before."""


class MembershipRules(Checker):
    """See the module."""

    name = "membership"

    def __init__(self, initial_delay_us: int = 0, settings: Settings | None = None) -> None:
        """A checker of one run. ``initial_delay_us``: ``group.initial.rebalance.delay.ms``; ``settings``: in force."""
        super().__init__()
        self._settings = settings
        self._initial_delay_us = initial_delay_us
        self._shadows = ShadowGroups()
        self._step: _Step | None = None
        self._wrong_clocks: dict[str, None] = {}
        """Hosts whose clock was wrong by a per cent in their present life."""
        self._durable: dict[GroupId, int] = {}
        """The last generation that became Stable at a coordinator without a successor, or was loaded."""
        self._completed_last: dict[GroupId, int] = {}
        self._told: dict[ActorName, MetadataReply] = {}
        """Member -> the last Metadata answer that it received."""
        self._led_with: dict[ActorName, MetadataReply] = {}
        """Leader -> the last Metadata answer that it had received as it sent an assignment."""
        own = {
            GroupRequestRead: self._read,
            GroupRequestAnswered: self._answered,
            GroupRecordWritten: self._written,
            GroupLoaded: self._loaded,
            JoinPhaseCompleted: self._completed,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            GroupBecame: self._became,
        }
        self.on: dict[type, Any] = {
            **self._shadows.on,
            **own,
            HostDown: self._down,
            FaultApplied: self._fault,
            DiskTailLost: self._lost_tail,
            BecameLeader: self._led,
            received(MetadataReply): self._told_of_cluster,
            sent(SyncGroup): self._assigns,
        }
        if settings is not None:
            self.shown_to(settings.on)

    def _at(self, seen: Seen) -> _Step:
        step = self._step
        if step is None or step.seen.seq != seen.seq or step.seen.actor != seen.actor:
            self._end_step()
            step = self._step = _Step(seen)
        return step

    def _say(self, seen: Seen, kind: str, group: GroupId, text: str) -> None:
        self.violation(seen, kind, (group, seen.actor), f"group {group} at {seen.actor}: {text}")

    # --- what is told ------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._end_step()
        self._wrong_clocks.pop(fact.host, None)
        self._shadows.down(seen, fact)

    def _fault(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind == "clock-drift":
            self._wrong_clocks.update(dict.fromkeys([host for host, _ in fact.links]))

    def _read(self, seen: Seen, fact: GroupRequestRead) -> None:
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

    def _told_of_cluster(self, seen: Seen, fact: Received) -> None:
        self._told[seen[2]] = fact[4]

    def _assigns(self, seen: Seen, fact: Send) -> None:
        if fact.message.assignments and seen.actor in self._told:
            self._led_with[seen.actor] = self._told[seen.actor]

    def _answered(self, seen: Seen, fact: GroupRequestAnswered) -> None:
        step = self._at(seen)
        request = self._shadows.answered(seen, fact)
        if request is None:
            return
        if fact.error is _E.GROUP_MAX_SIZE_REACHED:
            step.turned_away[request.member_id] = None
        group = self._shadows.group(seen.actor, request.group)
        if group is not None and fact.error in JUDGED and fact.error not in request.permitted:
            step.answers.append((seen, request, group, fact.error))
        if group is not None and fact.error is _E.NONE:
            self._content(seen, group, request, fact)

    def _content(self, seen: Seen, group: ShadowGroup, request: GroupRequest, fact: GroupRequestAnswered) -> None:
        for member_id in [each for each in request.leaves if each in group.members]:
            self._say(seen, "members", group.name, f"the leave of {member_id} is answered, and it is still a member")
        if request.api == "SyncGroup":
            given = [each[request.member_id] for each in group.assignments if request.member_id in each]
            if group.assignments and fact.assignment not in (given or [b""]):
                text = f"{request.member_id} is given {len(fact.assignment)} bytes that the leader did not send for it"
                self._say(seen, "assignment", group.name, text)
        elif request.api == "JoinGroup":
            told = f"{fact.member_id} is told generation {fact.generation}"
            if fact.generation != group.generation:
                self._say(seen, "join-answer", group.name, f"{told}, in {group.generation}")
            if fact.members and group.leader not in ("", fact.member_id):
                self._say(seen, "join-answer", group.name, f"{told} and all members, but {group.leader} leads")
            if fact.members and set(fact.members) != set(group.members):
                listed, there = ", ".join(sorted(fact.members)), ", ".join(sorted(group.members))
                self._say(seen, "join-answer", group.name, f"{told} with members {listed}; there are {there}")
            if group.completed_seq == seen.seq and fact.member_id == group.leader and not fact.members:
                self._say(seen, "join-answer", group.name, f"{told}, which it leads, and no members")

    def _written(self, seen: Seen, fact: GroupRecordWritten) -> None:
        step = self._at(seen)
        if fact.error is not _E.NONE:
            step.causes.add(fact.group)
        self._shadows.written(seen, fact)

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        self._at(seen).causes.add(fact.group)
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
        step.went[fact.group] = None
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
                self._say(seen, "evicted", fact.group, f"{text} began; it had sent no SyncGroup (KAFKA-12890)")
        self._shadows.removed(seen, fact)

    def _timed_out(self, seen: Seen, group: ShadowGroup, member: ShadowMember) -> bool:
        """Whether a member missed its session, the join phase or the sync phase."""
        waits = not member.is_new and (member.joining or member.syncing)
        if not waits and self._over(seen, member.sign_us, member.session_us):
            return True
        if group.state == PREPARING:
            return not member.joining and self._over(seen, group.preparing_us, group.rebalance_us)
        return not member.synced and self._over(seen, group.began_us, group.rebalance_us)

    def _syncs_late(self, seen: Seen, group: ShadowGroup, member: ShadowMember) -> bool:
        """Whether a member whose session is not over goes, because it sent no sync, later than the sync phase ends."""
        lives = not self._over(seen, member.sign_us, member.session_us)
        waits = member.member_id in group.unsynced  # not so of a static member that came back in this generation
        return lives and waits and self._is_late(seen, group.began_us, group.rebalance_us)

    def _over(self, seen: Seen, since_us: int, timeout_us: int) -> bool:
        """Whether a coordinator's timer may have fired; a clock that is wrong by a per cent measures nothing."""
        return seen.at_us - since_us >= timeout_us * EARLY or host_of(seen.actor) in self._wrong_clocks

    def _is_late(self, seen: Seen, since_us: int, timeout_us: int) -> bool:
        """Whether a coordinator's timer was to fire before; one that is disturbed meanwhile may be late."""
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
        """A join phase ends when nobody is waited for, or when its time is over; then it does end.

        Source: ``GroupCoordinator``, ``DelayedJoin``, ``InitialDelayedJoin`` (KIP-134), ``addPendingMember`` (KIP-394).
        """
        awaited, lasted = group.awaited(seen.at_us), f"{(seen.at_us - group.preparing_us) / 1e6:.1f} s"
        longest_us, initial_us = max(group.rebalance_us, group.timeout_us()), self._initial_delay_us
        if group.was_empty:
            over = self._over(seen, group.preparing_us, initial_us) or group.name in step.went
            awaited = awaited or ["more members"]
        else:
            over = self._over(seen, group.preparing_us, group.rebalance_us)
        if awaited and not over:
            text = f"a join phase ends after {lasted} although it waits for {', '.join(awaited)}"
            self._say(seen, "join-phase", group.name, text)
        if any(not member.rebalance_us for member in group.members.values()):
            return  # what a member told another coordinator is not always known
        expiries_us = [since_us + session_us for since_us, session_us in group.pending.values()]
        ready_us = max([group.changed_us, *[us for us in expiries_us if us <= seen.at_us]])
        kept = not awaited and self._is_late(seen, ready_us, 0) and not self._overlooks(seen, group)
        if group.was_empty and awaited == ["more members"]:  # who comes in a delay begins another one (KIP-134)
            came_us, delays = group.added_us - group.preparing_us, 1
            if group.added_seq > group.prepared_seq:
                delays = int(came_us * LATE) // max(1, initial_us) + 2
            kept = self._is_late(seen, group.preparing_us, delays * initial_us)
        if kept or (group.joined_us and self._is_late(seen, group.joined_us, max(longest_us, initial_us))):
            whom = "nobody" if kept else ", ".join(awaited)
            self._say(seen, "join-phase", group.name, f"a join phase lasts {lasted}, and waits for {whom}")

    def _overlooks(self, seen: Seen, group: ShadowGroup) -> bool:
        """Whether its coordinator, of 4.0's module, has not looked since a full group turned a member away."""
        told = self.panel.memberships.groups.get(group.name)
        if told is None or told.speaker[0] != seen.actor or self._settings is None or not told.overlooked:
            return False
        return self._settings.broker_profile(seen.actor).broker.coordinator_kind == "java"

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
                self._say(seen, "generation", fact.group, f"{began} although {durable} had been Stable")
            self._completed_last[fact.group] = fact.generation

    def _judge_loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        if fact.state != (STABLE if fact.members else EMPTY):
            self._say(seen, "loaded", fact.group, f"it was loaded as {fact.state} with {len(fact.members)} members")
        durable, completed = self._durable.get(fact.group, 0), self._completed_last.get(fact.group)
        loaded = f"it was loaded with generation {fact.generation}"
        if fact.generation < durable:
            self._say(seen, "loaded", fact.group, f"{loaded}; {durable} had been Stable")
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
        """The last generation of each group may be gone; what becomes Stable from now on is not."""
        if fact.log.startswith(OFFSETS_TOPIC):
            self._durable.clear()

    # --- the end of a step -------------------------------------------------------------------------------------

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        for seen, group, member in step.removed:
            if member.member_id in step.turned_away or any(each in member.former for each in step.added):
                continue  # the group is full; or a replacement was not stored, and the former id returns
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
        """See ``Checker``."""
        self._end_step()
