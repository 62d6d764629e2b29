"""Clients retry after the back-off, look up coordinators, and report the outcomes of batches.

- too-soon: a failed batch, admin request or second-consumer commit is
  retried after ``retry.backoff.ms`` (KIP-580: doubled up to a maximum). Since
  3.7 a batch does not wait if its producer learned of a newer leader. A
  producer reconnects after ``reconnect.backoff.ms`` and sends records at
  their interval.
- too-late: these requests are sent soon after the back-off, if the host runs and needs no new leader or coordinator.
- vanished: a producer reports a batch with a final error as failed, and retries other batches unchanged.
- undecided: each batch is acknowledged or reported as failed within
  ``delivery.timeout.ms``.
- not-looked-up: after NOT_COORDINATOR a client looks up the coordinator
  first.
- not-rejoined: after REBALANCE_IN_PROGRESS a member rejoins at its next
  poll (bound: the work of two polls).
- storm: no client sends the same request 100 times within a second.

Source: Kafka 3.4 ``Sender``, ``RecordAccumulator``, ``KafkaAdminClient``,
``AbstractCoordinator``,
``ConsumerCoordinator.OffsetCommitResponseHandler``; KIP-580.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple, Self

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import FaultApplied, HostDown, MemberReconfigured, Seen, received, sent
from kemu.emulator.watching.group_times import GroupTimes
from kemu.emulator.watching.memberships import MEMBER
from kemu.emulator.watching.settings import Settings
from kemu.protocol.catch_up import PART
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupDescribe
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
_error = attrgetter("error")
_NEVER_US = 1 << 62
SLACK_US = 1_500_000
"""Tolerance of bounds that need not be exact, in us."""
ADMIN_BACKOFF = (100, 1_000)
"""``retry.backoff.ms`` and its maximum of an admin client. Source: Kafka 3.9 ``AdminClientConfig``."""
COMMAND_US = 60_000_000
"""``default.api.timeout.ms`` of an admin client."""
EARLIEST, LATEST = 0.7, 1.4
"""Least and greatest allowed ratio of a wait to the back-off, which has a jitter of a fifth; clocks drift, too."""
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
"""Requests that a client rarely sends."""
OF_MEMBERS: Mapping[type, type] = {
    Heartbeat: HeartbeatReply,
    JoinGroup: JoinGroupReply,
    SyncGroup: SyncGroupReply,
    OffsetCommit: OffsetCommitReply,
    OffsetFetch: OffsetFetchReply,
    RangeCommit: RangeCommitReply,
    RangeFetch: RangeFetchReply,
}
"""Requests to a group's coordinator -> their replies."""
ADMINS_ASK: tuple[type, ...] = (
    *(FindCoordinator, ConsumerGroupDescribe, DescribeGroups, DeleteGroups, LeaveGroup, ListGroups, OffsetDelete),
    *(OffsetFetch, OffsetCommit, ListOffsets, DeleteRecords, CreateTopics, CreatePartitions, DeleteTopics),
    *(ElectLeaders, IncrementalAlterConfigs, AlterPartitionReassignments, ListPartitionReassignments),
)
"""Requests of admin commands, without Metadata, because the client also sends Metadata without a command."""
RETRIED = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT)
"""Errors after which a commit may succeed."""
KEEPS_LEADER = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)
"""Produce errors after which a producer retries at the same leader without new metadata."""
COMMITS_BEFORE_A_JOIN = 1
"""Number of commits that a member may send before it rejoins. More commits mean that the member ignores the
rebalance."""
_REPEATED_BEFORE_A_JOIN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
"""Errors of a partition that a coordinator of 4.0 or later answers permanently, and that a member retries."""
SILENT = "stop-polling"
"""The fault under which an application does not poll."""


def wait_us(backoff: tuple[int, int], failures: int) -> int:
    """The back-off after ``failures`` consecutive failures, without jitter, in us. A maximum of 0 means a constant
    back-off.
    """
    first, most = backoff
    return (min(first << min(failures - 1, 20), most) if most else first) * _MS


