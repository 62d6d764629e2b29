"""The ports between the parts of a consumer: interfaces of the machine and of its parts, and the machine's timers.

A part uses these protocols and the parts that it owns or receives, never ``actors.consumer.consumer``.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kemu.actors.client import DEADLINE, Client
from kemu.actors.clients.discovery import FIND, Discovery
from kemu.actors.clients.metadata import METADATA, MetadataRefresh
from kemu.actors.consumer.partition import Partition
from kemu.actors.consumer.state import Generation, MemberState, Result
from kemu.actors.consumer.subscription import TopicSubscription
from kemu.actors.machine import Chance, Draws, TimerKey
from kemu.protocol.config import CLOSE_DEFAULT, ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import OffsetToCommit
from kemu.protocol.messages.ranges import FetchedLogs
from kemu.protocol.messages.versions import SpokenVersions
from kemu.protocol.names import ActorName, MemberId, TopicPartition
from kemu.protocol.rebalancing.client_rules import ClientRules

if TYPE_CHECKING:
    from kemu.actors.consumer.modern_discovery import ModernDiscovery

Callback: TypeAlias = Callable[[tuple[TopicPartition, ...], bool], None]
"""The continuation of a callback of the listener: (its partitions, whether the callback raised an error)."""


class ConsumerTimer(StrEnum):
    """The timers of a consumer."""

    BEAT = "beat"
    """The heartbeat thread runs: a heartbeat is due, or the session timeout has passed without an answer."""
    WORK = "work"
    """The application, or a callback of its listener, has finished."""
    WAKE = "wake"
    """The polling thread runs after a backoff or an interval."""
    DEADLINE = DEADLINE[0]
    """The earliest deadline of a request in flight."""
    COMMIT = "commit"
    """commitSync() continues after a backoff or at its timeout."""
    POLL_TIMEOUT = "poll"
    """``max.poll.interval.ms`` may have passed. The timer may fire early, never late."""
    FIND = FIND[0]
    """The next lookup of the coordinator is allowed."""
    METADATA = METADATA[0]
    """Metadata is too old, or the next request for metadata is allowed."""
    POLL_RETURNS = "poll-returns"
    """A poll() with a timeout returns without records."""
    QUESTION = "question"
    """committed() and similar calls continue after a backoff or at their timeout."""
    CLOSE = "close"
    """The timeout of close() has passed."""
    CHILD = "child"
    """KIP-333's second consumer restarts after a failure."""


class MembershipView(Protocol):
    """The interface of the membership for other parts."""

    @property
    def state(self) -> MemberState:
        """The member's state."""
        ...

    @property
    def generation(self) -> Generation:
        """The member's view of its membership."""
        ...

    @property
    def fetches_offsets_as(self) -> tuple[MemberId | None, int]:
        """The member id and epoch of OffsetFetch; (None, -1) if the coordinator does not check the member."""
        ...

    def request_rejoin(self, why: str, after_us: int = 0) -> None:
        """Rejoin at the next poll, or at the first poll after this delay."""
        ...

    def refused(self, error: ErrorCode, why: str, sent: Generation) -> bool:
        """React to an error that answers a request of the membership ``sent``.

        Returns:
            False if the error was ignored, because ``sent`` is not the present membership.
        """
        ...

    def poll_timed_out(self) -> None:
        """Leave the group because the application did not poll in time, if a coordinator is known."""
        ...

    def reset_after(self, error: ErrorCode, why: str) -> None:
        """Reset the membership after this error. The next poll gives up all partitions as lost and rejoins."""
        ...


class HeartbeatThread(Protocol):
    """The thread that sends heartbeats, for the machine and its polling thread."""

    def beat(self) -> None:
        """React to the timer of the thread."""
        ...

    def stop(self) -> None:
        """Stop the timer of the thread."""
        ...

    def runs_at_us(self, due_us: int) -> int:
        """The time at which the thread next runs, at ``due_us`` or later."""
        ...

    def advance_idle_timers(self) -> None:
        """Send a heartbeat now; the next heartbeat is due at a random time of the interval."""
        ...

    def coordinator_found(self) -> None:
        """React to a found coordinator."""
        ...

    def coordinator_lost(self) -> None:
        """React to a lost coordinator."""
        ...


