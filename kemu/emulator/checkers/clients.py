"""Duties of clients after an answer, or after none: another attempt after the back-off, a lookup, word of the outcome.

==============  =====================================================================  ===============================
kind            rule                                                                   bound
==============  =====================================================================  ===============================
too-soon        a batch, an admin's request or a second consumer's commit that failed  retry.backoff.ms, from KIP-580
                is repeated after the back-off; a producer connects again after        on doubled up to its maximum;
                reconnect.backoff.ms, and sends its records at their interval          emulated.batch.interval.ms
too-late        the same, if the host runs, and no leader and no coordinator is        the same
                looked for
vanished        a batch that was refused for good is told to the application as        at once
                failed; one that was not is sent again, as it was
undecided       a batch that was sent is acknowledged, or told as failed               delivery.timeout.ms
not-looked-up   who is told NOT_COORDINATOR asks for the coordinator before it asks
                the same one again
not-rejoined    a member that is told REBALANCE_IN_PROGRESS joins again at its next    the work of two polls
                poll
storm           nobody asks the same again and again at once                           100 in a second
==============  =====================================================================  ===============================

Source: Kafka 3.4 ``Sender``, ``RecordAccumulator``, ``KafkaAdminClient``, ``AbstractCoordinator``,
``ConsumerCoordinator.OffsetCommitResponseHandler``; KIP-580.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kemu.actors.consumer.catch_up import PART
from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.group_progress import GroupTimes
from kemu.emulator.facts import FaultApplied, HostDown, MemberReconfigured, Seen, received, sent
from kemu.emulator.watching.memberships import MEMBER
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    IncrementalAlterConfigs,
    ListPartitionReassignments,
)
from kemu.protocol.messages.data import DeleteRecords, ListOffsets, Metadata, MetadataReply, Produce, ProduceReply
from kemu.protocol.messages.group import (
    DeleteGroups,
    DescribeGroups,
    FindCoordinator,
    FindCoordinatorReply,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetCommitReply,
    OffsetDelete,
    OffsetFetch,
    OffsetFetchReply,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.messages.negotiation import ApiVersionsReply
from kemu.protocol.messages.ranges import RangeCommit, RangeCommitReply, RangeFetch, RangeFetchReply
from kemu.protocol.names import ADMIN, ActorName, GroupId, TopicPartition, host_of, role_of
from kemu.protocol.notes.groups import AdminAnswered, GroupDescribed, MemberBecame, MemberFailed, ProduceFailed
from kemu.protocol.wire.schema import MESSAGES, SPECS, Kind

_MS = 1_000
_NEVER_US = 1 << 62
SLACK_US = 1_500_000
"""Tolerance of bounds that need not be exact."""
ADMIN_BACKOFF = (100, 1_000)
"""``retry.backoff.ms`` and its maximum of an admin client. Source: Kafka 3.9 ``AdminClientConfig``."""
COMMAND_US = 60_000_000
"""``default.api.timeout.ms`` of an admin client."""
EARLIEST, LATEST = 0.7, 1.4
"""A wait may differ from the back-off by its jitter of a fifth, and a clock that drifts."""
STORM = 100
IN_A_ROW = 4
ASKED_RARELY: tuple[type, ...] = (
    FindCoordinator,
    Metadata,
    ListOffsets,
    OffsetFetch,
    JoinGroup,
    SyncGroup,
    RangeFetch,
    RangeCommit,
)
"""Requests that a client has no reason to send often."""
OF_MEMBERS: Mapping[type, type] = {
    Heartbeat: HeartbeatReply,
    JoinGroup: JoinGroupReply,
    SyncGroup: SyncGroupReply,
    OffsetCommit: OffsetCommitReply,
    OffsetFetch: OffsetFetchReply,
    RangeCommit: RangeCommitReply,
    RangeFetch: RangeFetchReply,
}
"""Requests that only the coordinator of a group answers -> their replies."""
ADMINS_ASK: tuple[type, ...] = (
    *(FindCoordinator, DescribeGroups, DeleteGroups, LeaveGroup, ListGroups, OffsetDelete, OffsetFetch, OffsetCommit),
    *(ListOffsets, DeleteRecords, CreateTopics, CreatePartitions, DeleteTopics, ElectLeaders, IncrementalAlterConfigs),
    *(AlterPartitionReassignments, ListPartitionReassignments),
)
"""Requests of an admin's commands. Metadata is none of them: the client asks for it by itself, too."""
TRIED_AGAIN = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT)
"""Answers after which a commit may succeed."""
KEEPS_LEADER = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)
"""Answers to a Produce after which the same leader is asked again, without a look at metadata."""
COMMITS_BEFORE_A_JOIN = 1
"""Others are of the interval: a member that makes them does not heed what it was told."""
SILENT = "stop-polling"
"""The fault under which an application does not poll."""


