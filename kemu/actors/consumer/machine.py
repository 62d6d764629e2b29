"""What the parts of a consumer speak through: the machine as they see it, its timers, and what they see of each other.

The parts know these protocols and the parts they own or were handed, never ``actors.consumer.consumer`` itself.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

from kemu.actors.client import DEADLINE, Client
from kemu.actors.clients.discovery import FIND, Discovery
from kemu.actors.clients.metadata import METADATA, MetadataRefresh
from kemu.actors.consumer.partition import Partition
from kemu.actors.consumer.state import Generation, MemberState, Result
from kemu.actors.machine import Chance, Draws, TimerKey
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinGroupReply, JoinProtocol, OffsetToCommit
from kemu.protocol.messages.ranges import FetchedLogs
from kemu.protocol.messages.versions import SpokenVersions
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.rebalancing.client_rules import ClientRules
from kemu.protocol.topic_pattern import TopicPattern

Callback: TypeAlias = Callable[[tuple[TopicPartition, ...], bool], None]
"""What follows a callback of the listener: (its partitions, whether it raised)."""


class ConsumerTimer(StrEnum):
    """The consumer's timers."""

    BEAT = "beat"
    """Wakes the heartbeat thread: a heartbeat is due, or the coordinator has been silent for the session timeout."""
    WORK = "work"
    """The application, or a callback of its listener, is done."""
    WAKE = "wake"
    """The polling thread has to look again (a backoff or an interval is over)."""
    DEADLINE = DEADLINE[0]
    """The earliest deadline of a request in flight."""
    COMMIT = "commit"
    """commitSync looks again: a backoff is over, or its time is up."""
    POLL_TIMEOUT = "poll"
    """max.poll.interval may be over. Armed lazily: it may fire early, never late."""
    FIND = FIND[0]
    """The coordinator may be looked up again."""
    METADATA = METADATA[0]
    """Metadata is too old, or may be asked for again."""
    POLL_RETURNS = "poll-returns"
    """A poll() with a timeout returns, with nothing."""
    QUESTION = "question"
    """committed() and its like look again: a backoff is over, or their time is up."""
    CLOSE = "close"
    """close() may not take longer."""
    CHILD = "child"
    """KIP-333's second consumer is back after it died."""


class MembershipView(Protocol):
    """The membership, as other parts see it."""

    @property
    def state(self) -> MemberState:
        """Where it is."""
        ...

    @property
    def generation(self) -> Generation:
        """What the member knows of its membership."""
        ...

    def request_rejoin(self, why: str, after_us: int = 0) -> None:
        """Join again at the next poll, or the first one this much later."""
        ...

    def refused(self, error: ErrorCode, why: str, sent: Generation) -> bool:
        """An answer says that the membership a request was sent in is none (any more); whether it is today's."""
        ...

    def poll_timed_out(self) -> None:
        """The application did not poll in time: leave for it, if there is a coordinator to tell."""
        ...

    def reset_after(self, error: ErrorCode, why: str) -> None:
        """Be no member any more, as an answer says; the next poll loses what it owns and joins again."""
        ...


class AroundJoin(Protocol):
    """What Kafka's ``AbstractCoordinator`` leaves to its subclass: what is to be done around a join."""

    @property
    def client(self) -> ClientRules:
        """What consumers of its release do."""
        ...

    @property
    def prepares_after_reset(self) -> bool:
        """A member that is none any more gives up what it owned before it joins again, also in the midst of a join."""
        ...

    @property
    def heeds_resets(self) -> bool:
        """An assignment that came before the membership was reset is not taken."""
        ...

    @property
    def protocol_type(self) -> str:
        """What all members of the group must be: "consumer", or what somebody else made of one."""
        ...

    def prepare(self) -> bool:
        """onJoinPrepare. False: poll again (a commit is under way, a callback runs or raised)."""
        ...

    def subscriptions(self) -> tuple[JoinProtocol, ...]:
        """What JoinGroup says."""
        ...

    def lead(self, reply: JoinGroupReply) -> None:
        """onLeaderElected."""
        ...

    def complete(self, data: bytes) -> bool:
        """onJoinComplete; called again with the same bytes if a callback raised. False: poll again."""
        ...

    def membership_reset(self) -> None:
        """The member is none any more."""
        ...