class PolledMembership(MembershipView, Protocol):
    """The interface of the membership for the machine and its polling thread: of either protocol."""

    @property
    def heartbeats(self) -> HeartbeatThread:
        """The thread that sends heartbeats."""
        ...

    def poll(self) -> bool:
        """Join and adopt assignments. Returns whether poll() may read records."""
        ...

    @property
    def is_leaving(self) -> bool:
        """Whether unsubscribe() waits for the answer to the request that leaves the group."""
        ...

    @property
    def has_failed(self) -> bool:
        """Whether poll() has given up all partitions as lost and then raised an error, so that close() commits nothing.

        Source: ``AbstractMembershipManager.transitionToFatal`` (4.0 to 4.3).
        """
        ...

    def leave(self, why: str, operation: str = CLOSE_DEFAULT) -> None:
        """Leave the group, or remain in it, without waiting for the answer.

        Args:
            operation: one of ``CLOSE_MEMBERSHIPS``. Source: ``CloseOptions.GroupMembershipOperation`` (4.1 to 4.3).
        """
        ...

    def end(self, state: MemberState, why: str) -> None:
        """Enter the state CLOSED or FAILED."""
        ...


class PolledRebalancing(Protocol):
    """The interface of the rebalancing for the machine and its polling thread, of either protocol."""

    @property
    def client(self) -> ClientRules:
        """The rules of the release's consumers."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether the member is the leader of its group."""
        ...

    @property
    def is_leading(self) -> bool:
        """Whether the polling thread waits in the leader's part of a join."""
        ...

    @property
    def holds_poll(self) -> bool:
        """Whether poll() returns no records during a join."""
        ...

    def resume_leading(self) -> None:
        """Assign partitions, now that the assignor has its missing input."""
        ...

    def metadata_refreshed(self, changed: bool) -> None:
        """React to a Metadata response."""
        ...

    def coordinator_found(self) -> None:
        """React to a found coordinator."""
        ...

    def coordinator_lost(self) -> None:
        """React to a lost coordinator."""
        ...

    def give_up_everything(self, then: Callable[[], None]) -> None:
        """Revoke all partitions, or give them up as lost; ``then`` follows the callback."""
        ...


class FetchingMachine(Protocol):
    """The interface of the machine for the fetch loop: a consumer, or its second consumer (KIP-333)."""

    @property
    def now_us(self) -> int:
        """The time of this step."""
        ...

    @property
    def config(self) -> ConsumerConfig:
        """The configuration."""
        ...

    @property
    def versions(self) -> SpokenVersions:
        """The API versions of requests."""
        ...

    @property
    def client(self) -> Client:
        """The client that sends requests."""
        ...

    @property
    def metadata(self) -> MetadataRefresh:
        """The known cluster, and its refresh."""
        ...

    @property
    def polling(self) -> bool:
        """Whether the polling thread is inside poll() and free to continue."""
        ...

    @property
    def awake(self) -> bool:
        """Whether the polling thread has an event to react to."""
        ...

    def note(self, fact: object) -> None:
        """Report a fact."""
        ...

    def wake(self) -> None:
        """Make the polling thread react in this step, as soon as it is free."""
        ...

    def wake_at(self, at_us: int) -> None:
        """Make the polling thread react at this time."""
        ...

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """Make the next poll raise a fatal error."""
        ...