def wait_us(backoff: tuple[int, int], failures: int) -> int:
    """The wait after so many failures in a row, without its jitter; maximum 0: they are all alike."""
    first, most = backoff
    return (min(first << min(failures - 1, 20), most) if most else first) * _MS


class _Batch:
    """A batch that is not decided, since an attempt to send it failed."""

    __slots__ = ("attempts", "count", "error", "failed_us", "is_exact", "sent_us")

    def __init__(self, count: int, sent_us: int) -> None:
        self.count = count
        self.sent_us = sent_us
        """When it was sent first."""
        self.attempts = 1
        self.error = ErrorCode.NONE
        self.failed_us = -1
        """When the last attempt failed; -1: one is under way."""
        self.is_exact = False
        """It waits for nothing but the back-off."""


class _Attempt(NamedTuple):
    """A Produce without an answer; ``given_up``: partitions whose batch was told as failed meanwhile."""

    to: ActorName
    at_us: int
    request: Produce
    given_up: dict[TopicPartition, None]


class _Rhythm:
    """The last step in which a producer sent something."""

    __slots__ = ("at_us", "count", "gap_us", "seq", "wrong")

    def __init__(self) -> None:
        self.seq = self.at_us = self.gap_us = -1
        """``gap_us``: since the one before; -1: not by its rhythm alone."""
        self.count = 0
        """How many records."""
        self.wrong = 0
        """How many in a row were wrong."""

    def is_wrong(self, interval_us: int) -> bool:
        """Whether it came too soon, or so late, with so many records, that there was one for an interval less."""
        if self.gap_us < 0:
            return False
        late = self.gap_us > interval_us * LATEST and self.count * interval_us > 2 * self.gap_us
        return late or self.gap_us < interval_us * EARLIEST


class _Quiet(NamedTuple):
    """An admin got its last answer, or its connection broke, and it neither asked further nor ended its command."""

    since: Seen
    failures: int


class _Rejoin(NamedTuple):
    """A member was told that its group rebalances."""

    since: Seen
    group: GroupId
    coordinator: ActorName
    busy_us: int
    by_us: int
    commits: int = 0
    """How many commits it has sent since."""