class _Batch:
    """A batch without an outcome whose last attempt failed."""

    __slots__ = ("attempts", "count", "error", "failed_us", "is_exact", "sent_us", "tried_us")

    def __init__(self, count: int, sent_us: int) -> None:
        self.count = count
        self.sent_us = sent_us
        """Time of the first attempt, in us."""
        self.tried_us = sent_us
        """Time of the last failed attempt, in us."""
        self.attempts = 1
        self.error = ErrorCode.NONE
        self.failed_us = -1
        """Time at which the last attempt failed, in us; -1 during an attempt."""
        self.is_exact = False
        """Whether the next attempt waits only for the back-off."""


class _Attempt(NamedTuple):
    """A Produce without an answer. ``given_up``: partitions whose batch was reported as failed before the answer."""

    to: ActorName
    at_us: int
    request: Produce
    given_up: dict[TopicPartition, None]


class _Rhythm:
    """The last step in which a producer sent records."""

    __slots__ = ("at_us", "gap_us", "requests", "seq", "wrong")

    def __init__(self) -> None:
        self.seq = self.at_us = self.gap_us = -1
        """Step, its time, and ``gap_us``: time since the previous step, or -1 if another event than the interval caused
        the step."""
        self.requests: list[Produce] = []
        """The requests of the step."""
        self.wrong = 0
        """Number of consecutive steps at a wrong time."""

    def is_wrong(self, interval_us: int) -> bool:
        """Whether the step occurred too early, or so late and with so many records that a record was due earlier."""
        if self.gap_us < 0:
            return False
        if self.gap_us > interval_us * LATEST:
            count = sum(row.count for request in self.requests for row in request.batches)
            return count * interval_us > 2 * self.gap_us
        return self.gap_us < interval_us * EARLIEST


class _Quiet(NamedTuple):
    """A wait of the admin client, which has an unfinished command and no open request."""

    since: Seen
    failures: int


class _Rejoin(NamedTuple):
    """A rebalance of which a member learned, before the member rejoins."""

    since: Seen
    group: GroupId
    coordinator: ActorName
    busy_us: int
    by_us: int
    commits: int = 0
    """Number of commits that the member has sent since it learned of the rebalance."""