class CatchUpView(Protocol):
    """The interface of KIP-333's mode for positions and commits."""

    def logs_known(self, one: Partition, row: FetchedLogs) -> None:
        """Use both commit logs of a partition, which were read.

        Without any commit ``auto.offset.reset`` decides.
        """
        ...

    def leader_changed(self, one: Partition) -> None:
        """Ask the new leader of a partition, before its end is read, whether the log still holds the committed
        records.
        """
        ...

    def end_known(self, one: Partition, log_end: int, epoch: int) -> None:
        """Jump to the end of a partition's log, which was read, if a gap is between the commit and the end."""
        ...

    def was_reset(self, one: Partition) -> None:
        """Drop the commits beyond a position that ``auto.offset.reset`` set."""
        ...

    def write(self, jumping: Sequence[Partition]) -> None:
        """Send the next write of each jumping partition: tokens in one request, commits in another."""
        ...

    def assigned(self, generation: Generation) -> None:
        """Resume the ranges of partitions that the new assignment keeps."""
        ...

    def partitions_dropped(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Stop the ranges of partitions that the member no longer owns.

        The second consumer remembers its progress, in case the partitions return.
        """
        ...

    def stop_serving(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Return no more records of these partitions."""
        ...

    def truncated(self, at: TopicPartition, end: int) -> None:
        """Drop commits and ranges beyond ``end``, to which the log was truncated, below the position."""
        ...

    def commit_truncated(self, at: TopicPartition, end: int, epoch: int) -> None:
        """Note that the leader lost the committed records from ``end`` on, and its leader epoch before ``end``."""
        ...

    def not_committed(self, offsets: tuple[OffsetToCommit, ...]) -> tuple[OffsetToCommit, ...]:
        """The offsets that are higher than the commit in the first log."""
        ...

    def committed_first(self, offsets: tuple[OffsetToCommit, ...]) -> None:
        """Record that the first commit log contains these offsets."""
        ...

    def commit_second(
        self,
        generation: Generation,
        then: Callable[[Result], None],
        only: Sequence[tuple[TopicPartition, int]] | None = None,
    ) -> bool:
        """Make the second consumer commit these offsets, or all of its progress. False: the second consumer has no
        progress.
        """
        ...

    def second_offsets(self) -> tuple[tuple[TopicPartition, int], ...]:
        """The offsets that the second consumer would commit now."""
        ...


class ConsumerMachine(FetchingMachine, Protocol):
    """The interface of the machine for its parts: methods, settings and the polling thread."""

    @property
    def name(self) -> ActorName:
        """The actor's name."""
        ...

    @property
    def chance(self) -> Chance:
        """The random stream of this process."""
        ...

    @property
    def draws(self) -> Draws:
        """The durations that differ between members and over time."""
        ...

    @property
    def discovery(self) -> "Discovery | ModernDiscovery":
        """The lookup of the coordinator."""
        ...

    @property
    def catch_up(self) -> CatchUpView | None:
        """KIP-333's mode; None if the mode is off."""
        ...

    @property
    def membership(self) -> MembershipView:
        """The membership."""
        ...

    @property
    def client_rules(self) -> ClientRules:
        """The rules of the release's consumers."""
        ...

    @property
    def subscription(self) -> TopicSubscription:
        """The subscription."""
        ...

    @property
    def poll_span_us(self) -> tuple[int, int]:
        """The begin of the present poll() and the end of its timeout; (0, 0) outside poll().

        Each call of poll() begins when the previous call ends, and lasts for its timeout, until records arrive.
        """
        ...

    def process_resumed(self, since_us: int) -> None:
        """React to the end of a pause of the process, which a late timer revealed.

        Args:
            since_us: the time at which the timer was due, in the pause.
        """
        ...

    @property
    def polls_too_late(self) -> bool:
        """Whether the application has not polled for more than ``max.poll.interval.ms``."""
        ...

    def start_timer(self, key: TimerKey, after_us: int) -> None:
        """Start a timer, or start it again."""
        ...

    def stop_timer(self, key: TimerKey) -> None:
        """Stop a timer."""
        ...

    def call_listener(self, name: str, partitions: tuple[TopicPartition, ...], then: Callback) -> None:
        """Call the listener. The polling thread is occupied until the callback ends; ``then`` continues."""
        ...

    def raise_to_application(self, why: str) -> None:
        """Make poll() raise an exception that is not fatal; the application decides on its next call."""
        ...

    def fail(self, error: ErrorCode, why: str) -> None:
        """Raise a fatal error to the application, which then closes this consumer."""
        ...

    def commit_refused(self, api: str, error: ErrorCode, sent: Generation) -> None:
        """React to an error in the answer to a commit under this generation."""
        ...