class Clients(Checker):
    """See the module. ``settings``, ``times``: those in force; without settings it is shown nothing."""

    name = "clients"

    def __init__(self, settings: Settings | None = None, times: Mapping[GroupId, GroupTimes] | None = None) -> None:
        super().__init__()
        self._times = dict(times or {})
        self._got = -1
        """The last step in which a client received an answer."""
        self._sent: dict[ActorName, dict[int, _Attempt]] = {}
        """Producer -> request id -> what has no answer."""
        self._batches: dict[ActorName, dict[TopicPartition, _Batch]] = {}
        self._rhythms: dict[ActorName, _Rhythm] = {}
        self._mute_until_us: dict[ActorName, int] = {}
        """Producer that was told who leads, and has sent nothing yet -> until when at the latest."""
        self._changed_rates: dict[str, None] = {}
        """Topics whose rate the plan changed."""
        self._broken: dict[tuple[ActorName, ActorName], tuple[int, int]] = {}
        """(producer, peer) -> how often their connection broke in a row, and when last."""
        self._asked: dict[int, ActorName] = {}
        """The admin's requests that have no answer."""
        self._quiet: _Quiet | None = None
        self._failures = 0
        """Failed attempts of the admin in a row."""
        self._knows_controller = True
        self._looking = False
        """The admin asks for metadata."""
        self._active_us = 0
        """When it last asked anybody, or heard of anybody."""
        self._mixed_until_us = -1
        """Until when several commands of the admin may be under way, so that nobody knows which one waits."""
        self._refused: dict[ActorName, ActorName] = {}
        """Member -> the broker that answered NOT_COORDINATOR; until another broker is found."""
        self._commits: dict[ActorName, tuple[int, int]] = {}
        """Second consumer -> when a commit of its failed, and when it may be repeated."""
        self._rejoins: dict[ActorName, _Rejoin] = {}
        self._committing: dict[ActorName, int] = {}
        """Member, or second consumer, whose commit has no answer -> the id of its last one."""
        self._silent: dict[str, None] = {}
        """Hosts whose application ever was told not to poll."""
        self._counted: dict[tuple[ActorName, type], tuple[int, int]] = {}
        """(client, request) -> the last second in which it was sent, and how often in that second."""
        if settings is None:
            return
        self._settings = settings
        self._backoff = settings.producer.retry_backoff_ms, settings.producer.retry_backoff_max_ms
        self.on = {
            sent(Produce): self._produces,
            received(ProduceReply): self._produced,
            ProduceFailed: self._gave_up,
            Hangup: self._gone,
            LinkDown: self._gone,
            HostDown: self._down,
            MemberFailed: self._ends,
            MemberBecame: self._became,
            MemberReconfigured: self._reconfigured,
            FaultApplied: self._fault,
            AdminAnswered: self._told,
            GroupDescribed: self._told,
            sent(LeaveGroup): self._ends,
            sent(Metadata): self._looks_around,
            received(MetadataReply): self._learns,
            received(FindCoordinatorReply): self._finds,
            received(ApiVersionsReply): self._hears,
        }
        for rare in ASKED_RARELY:
            self.shown_to({sent(rare): self._count})
        for kind, reply in OF_MEMBERS.items():
            self.shown_to({sent(kind): self._asks, received(reply): self._is_answered})
        for request in ADMINS_ASK:
            reply = MESSAGES[SPECS[request].api_key, Kind.REPLY].cls
            self.shown_to({sent(request): self._admin_asks, received(reply): self._admin_hears})
        self.shown_to(settings.on)

    # --- producers ---------------------------------------------------------------------------------------------

    def _produces(self, seen: Seen, fact: Send) -> None:
        to, _, request_id, _, request = fact
        rhythm = self._rhythms.get(seen[2])
        if rhythm is None:
            if role_of(seen[2]) != "producer":
                return
            rhythm = self._rhythms[seen.actor] = _Rhythm()
        self._is_in_rhythm(seen, rhythm, request)
        failures, broke_us = self._broken.get((seen[2], to), (0, 0))
        if failures:
            config = self._settings.producer
            least_us = wait_us((config.reconnect_backoff_ms, config.reconnect_backoff_max_ms), failures)
            self._repeats(seen, f"{to} a Produce", broke_us, least_us, exact=False)
        if not request.acks:
            return
        self._sent.setdefault(seen.actor, {})[request_id] = _Attempt(to, seen[1], request, {})
        waiting = self._batches.get(seen[2])
        for row in request.batches if waiting else ():
            batch = waiting.get((row.topic, row.partition)) if waiting else None
            if batch is not None:
                self._sends_again(seen, (row.topic, row.partition), batch, row.count)

    def _is_in_rhythm(self, seen: Seen, rhythm: _Rhythm, request: Produce) -> None:
        """Records come into being evenly: each interval has a request, if it has a record, and one is enough."""
        count = sum([row.count for row in request.batches])
        if rhythm.seq == seen.seq:
            rhythm.count += count
            return
        interval_us, gap_us = self._settings.producer.emulated_batch_interval_ms * _MS, seen.at_us - rhythm.at_us
        rhythm.wrong = rhythm.wrong + 1 if rhythm.is_wrong(interval_us) else 0
        if rhythm.wrong == IN_A_ROW:
            text = f"{seen.actor} sends what it is given every {rhythm.gap_us / 1e6:.3f} s"
            text += f", instead of {interval_us / 1e6:.3f} s"
            kind = "too-late" if rhythm.gap_us > interval_us else "too-soon"
            self.violation(seen, kind, (seen.actor, "its rhythm"), text)
        is_free = self._got != seen.seq and not self._sent.get(seen.actor) and not self._batches.get(seen.actor)
        rhythm.seq, rhythm.at_us, rhythm.count = seen.seq, seen.at_us, count
        rhythm.gap_us = gap_us if is_free else -1

    def _sends_again(self, seen: Seen, at: TopicPartition, batch: _Batch, count: int) -> None:
        name, error = f"{at[0]}-{at[1]}", batch.error
        split = error is ErrorCode.MESSAGE_TOO_LARGE
        if not split and (_is_final(error) or count != batch.count):
            text = f"{seen.actor} sent {count} records to {name}, and nothing became of {batch.count} before them"
            self.violation(seen, "vanished", (seen.actor, name), f"{text}, which were refused ({error.name})")
            del self._batches[seen.actor][at]
            return
        if not split:
            exact = batch.is_exact and self._got != seen.seq
            self._repeats(seen, "a batch", batch.failed_us, wait_us(self._backoff, batch.attempts), exact=exact)
        batch.count, batch.failed_us, batch.attempts = count, -1, batch.attempts + 1

    def _produced(self, seen: Seen, fact: Received) -> None:
        self._got = seen[0]
        self._broken.pop((seen[2], fact[0]), None)
        asked = self._sent.get(seen[2], {}).pop(fact[2], None)
        if asked is None:
            return
        for row in fact[4].batches:
            if row.error is not ErrorCode.NONE or self._batches.get(seen[2]):
                self._attempt_ended(seen, asked, (row.topic, row.partition), row.error)
        self._look_at_batches(seen)

    def _attempt_ended(self, seen: Seen, asked: _Attempt, at: TopicPartition, error: ErrorCode) -> None:
        batches = self._batches.setdefault(seen.actor, {})
        if at in asked.given_up:
            return
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            batches.pop(at, None)
            return
        batch = batches.get(at)
        if batch is None:
            count = next(row.count for row in asked.request.batches if (row.topic, row.partition) == at)
            batch = batches[at] = _Batch(count, asked.at_us)
        batch.error, batch.failed_us, batch.is_exact = error, seen.at_us, error in KEEPS_LEADER

    def _gave_up(self, seen: Seen, fact: ProduceFailed) -> None:
        at = (fact.topic, fact.partition)
        self._batches.get(seen.actor, {}).pop(at, None)
        for attempt in self._sent.get(seen.actor, {}).values():
            attempt.given_up[at] = None

    def _look_at_batches(self, seen: Seen) -> None:
        """Whether one should have been decided: nothing but its host can keep a producer from that."""
        limit_us = self._settings.producer.delivery_timeout_ms * _MS + SLACK_US
        for actor, batches in self._batches.items():
            runs_us = self.panel.disturbances.runs_since_us(host_of(actor))
            for at, batch in list(batches.items()):
                if runs_us is not None and seen.at_us - max(batch.sent_us, runs_us) > limit_us:
                    name = f"{at[0]}-{at[1]}"
                    text = (
                        f"{actor} sent {batch.count} records to {name} {(seen.at_us - batch.sent_us) / 1e6:.0f} s ago,"
                    )
                    text += " and they are neither acknowledged nor told as failed"
                    self.violation(seen, "undecided", (actor, name), text, liveness=True)
                    del batches[at]

    def _hears(self, seen: Seen, fact: Received) -> None:
        self._got = seen.seq
        self._broken.pop((seen[2], fact[0]), None)

    def _may_send(self, seen: Seen, reply: MetadataReply) -> None:
        """Whether a producer that knows who leads has begun to send."""
        if seen.actor in self._rhythms:
            return
        leaders = [row.leader for topic in reply.topics for row in topic.partitions]
        if not leaders or min(leaders) < 0:
            self._mute_until_us.pop(seen.actor, None)
            return
        rates = [
            self._settings.rate_of(topic.topic) for topic in reply.topics if topic.topic not in self._changed_rates
        ]
        if rates and min(rates) > 0:
            config = self._settings.producer
            first_us = 1_000_000 // min(rates) + (config.emulated_batch_interval_ms + config.linger_ms) * 2 * _MS
            self._mute_until_us.setdefault(seen.actor, seen.at_us + first_us + SLACK_US)

    def _look_at_mute(self, seen: Seen) -> None:
        for actor, until_us in list(self._mute_until_us.items()):
            runs_us = self.panel.disturbances.runs_since_us(host_of(actor))
            if actor in self._rhythms or runs_us is None:
                del self._mute_until_us[actor]
            elif max(until_us, runs_us + SLACK_US) < seen.at_us:
                del self._mute_until_us[actor]
                text = f"{actor} knows who leads its topic, and has sent nothing"
                self.violation(seen, "too-late", (actor, "its first records"), text, liveness=True)

    # --- the admin ---------------------------------------------------------------------------------------------

    def _admin_asks(self, seen: Seen, fact: Send) -> None:
        if seen[2] != ADMIN:
            return
        quiet, self._quiet = self._quiet, None
        self._active_us = seen.at_us
        if self._asked:
            self._mixed_until_us = seen.at_us + COMMAND_US
        self._asked[fact.request_id] = fact.to
        if quiet is None:
            return
        if quiet.since.seq == seen.seq:
            found = type(getattr(quiet.since.fact, "message", None)) is FindCoordinatorReply
            self._failures = quiet.failures - 1 if found else 0
        elif self._got != seen.seq and self._mixed_until_us < seen.at_us:
            wait, what = wait_us(ADMIN_BACKOFF, quiet.failures), f"a {type(fact.message).__name__}"
            self._repeats(seen, what, quiet.since.at_us, wait, exact=self._knows_controller)

    def _admin_hears(self, seen: Seen, fact: Received) -> None:
        if seen[2] != ADMIN:
            return
        self._got, self._active_us = seen.seq, seen.at_us
        if self._asked.pop(fact.request_id, None) is not None:
            self._is_quiet(seen)

    def _is_quiet(self, seen: Seen) -> None:
        """Unless it asks further, or says what came of its command, in this very step."""
        self._failures += 1
        if self._asked or self._quiet is not None:
            self._mixed_until_us = seen.at_us + COMMAND_US
        self._quiet = _Quiet(seen, self._failures)

    def _looks_around(self, seen: Seen, fact: Send) -> None:
        """Its commands may wait for what metadata will say."""
        if seen[2] != ADMIN:
            return
        self._looking, self._active_us = True, seen.at_us
        if self._quiet is not None and self._quiet.since.seq != seen.seq:
            self._quiet = None

    def _learns(self, seen: Seen, fact: Received) -> None:
        self._got = seen.seq
        self._broken.pop((seen[2], fact[0]), None)
        if seen[2] == ADMIN:
            self._looking, self._active_us = False, seen.at_us
            self._knows_controller = fact.message.controller_id >= 0
        elif role_of(seen[2]) == "producer":
            for batch in self._batches.get(seen.actor, {}).values():
                batch.is_exact = False  # another may lead
            self._may_send(seen, fact.message)

    def _told(self, seen: Seen, fact: AdminAnswered | GroupDescribed) -> None:
        self._failures, self._quiet = 0, None
        idle_us = seen.at_us - self._active_us
        waits = bool(self._asked) or self._looking or not self._knows_controller
        if fact.error is ErrorCode.REQUEST_TIMED_OUT and idle_us > SLACK_US and not waits:
            text = f"the admin gave a command up that it had not asked anybody about for {idle_us / 1e6:.1f} s"
            self.violation(seen, "too-late", (ADMIN,), text, liveness=True)

    def _fault(self, seen: Seen, fact: FaultApplied) -> None:
        if self._asked or self._quiet is not None:  # it may be another command for the admin
            self._mixed_until_us = seen.at_us + COMMAND_US
        if fact.kind == "set-rate":
            self._changed_rates[fact.text.rpartition(" ")[2]] = None
            self._mute_until_us = {}
        if fact.kind == SILENT:
            self._silent[fact.text.partition(" ")[0]] = None

    # --- members -----------------------------------------------------------------------------------------------

    def _asks(self, seen: Seen, fact: Send) -> None:
        actor, request = seen[2], fact[4]
        if self._refused and self._refused.get(actor) == fact[0]:
            del self._refused[actor]
            text = f"{actor} sent {fact[0]} a {type(request).__name__}, which had said that it is not the coordinator"
            self.violation(seen, "not-looked-up", (actor,), f"{text}, and nobody has told it of another since")
        if type(request) is JoinGroup:
            self._rejoins.pop(actor, None)
        elif type(request) is OffsetCommit or type(request) is RangeCommit:
            self._committing[actor] = fact[2]
            self._rejoins_after(actor, _NEVER_US)  # it awaits the answer first
        if type(request) is RangeCommit:
            self._commits_again(seen)

    def _is_answered(self, seen: Seen, fact: Received) -> None:
        error, reply = ErrorCode.NONE, fact[4]
        if isinstance(reply, OffsetCommitReply | RangeCommitReply) and self._committing.get(seen[2]) == fact[2]:
            del self._committing[seen.actor]
            self._rejoins_after(seen.actor, seen.at_us)
        rows = getattr(reply, "outcomes", ())
        if rows:
            error = rows[0].error
        elif not isinstance(reply, OffsetCommitReply | RangeCommitReply):
            error = reply.error
        if error is ErrorCode.NONE:
            return
        if error is ErrorCode.NOT_COORDINATOR:
            self._refused[seen.actor] = fact.peer
        elif error is ErrorCode.REBALANCE_IN_PROGRESS and isinstance(reply, HeartbeatReply | OffsetCommitReply):
            self._is_to_rejoin(seen, fact)
        if isinstance(reply, RangeCommitReply) and error in TRIED_AGAIN:
            self._commit_failed(seen)

    def _finds(self, seen: Seen, fact: Received) -> None:
        self._refused.pop(seen.actor, None)
        if seen.actor in self._commits and fact.message.error is ErrorCode.NONE:
            self._commits[seen.actor] = self._commits[seen.actor][0], seen.at_us

    def _is_to_rejoin(self, seen: Seen, fact: Received) -> None:
        group, host = self._settings.group_of(seen.actor), host_of(seen.actor)
        times = self._times.get(group)
        known = self.panel.memberships.members.get(seen.actor)
        if times is None or times.streams or host in self._silent or known is None or known.state != MEMBER:
            return
        busy_us = min(2 * times.poll_us + times.calls_us, times.rebalance_us)
        commits = any(each in self._committing for each in (seen.actor, f"{seen.actor}/{PART}"))
        since_us = _NEVER_US if commits else seen.at_us
        rejoin = _Rejoin(seen, group, fact.peer, busy_us, since_us + busy_us + SLACK_US)
        self._rejoins.setdefault(seen.actor, rejoin)
        self._look_at_members(seen)

    def _rejoins_after(self, actor: ActorName, at_us: int) -> None:
        """``actor``: the member, or its second consumer, whose commit it awaits, too (KIP-333)."""
        member = actor.removesuffix(f"/{PART}")
        rejoin = self._rejoins.get(member)
        if rejoin is None:
            return
        if at_us == _NEVER_US:
            rejoin = self._rejoins[member] = rejoin._replace(commits=rejoin.commits + 1)
        if rejoin.commits <= COMMITS_BEFORE_A_JOIN if at_us == _NEVER_US else rejoin.by_us >= _NEVER_US:
            self._rejoins[member] = rejoin._replace(by_us=at_us + rejoin.busy_us + SLACK_US)

    def _look_at_members(self, seen: Seen) -> None:
        for actor, rejoin in list(self._rejoins.items()):
            if rejoin.by_us < seen.at_us:
                del self._rejoins[actor]
                free_us = self.panel.disturbances.undisturbed_since_us((host_of(actor), host_of(rejoin.coordinator)))
                if free_us is not None and free_us <= rejoin.since.at_us and host_of(actor) not in self._silent:
                    text = f"{actor} was told {(seen.at_us - rejoin.since.at_us) / 1e6:.1f} s ago that its group"
                    text += " rebalances, and has not joined again"
                    self.violation(seen, "not-rejoined", (rejoin.group, actor), text, liveness=True)

    # --- second consumers --------------------------------------------------------------------------------------

    def _commit_failed(self, seen: Seen) -> None:
        """One by interval: while its member stays in a generation nobody else makes any."""
        member, config = seen.actor.removesuffix(f"/{PART}"), self._settings.consumer(seen.actor)
        known = self.panel.memberships.members.get(member)
        by_interval = config is not None and config.enable_auto_commit and not config.emulated_commit_after_poll
        if member != seen.actor and by_interval and known is not None and known.state == MEMBER:
            self._commits[seen.actor] = seen.at_us, seen.at_us

    def _commits_again(self, seen: Seen) -> None:
        failed, config = self._commits.pop(seen[2], None), self._settings.consumer(seen.actor)
        if failed is not None and config is not None:
            failed_us, found_us = failed
            wait = config.retry_backoff_ms * _MS
            late = seen.at_us - found_us > wait * LATEST
            self._repeats(seen, "a RangeCommit", found_us if late else failed_us, wait, exact=late)

    # --- all ---------------------------------------------------------------------------------------------------

    def _repeats(self, seen: Seen, what: str, failed_us: int, wait: int, *, exact: bool) -> None:
        """It asks again what failed then."""
        after_us = seen.at_us - failed_us
        runs_us = self.panel.disturbances.runs_since_us(host_of(seen.actor))
        late = exact and after_us > wait * LATEST and runs_us is not None and runs_us <= failed_us
        if after_us < wait * EARLIEST or late:
            text = (
                f"{seen.actor} sent {what} {after_us / 1e6:.3f} s after one that failed, instead of {wait / 1e6:.3f} s"
            )
            self.violation(seen, "too-late" if late else "too-soon", (seen.actor, what), text)

    def _count(self, seen: Seen, fact: Send) -> None:
        key, second = (seen[2], type(fact[4])), seen[1] // 1_000_000
        before = self._counted.get(key)
        count = 1 if before is None or before[0] != second else before[1] + 1
        self._counted[key] = second, count
        if count == STORM:
            text = f"{seen.actor} sent {count} requests {key[1].__name__} within a second"
            self.violation(seen, "storm", (seen.actor, key[1].__name__), text)

    def _gone(self, seen: Seen, fact: Hangup | LinkDown) -> None:
        actor, peer = seen.actor, fact.peer
        if actor == ADMIN:
            gone = [number for number, to in self._asked.items() if to == peer]
            for number in gone:
                del self._asked[number]
            self._looking, self._active_us = False, seen.at_us
            if gone:
                self._is_quiet(seen)
            return
        if actor in self._rhythms:
            self._broken[actor, peer] = self._broken.get((actor, peer), (0, 0))[0] + 1, seen.at_us
        if self._refused.get(actor) == peer:
            del self._refused[actor]
        self._rejoins.pop(actor, None)
        if self._committing.pop(actor, None) is not None:
            self._rejoins_after(actor, seen.at_us)
        self._commits.pop(actor, None)
        sent = self._sent.get(actor, {})
        for number in [number for number, asked in sent.items() if asked.to == peer]:
            asked = sent.pop(number)
            for row in asked.request.batches:
                self._attempt_ended(seen, asked, (row.topic, row.partition), ErrorCode.NETWORK_EXCEPTION)

    def _ends(self, seen: Seen, fact: object) -> None:
        """A membership is over."""
        self._rejoins.pop(seen.actor, None)

    def _became(self, seen: Seen, fact: MemberBecame) -> None:
        if fact.new != MEMBER:
            self._ends(seen, fact)
            self._commits = {part: at for part, at in self._commits.items() if not part.startswith(f"{seen.actor}/")}

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        self._times.pop(self._settings.group_of(fact.host), None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        tables: tuple[dict[ActorName, Any], ...] = (
            *(self._sent, self._batches, self._rhythms, self._mute_until_us),
            *(self._refused, self._commits, self._rejoins, self._committing),
        )
        for table in tables:
            for actor in [actor for actor in table if host_of(actor) == fact.host]:
                del table[actor]
        self._broken = {key: broke for key, broke in self._broken.items() if host_of(key[0]) != fact.host}
        if fact.host == ADMIN:
            self._asked, self._quiet = {}, None

    def finish(self, at_us: int) -> None:
        """Look once more."""
        if self.panel.now is not None and self.on:
            seen = self.panel.now._replace(at_us=at_us)
            self._look_at_batches(seen)
            self._look_at_members(seen)
            self._look_at_mute(seen)


def _is_final(error: ErrorCode) -> bool:
    """Whether a batch that was answered so is given up (``Sender.canRetry``; a lost tail begins a new epoch)."""
    return not error.retriable and error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