class Clients(Checker):
    """Judges retries, lookups and outcomes of producers, the admin client and members.

    Args:
        settings: the settings in force; without settings nothing is judged.
        times: the time limits of each group.
    """

    name = "clients"
    unknown_of_real_clients = "when it retries, and after which wait"
    kinds = ("not-looked-up", "not-rejoined", "storm", "too-late", "too-soon", "undecided", "vanished")

    def __init__(self, settings: Settings | None = None, times: Mapping[GroupId, GroupTimes] | None = None) -> None:
        super().__init__()
        self._times = dict(times or {})
        self._got = -1
        """The last step in which a client received an answer."""
        self._sent: dict[ActorName, dict[int, _Attempt]] = {}
        """Producer -> request id -> the Produce without an answer."""
        self._batches: dict[ActorName, dict[TopicPartition, _Batch]] = {}
        self._leaders: dict[ActorName, dict[TopicPartition, tuple[int, int]]] = {}
        """Producer -> partition -> (highest leader epoch that the producer knows, time in us at which it learned of the
        epoch)."""
        self._rhythm_of: dict[ActorName, _Rhythm] = {}
        self._mute_until_us: dict[ActorName, int] = {}
        """Producer that knows the leaders and has sent no record yet -> latest time of the first record, in us."""
        self._changed_rates: dict[str, None] = {}
        """Topics whose rate the plan changed."""
        self._broken: dict[tuple[ActorName, ActorName], tuple[int, int]] = {}
        """(producer, peer) -> (number of consecutive connection failures, time of the last failure in us)."""
        self._asked: dict[int, ActorName] = {}
        """The admin's requests without an answer."""
        self._quiet: _Quiet | None = None
        self._failures = 0
        """Number of consecutive failed attempts of the admin client."""
        self._knows_controller = True
        self._looking = False
        """Whether the admin waits for metadata."""
        self._active_us = 0
        """Time of the admin's last request or answer, in us."""
        self._mixed_until_us = -1
        """Time until which several admin commands may run, so that a wait cannot be matched to its command."""
        self._refused: dict[ActorName, ActorName] = {}
        """Member -> the broker that answered NOT_COORDINATOR, until the member finds another coordinator."""
        self._commits: dict[ActorName, tuple[int, int]] = {}
        """Second consumer -> (time at which its commit failed, earliest time for a retry), in us."""
        self._rejoins: dict[ActorName, _Rejoin] = {}
        self._metadata_of: dict[ActorName, ActorName] = {}
        """Member -> broker that has not answered the member's Metadata yet."""
        self._committing: dict[ActorName, int] = {}
        """Member, or second consumer, with an unanswered commit -> request id of its last commit."""
        self._silent: dict[str, None] = {}
        """Hosts whose present process was told to stop polling. The stop begins with the next poll, and its end is
        unknown: ``FaultEnded`` precedes it when all faults end."""
        self._second = 0
        """The second of the last request, which ``_counted`` is about."""
        self._counted: dict[tuple[ActorName, type], int] = {}
        """(client, request type) -> number of such requests in the last second with a request."""
        if settings is None:
            return
        self._settings = settings
        self._backoff = settings.producer.retry_backoff_ms, settings.producer.retry_backoff_max_ms
        self.on = {
            sent(Produce): self._produces,
            received(ProduceReply): self._produced,
            ProduceFailed: self._gave_up,
            Hangup: self._connection_broke,
            LinkDown: self._connection_broke,
            HostDown: self._down,
            MemberFailed: self._ends,
            MemberBecame: self._became,
            MemberReconfigured: self._reconfigured,
            FaultApplied: self._fault,
            AdminAnswered: self._command_ended,
            GroupDescribed: self._command_ended,
            sent(LeaveGroup): self._ends,
            sent(Metadata): self._asks_metadata,
            received(MetadataReply): self._metadata_answered,
            received(FindCoordinatorReply): self._finds,
            received(ApiVersionsReply): self._any_answer,
        }
        for rare in ASKED_RARELY:
            self.shown_to({sent(rare): self._count})
        for kind, reply in OF_MEMBERS.items():
            self.shown_to({sent(kind): self._asks, received(reply): self._is_answered})
        for request in ADMINS_ASK:
            reply = MESSAGES[SPECS[request].api_key, Kind.REPLY].cls
            self.shown_to({sent(request): self._admin_asks, received(reply): self._admin_hears})
        self.shown_to(settings.on)

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(settings, settings.times)

    # --- producers ---------------------------------------------------------------------------------------------

    def _produces(self, seen: Seen, fact: Send) -> None:
        to, _, request_id, _, request = fact
        rhythm = self._rhythm_of.get(seen[2])
        if rhythm is None:
            if role_of(seen[2]) != "producer":
                return
            rhythm = self._rhythm_of[seen.actor] = _Rhythm()
        self._is_in_rhythm(seen, rhythm, request)
        failures, broke_us = self._broken.get((seen[2], to), (0, 0))
        if failures:
            config = self._settings.producer
            least_us = wait_us((config.reconnect_backoff_ms, config.reconnect_backoff_max_ms), failures)
            self._judge_retry(seen, f"{to} a Produce", broke_us, least_us, exact=False)
        if not request.acks:
            return
        self._sent.setdefault(seen.actor, {})[request_id] = _Attempt(to, seen[1], request, {})
        waiting = self._batches.get(seen[2])
        for row in request.batches if waiting else ():
            batch = waiting.get((row.topic, row.partition)) if waiting else None
            if batch is not None:
                self._judge_resent(seen, (row.topic, row.partition), batch, row.count, broke_us)

    def _is_in_rhythm(self, seen: Seen, rhythm: _Rhythm, request: Produce) -> None:
        """Judge whether a producer sends its records at their interval. Records arrive evenly: a producer sends one
        request in each interval with a record.
        """
        if rhythm.seq == seen.seq:
            rhythm.requests.append(request)
            return
        interval_us, gap_us = self._settings.producer.emulated_batch_interval_ms * _MS, seen.at_us - rhythm.at_us
        rhythm.wrong = rhythm.wrong + 1 if rhythm.is_wrong(interval_us) else 0
        if rhythm.wrong == IN_A_ROW:
            text = f"{seen.actor} sends its records every {rhythm.gap_us / 1e6:.3f} s"
            text += f", instead of {interval_us / 1e6:.3f} s"
            kind = "too-late" if rhythm.gap_us > interval_us else "too-soon"
            self.violation(seen, kind, (seen.actor, "its rhythm"), text)
        is_free = self._got != seen.seq and not self._sent.get(seen.actor) and not self._batches.get(seen.actor)
        rhythm.seq, rhythm.at_us, rhythm.requests = seen.seq, seen.at_us, [request]
        rhythm.gap_us = gap_us if is_free else -1

    def _judge_resent(self, seen: Seen, at: TopicPartition, batch: _Batch, count: int, broke_us: int) -> None:
        name, error = f"{at[0]}-{at[1]}", batch.error
        split = error is ErrorCode.MESSAGE_TOO_LARGE
        if not split and (_is_final(error) or count != batch.count):
            text = f"{seen.actor} sent {count} records to {name} and did not report the {batch.count} before them"
            self.violation(seen, "vanished", (seen.actor, name), f"{text} as failed ({error.name})")
            del self._batches[seen.actor][at]
            return
        if not split:
            # A connection that broke since the failure waits for its own back-off (Sender.sendProducerData).
            exact = batch.is_exact and self._got != seen.seq and broke_us <= batch.failed_us
            learned_us = self._leaders.get(seen.actor, {}).get(at, (0, -1))[1]
            if learned_us < batch.tried_us or not self._settings.release.metadata.retries_at_new_leader:
                self._judge_retry(seen, "a batch", batch.failed_us, wait_us(self._backoff, batch.attempts), exact=exact)
        batch.count, batch.failed_us, batch.attempts = count, -1, batch.attempts + 1

    def _produced(self, seen: Seen, fact: Received) -> None:
        self._got = seen[0]
        self._broken.pop((seen[2], fact[0]), None)
        asked = self._sent.get(seen[2], {}).pop(fact[2], None)
        if asked is None:
            return
        for new in fact[4].new_leaders:
            self._learns(seen, (new.topic, new.partition), new.leader_epoch)
        judged = self._batches.get(seen[2]) or any(map(_error, fact[4].batches))
        for row in fact[4].batches if judged else ():
            if row.error is not ErrorCode.NONE or self._batches.get(seen[2]):
                self._attempt_ended(seen, asked, (row.topic, row.partition), row.error)
        self._look_at_batches(seen)

    def _learns(self, seen: Seen, at: TopicPartition, epoch: int) -> None:
        leaders = self._leaders.setdefault(seen.actor, {})
        if epoch > leaders.get(at, (-1, 0))[0]:
            leaders[at] = epoch, seen.at_us

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
        batch.tried_us = asked.at_us
        batch.error, batch.failed_us, batch.is_exact = error, seen.at_us, error in KEEPS_LEADER

    def _gave_up(self, seen: Seen, fact: ProduceFailed) -> None:
        at = (fact.topic, fact.partition)
        self._batches.get(seen.actor, {}).pop(at, None)
        for attempt in self._sent.get(seen.actor, {}).values():
            attempt.given_up[at] = None

    def _look_at_batches(self, seen: Seen) -> None:
        """Judge batches whose ``delivery.timeout.ms`` is over. Only a batch of a producer on a stopped host may lack an
        outcome.
        """
        limit_us = self._settings.producer.delivery_timeout_ms * _MS + SLACK_US
        for actor, batches in self._batches.items():
            runs_us = self.panel.disturbances.runs_since_us(host_of(actor))
            for at, batch in list(batches.items()):
                if runs_us is not None and seen.at_us - max(batch.sent_us, runs_us) > limit_us:
                    name = f"{at[0]}-{at[1]}"
                    text = (
                        f"{actor} sent {batch.count} records to {name} {(seen.at_us - batch.sent_us) / 1e6:.0f} s ago,"
                    )
                    text += " and they are neither acknowledged nor reported as failed"
                    self.violation(seen, "undecided", (actor, name), text, liveness=True)
                    del batches[at]

    def _any_answer(self, seen: Seen, fact: Received) -> None:
        self._got = seen.seq
        self._broken.pop((seen[2], fact[0]), None)

    def _start_mute(self, seen: Seen, reply: MetadataReply) -> None:
        """Start the clock of a producer that has learned the leaders of its topic."""
        if seen.actor in self._rhythm_of:
            return
        leaders = [row.leader for topic in reply.topics for row in topic.partitions]
        if not leaders or min(leaders) < 0:
            self._mute_until_us.pop(seen.actor, None)
            return
        times_us = [
            self._settings.first_record_us(topic.topic)
            for topic in reply.topics
            if topic.topic not in self._changed_rates
        ]
        if times_us and min(times_us) > 0:
            config = self._settings.producer
            first_us = max(times_us) + (config.emulated_batch_interval_ms + config.linger_ms) * 2 * _MS
            self._mute_until_us.setdefault(seen.actor, seen.at_us + first_us + SLACK_US)

    def _look_at_mute(self, seen: Seen) -> None:
        for actor, until_us in list(self._mute_until_us.items()):
            runs_us = self.panel.disturbances.runs_since_us(host_of(actor))
            if actor in self._rhythm_of or runs_us is None:
                del self._mute_until_us[actor]
            elif max(until_us, runs_us + SLACK_US) < seen.at_us:
                del self._mute_until_us[actor]
                text = f"{actor} knows the leaders of its topic, and has sent no record"
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
            self._judge_retry(seen, what, quiet.since.at_us, wait, exact=self._knows_controller)

    def _admin_hears(self, seen: Seen, fact: Received) -> None:
        if seen[2] != ADMIN:
            return
        self._got, self._active_us = seen.seq, seen.at_us
        if self._asked.pop(fact.request_id, None) is not None:
            self._start_wait(seen)

    def _start_wait(self, seen: Seen) -> None:
        """Start a wait, unless the admin sends another request or reports an outcome in the same step."""
        self._failures += 1
        if self._asked or self._quiet is not None:
            self._mixed_until_us = seen.at_us + COMMAND_US
        self._quiet = _Quiet(seen, self._failures)

    def _asks_metadata(self, seen: Seen, fact: Send) -> None:
        """Note a Metadata request, whose answer a rejoin, or the admin's commands, may need."""
        self._metadata_of[seen.actor] = fact.to
        if seen[2] != ADMIN:
            return
        self._looking, self._active_us = True, seen.at_us
        if self._quiet is not None and self._quiet.since.seq != seen.seq:
            self._quiet = None

    def _metadata_answered(self, seen: Seen, fact: Received) -> None:
        self._metadata_of.pop(seen.actor, None)
        self._got = seen.seq
        self._broken.pop((seen[2], fact[0]), None)
        if seen[2] == ADMIN:
            self._looking, self._active_us = False, seen.at_us
            self._knows_controller = fact.message.controller_id >= 0
        elif role_of(seen[2]) == "producer":
            for batch in self._batches.get(seen.actor, {}).values():
                batch.is_exact = False  # the leader may have changed
            for topic in fact.message.topics:
                for row in topic.partitions:
                    self._learns(seen, (topic.topic, row.partition), row.leader_epoch)
            self._start_mute(seen, fact.message)

    def _command_ended(self, seen: Seen, fact: AdminAnswered | GroupDescribed) -> None:
        self._failures, self._quiet = 0, None
        idle_us = seen.at_us - self._active_us
        waits = bool(self._asked) or self._looking or not self._knows_controller
        if fact.error is ErrorCode.REQUEST_TIMED_OUT and idle_us > SLACK_US and not waits:
            text = f"the admin gave up a command after {idle_us / 1e6:.1f} s without a request"
            self.violation(seen, "too-late", (ADMIN,), text, liveness=True)

    def _fault(self, seen: Seen, fact: FaultApplied) -> None:
        if self._asked or self._quiet is not None:  # the fault may be another admin command
            self._mixed_until_us = seen.at_us + COMMAND_US
        if fact.kind == "set-rate":
            self._changed_rates[fact.text.rpartition(" ")[2]] = None
            self._mute_until_us = {}
        if fact.kind == SILENT:
            self._silent.update((host, None) for host, _ in fact.links)

    # --- members -----------------------------------------------------------------------------------------------

    def _asks(self, seen: Seen, fact: Send) -> None:
        actor, request = seen[2], fact[4]
        if self._refused and self._refused.get(actor) == fact[0]:
            del self._refused[actor]
            text = f"{actor} sent a {type(request).__name__} to {fact[0]}, which had answered NOT_COORDINATOR"
            self.violation(seen, "not-looked-up", (actor,), f"{text}, without a lookup in between")
        if type(request) is JoinGroup:
            self._rejoins.pop(actor, None)
        elif type(request) is OffsetCommit or type(request) is RangeCommit:
            self._committing[actor] = fact[2]
            self._rejoins_after(actor, _NEVER_US)  # the member waits for the answer first
        if type(request) is RangeCommit:
            self._commit_retried(seen)

    def _is_answered(self, seen: Seen, fact: Received) -> None:
        error, reply = ErrorCode.NONE, fact[4]
        if isinstance(reply, OffsetCommitReply | RangeCommitReply) and self._committing.get(seen[2]) == fact[2]:
            del self._committing[seen.actor]
            self._rejoins_after(seen.actor, seen.at_us)
        rows = getattr(reply, "outcomes", ())
        if isinstance(reply, OffsetCommitReply) and any(row.error in _REPEATED_BEFORE_A_JOIN for row in rows):
            self._repeats_commit(seen.actor)
        if rows:
            error = rows[0].error
        elif not isinstance(reply, OffsetCommitReply | RangeCommitReply):
            error = reply.error
        if error is ErrorCode.NONE:
            return
        if error is ErrorCode.NOT_COORDINATOR:
            self._refused[seen.actor] = fact.peer
        elif error is ErrorCode.REBALANCE_IN_PROGRESS and isinstance(reply, HeartbeatReply | OffsetCommitReply):
            self._must_rejoin(seen, fact)
        if isinstance(reply, RangeCommitReply) and error in RETRIED:
            self._commit_failed(seen)

    def _finds(self, seen: Seen, fact: Received) -> None:
        self._refused.pop(seen.actor, None)
        if seen.actor in self._commits and fact.message.error is ErrorCode.NONE:
            self._commits[seen.actor] = self._commits[seen.actor][0], seen.at_us

    def _must_rejoin(self, seen: Seen, fact: Received) -> None:
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
        """Restart the clock of a rejoin. ``actor``: the member, or the member's second consumer, whose commit the
        member awaits, too (KIP-333).
        """
        member = actor.removesuffix(f"/{PART}")
        rejoin = self._rejoins.get(member)
        if rejoin is None:
            return
        if at_us == _NEVER_US:
            rejoin = self._rejoins[member] = rejoin._replace(commits=rejoin.commits + 1)
        if rejoin.commits <= COMMITS_BEFORE_A_JOIN if at_us == _NEVER_US else rejoin.by_us >= _NEVER_US:
            self._rejoins[member] = rejoin._replace(by_us=at_us + rejoin.busy_us + SLACK_US)

    def _repeats_commit(self, actor: ActorName) -> None:
        """Bound the rejoin by the rebalance timeout: until then a member repeats its commit before a join.

        Source: ``ConsumerCoordinator.onJoinPrepare`` (3.9, 4.2): retriable errors of the commit.
        """
        rejoin = self._rejoins.get(actor)
        if rejoin is not None:
            until_us = rejoin.since.at_us + self._times[rejoin.group].rebalance_us
            self._rejoins[actor] = rejoin._replace(by_us=until_us + rejoin.busy_us + SLACK_US)

    def _look_at_members(self, seen: Seen) -> None:
        for actor, rejoin in list(self._rejoins.items()):
            if rejoin.by_us < seen.at_us:
                del self._rejoins[actor]
                # a member that matches a pattern first awaits metadata (ConsumerCoordinator.poll)
                asked = [each for each in (actor, rejoin.coordinator, self._metadata_of.get(actor, "")) if each]
                free_us = self.panel.disturbances.undisturbed_since_us([host_of(each) for each in asked])
                if free_us is not None and free_us <= rejoin.since.at_us and host_of(actor) not in self._silent:
                    text = f"{actor} learned {(seen.at_us - rejoin.since.at_us) / 1e6:.1f} s ago that its group"
                    text += " rebalances, and has not rejoined"
                    self.violation(seen, "not-rejoined", (rejoin.group, actor), text, liveness=True)

    # --- second consumers --------------------------------------------------------------------------------------

    def _commit_failed(self, seen: Seen) -> None:
        """Note a failed commit by interval. While the member is in a generation, nothing else causes a commit."""
        member, config = seen.actor.removesuffix(f"/{PART}"), self._settings.consumer(seen.actor)
        known = self.panel.memberships.members.get(member)
        by_interval = config is not None and config.enable_auto_commit and not config.emulated_commit_after_poll
        if member != seen.actor and by_interval and known is not None and known.state == MEMBER:
            self._commits[seen.actor] = seen.at_us, seen.at_us

    def _commit_retried(self, seen: Seen) -> None:
        failed, config = self._commits.pop(seen[2], None), self._settings.consumer(seen.actor)
        if failed is not None and config is not None:
            failed_us, found_us = failed
            wait = config.retry_backoff_ms * _MS
            late = seen.at_us - found_us > wait * LATEST
            self._judge_retry(seen, "a RangeCommit", found_us if late else failed_us, wait, exact=late)

    # --- all ---------------------------------------------------------------------------------------------------

    def _judge_retry(self, seen: Seen, what: str, failed_us: int, wait: int, *, exact: bool) -> None:
        """Judge the time between a failed request and its retry."""
        after_us = seen.at_us - failed_us
        runs_us = self.panel.disturbances.runs_since_us(host_of(seen.actor))
        late = exact and after_us > wait * LATEST and runs_us is not None and runs_us <= failed_us
        if after_us < wait * EARLIEST or late:
            text = f"{seen.actor} sent {what} {after_us / 1e6:.3f} s after a failed one, instead of {wait / 1e6:.3f} s"
            self.violation(seen, "too-late" if late else "too-soon", (seen.actor, what), text)

    def _count(self, seen: Seen, fact: Send) -> None:
        key, second = (seen[2], type(fact[4])), seen[1] // 1_000_000
        if second != self._second:
            self._second, self._counted = second, {}
        self._counted[key] = count = self._counted.get(key, 0) + 1
        if count == STORM:
            text = f"{seen.actor} sent {count} requests {key[1].__name__} within a second"
            self.violation(seen, "storm", (seen.actor, key[1].__name__), text)

    def _connection_broke(self, seen: Seen, fact: Hangup | LinkDown) -> None:
        actor, peer = seen.actor, fact.peer
        if actor == ADMIN:
            broken = [number for number, to in self._asked.items() if to == peer]
            for number in broken:
                del self._asked[number]
            self._looking, self._active_us = False, seen.at_us
            if broken:
                self._start_wait(seen)
            return
        if actor in self._rhythm_of:
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
        """Forget the awaited rejoin of a membership that ended."""
        self._rejoins.pop(seen.actor, None)

    def _became(self, seen: Seen, fact: MemberBecame) -> None:
        if fact.new != MEMBER:
            self._ends(seen, fact)
            self._commits = {part: at for part, at in self._commits.items() if not part.startswith(f"{seen.actor}/")}

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        self._times.pop(self._settings.group_of(fact.host), None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        tables: tuple[dict[ActorName, Any], ...] = (
            *(self._sent, self._batches, self._leaders, self._rhythm_of, self._mute_until_us),
            *(self._refused, self._commits, self._rejoins, self._committing, self._metadata_of),
        )
        for table in tables:
            for actor in [actor for actor in table if host_of(actor) == fact.host]:
                del table[actor]
        self._broken = {key: broke for key, broke in self._broken.items() if host_of(key[0]) != fact.host}
        self._silent.pop(fact.host, None)
        if fact.host == ADMIN:
            self._asked, self._quiet = {}, None

    def finish(self, at_us: int) -> None:
        """Judge the waits that are open at the end of the run."""
        if self.panel.now is not None and self.on:
            seen = self.panel.now._replace(at_us=at_us)
            self._look_at_batches(seen)
            self._look_at_members(seen)
            self._look_at_mute(seen)


def _is_final(error: ErrorCode) -> bool:
    """Whether a producer stops retrying a batch after this error (``Sender.canRetry``).

    An OUT_OF_ORDER_SEQUENCE_NUMBER begins a new epoch.
    """
    return not error.retriable and error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