class FetchingMachine(Protocol):
    """What the fetch loop needs: of a consumer, and of the second one inside it (KIP-333)."""

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
        """The API versions to speak."""
        ...

    @property
    def client(self) -> Client:
        """Through which requests go."""
        ...

    @property
    def metadata(self) -> MetadataRefresh:
        """What is known of the cluster."""
        ...

    @property
    def polling(self) -> bool:
        """Whether the polling thread is inside poll(), free to go on."""
        ...

    @property
    def awake(self) -> bool:
        """Something happened that the polling thread should look at."""
        ...

    def note(self, fact: object) -> None:
        """Report a fact."""
        ...

    def wake(self) -> None:
        """Let the polling thread look again in this step, as soon as it is free."""
        ...

    def wake_at(self, at_us: int) -> None:
        """Let it look again at this time."""
        ...

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """Let the next poll raise a fatal error."""
        ...


class CatchUpView(Protocol):
    """KIP-333's mode, as positions and commits see it."""

    def logs_known(self, one: Partition, row: FetchedLogs) -> None:
        """Both commit logs of a partition were read."""
        ...

    def end_known(self, one: Partition, log_end: int, epoch: int) -> None:
        """So was the log's end."""
        ...

    def was_reset(self, one: Partition) -> None:
        """A partition's position was reset."""
        ...

    def write(self, jumping: Sequence[Partition]) -> None:
        """Write what these have to write before they jump."""
        ...

    def assigned(self, generation: Generation) -> None:
        """An assignment was taken."""
        ...

    def partitions_dropped(self, partitions: tuple[TopicPartition, ...]) -> None:
        """These are not owned any more."""
        ...

    def stop_serving(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Return no more records of these."""
        ...

    def truncated(self, at: TopicPartition, end: int) -> None:
        """The log was cut under its position."""
        ...

    def not_committed(self, offsets: tuple[OffsetToCommit, ...]) -> tuple[OffsetToCommit, ...]:
        """Of these, what the first commit log does not have."""
        ...

    def committed_first(self, offsets: tuple[OffsetToCommit, ...]) -> None:
        """These are in it."""
        ...

    def commit_second(
        self,
        generation: Generation,
        then: Callable[[Result], None],
        only: Sequence[tuple[TopicPartition, int]] | None = None,
    ) -> bool:
        """Have the second consumer commit, too (these, or all of its); False: it has nothing to."""
        ...

    def second_offsets(self) -> tuple[tuple[TopicPartition, int], ...]:
        """What the second consumer would commit now."""
        ...


class ConsumerMachine(FetchingMachine, Protocol):
    """The machine, as its parts see it: its verbs, its settings, and the polling thread."""

    @property
    def name(self) -> ActorName:
        """The actor's name."""
        ...

    @property
    def chance(self) -> Chance:
        """This life's own stream."""
        ...

    @property
    def draws(self) -> Draws:
        """What differs from member to member and from time to time."""
        ...

    @property
    def discovery(self) -> Discovery:
        """The coordinator."""
        ...

    @property
    def catch_up(self) -> CatchUpView | None:
        """KIP-333's mode; None: it is off."""
        ...

    @property
    def membership(self) -> MembershipView:
        """The membership."""
        ...

    @property
    def rebalancing(self) -> AroundJoin:
        """What is done around a join."""
        ...

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscription."""
        ...

    @property
    def pattern(self) -> TopicPattern | None:
        """The subscription is whatever this matches; None: the topics were named."""
        ...

    def subscribe_from_pattern(self, topics: Iterable[str]) -> None:
        """The pattern's topics are these now."""
        ...

    @property
    def poll_span_us(self) -> tuple[int, int]:
        """When the poll() that goes on began, and when it will return with nothing; (0, 0): none goes on."""
        ...

    @property
    def by_hand(self) -> bool:
        """Partitions were assigned by the application (``assign()``): there is no membership."""
        ...

    @property
    def polls_too_late(self) -> bool:
        """The application has not polled for longer than ``max.poll.interval.ms``."""
        ...

    def start_timer(self, key: TimerKey, after_us: int) -> None:
        """(Re)start a timer."""
        ...

    def stop_timer(self, key: TimerKey) -> None:
        """Forget a timer."""
        ...

    def call_listener(self, name: str, partitions: tuple[TopicPartition, ...], then: Callback) -> None:
        """Call back; the polling thread is occupied until the listener is done, ``then`` goes on."""
        ...

    def raise_to_application(self, why: str) -> None:
        """poll() raises what is not fatal; the application decides what to do next."""
        ...

    def fail(self, error: ErrorCode, why: str) -> None:
        """Raise a fatal error to the application: this consumer is of no use any more."""
        ...

    def commit_refused(self, api: str, error: ErrorCode, sent: Generation) -> None:
        """A commit under this generation was answered with an error: do what it asks for."""
        ...
