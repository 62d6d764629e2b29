"""No member rejoins repeatedly without a cause.

- rejoin-without-cause: a member sends at most three JoinGroups in a minute without a cause.

A JoinGroup has a cause if an answer since the last JoinGroup had an error. Other causes are changes of the connection,
the member's topics, its owned partitions, or a topic. Members with a ``client.rack`` have two more causes (KIP-881: the
leader compares the racks of replicas): a change of live brokers in a broker's metadata, and brokers that do not agree
about live brokers. Streams groups start rebalances themselves (KIP-441) and are exempt. ``pace`` judges heartbeats.

Source: Kafka's ``ConsumerCoordinator.rejoinNeededOrPending``.
"""

from collections.abc import Collection
from typing import Self

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, Seen, TopicGrown
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.member import decode_subscription
from kemu.protocol.names import ActorName, MemberId, host_of
from kemu.protocol.notes.groups import GroupRequestAnswered, GroupRequestRead
from kemu.protocol.notes.replication import MetadataCached, TopicDeleted
from kemu.protocol.wire.codec import CodecError

_NONE = ErrorCode.NONE
REJOINS = 3
"""Number of allowed rejoins without a visible cause, because a leader's metadata may change late, and an application
may request a rejoin."""
WINDOW_US = 60_000_000
Content = tuple[object, ...]


class _Sender:
    """The JoinGroups of one member id."""

    __slots__ = ("connection", "content", "rejoins")

    def __init__(self) -> None:
        self.rejoins: list[int] = []
        self.connection = -1
        self.content: Content | None = None
        """The content of the last JoinGroup; None if the next JoinGroup has a cause."""


class UselessWork(Checker):
    """Judges whether members send JoinGroups without a cause.

    Args:
        groups: the judged groups; None for all groups.
        racks: whether members have racks.
    """

    name = "useless-work"
    kinds = ("rejoin-without-cause",)

    def __init__(self, groups: Collection[str] | None = None, *, racks: bool = False) -> None:
        super().__init__()
        self._groups = groups
        self._senders: dict[MemberId, _Sender] = {}
        self._joined_over: dict[tuple[ActorName, ActorName, int], _Sender] = {}
        """(coordinator, client, connection) -> the sender of the last JoinGroup."""
        self._metadata_changed = 0
        """Number of changes so far that make a leader rejoin."""
        self._live: dict[str, tuple[int, ...]] = {}
        """Running broker -> live brokers in the broker's metadata."""
        if groups is None or groups:
            self.on = {
                GroupRequestRead: self._read,
                GroupRequestAnswered: self._answered,
                HostDown: self._down,
                TopicGrown: self._topics,
                TopicDeleted: self._topics,
            }
        if racks:
            self.on[MetadataCached] = self._cached

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        groups = settings.scenario.groups
        return cls(
            [name for name, group in groups.items() if group.streams is None],
            racks=any(group.racks for group in groups.values()),
        )

    def _topics(self, seen: Seen, fact: TopicGrown | TopicDeleted) -> None:
        self._metadata_changed += 1

    def _cached(self, seen: Seen, fact: MetadataCached) -> None:
        self._metadata_changed += self._live.get(seen.actor) != fact.live_brokers
        self._live[seen.actor] = fact.live_brokers

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._live.pop(fact.host, None)
        for key in [key for key in self._joined_over if fact.host in (host_of(key[0]), host_of(key[1]))]:
            del self._joined_over[key]

    def _read(self, seen: Seen, fact: GroupRequestRead) -> None:
        if fact.api != "JoinGroup" or (self._groups is not None and fact.group not in self._groups):
            return
        ((member_id, _),) = fact.ids
        if member_id:
            sender = self._senders.setdefault(member_id, _Sender())
            self._joined_over[seen.actor, fact.client, fact.connection] = sender
            self._joins(seen, fact, sender)

    def _joins(self, seen: Seen, fact: GroupRequestRead, sender: _Sender) -> None:
        content = (self._metadata_changed, *_content(fact.rows))
        agree = len(set(self._live.values())) < 2
        if agree and sender.content == content and sender.connection == fact.connection:
            sender.rejoins.append(seen.at_us)
        sender.content, sender.connection = content, fact.connection
        while sender.rejoins and sender.rejoins[0] < seen.at_us - WINDOW_US:
            del sender.rejoins[0]
        if len(sender.rejoins) > REJOINS:
            within = f"{(seen.at_us - sender.rejoins[0]) / 1e6:.1f} s"
            self._say(
                seen, "rejoin-without-cause", fact, f"{len(sender.rejoins)} JoinGroups without a cause in {within}"
            )
            sender.rejoins.clear()

    def _say(self, seen: Seen, kind: str, fact: GroupRequestRead, text: str) -> None:
        self.violation(seen, kind, (fact.group, fact.client), f"{fact.client}, member of {fact.group}, sent {text}")

    def _answered(self, seen: Seen, fact: GroupRequestAnswered) -> None:
        if fact.error is not _NONE:
            sender = self._joined_over.get((seen.actor, fact.client, fact.connection))
            if sender is not None:
                sender.content = None


def _content(rows: tuple[tuple[str, bytes], ...]) -> Content:
    """The content of a JoinGroup: topics and owned partitions by protocol, without generations."""
    found: list[object] = []
    for name, data in rows:
        try:
            wanted = decode_subscription(data)
            found.append((name, wanted.topics, tuple(sorted({*wanted.owned}))))
        except CodecError:
            found.append((name, data))
    return tuple(found)
