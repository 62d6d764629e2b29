"""Random short sequences of requests to one group, drawn from a seed.

While a sequence is drawn, the machine answers the requests in virtual time. The answers provide existing ids and
generations. The times of timers are known, so no request is sent near a timer, where a race would decide. The machine
has no other influence on a sequence.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from attrs import define, field, frozen

from kemu.actors.machine import US_PER_MS
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages import group as messages
from kemu.protocol.names import CONSUMER, UNKNOWN_MEMBER
from lab.conformance.raw.alone import CoordinatorAlone
from lab.conformance.raw.steps import GROUP, RawRequest, symbol, with_ids

T = TypeVar("T")

GAP_MS = 40
"""Time between two requests in ms, so that requests reach the coordinator in order."""
CLEAR_MS = 160
"""Least time between a request and a timer, in ms."""
TOPIC = "t"
TOPIC_SIZE = 2
BOGUS = "bogus"
"""A member id that no member has."""
DELAY_MS, MIN_SESSION_MS, SHORT_SESSION_MS, SHORT_REBALANCE_MS = 300, 500, 900, 800
LONG_SESSION_MS, LONG_REBALANCE_MS = 20_000, 60_000
DOUBLED_PERCENT = 6
"""Percentage of wild joins that name a protocol twice."""
_CLIENTS = ("ca", "cb", "cc", "cd")
_NAMES = (("range", "sticky"), ("sticky", "range"), ("range",), ("sticky",), ("roundrobin",), ("range", "roundrobin"))
_UNKNOWN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
_REJOIN = (*_UNKNOWN, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)


@frozen(kw_only=True)
class Versions:
    """Versions of each request that a release supports: (lowest, highest)."""

    join: tuple[int, int] = (0, 9)
    sync: tuple[int, int] = (0, 5)
    heartbeat: tuple[int, int] = (0, 4)
    leave: tuple[int, int] = (0, 5)
    commit: tuple[int, int] = (2, 8)
    fetch: tuple[int, int] = (1, 7)
    describe: tuple[int, int] = (0, 5)
    list_groups: tuple[int, int] = (0, 4)


@frozen
class DrawnSequence:
    """A sequence: steps, whether each step expects an immediate response, and end."""

    seed: int
    steps: tuple[RawRequest, ...]
    at_once: tuple[bool, ...]
    end_ms: int
    topics: Mapping[str, str] = field(factory=dict)
    """Topic -> id, for requests of the consumer protocol."""


@define
class DrawnClient:
    """The state that a client would keep. The client id differs in each request (``ca7`` in step 7), so that a member
    id shows the step of its JoinGroup.
    """

    name: str
    instance: str | None
    member_id: str = UNKNOWN_MEMBER
    generation: int = -1
    leads: bool = False
    members: tuple[str, ...] = ()
    protocol: str | None = None
    synced: bool = False
    waits: int = 0
    """Number of the client's parked requests."""


class Drawing:
    """A sequence while it is drawn. ``topics``: name, id and number of partitions of the cluster's topics."""

    def __init__(
        self, seed: int, config: BrokerConfig, versions: Versions, topics: Iterable[tuple[str, str, int]] = ()
    ) -> None:
        self.seed = seed
        self.random = Random(f"{seed}/raw")
        self.doubling = Random(f"{seed}/raw/doubling")
        """A separate random stream, which leaves other draws unchanged."""
        self.versions = versions
        self.new_topics: dict[int, str] = {}
        """Step -> id of the topic that the step created, in the drawing."""
        self.alone = CoordinatorAlone(config, lambda step, _: self.new_topics.get(step, symbol(step)), topics)
        self._ids = {name: topic_id for name, topic_id, _ in topics}
        self.steps: list[RawRequest] = []
        self.at_once: list[bool] = []
        static = self.chance(55)
        instances = (None, None, "i1", self.pick(("i1", "i2"))) if static else (None,) * 4
        self.clients = [DrawnClient(*each) for each in zip(_CLIENTS, instances, strict=True)]
        self.busy = self.pick((2, 2, 3))
        """Number of clients that send most requests."""
        self.short = self.chance(35)
        """Whether timeouts are so short that timers fire during the sequence."""
        self.known: list[str] = []
        self.generated: list[str] = []
        """Generated ids that have not joined; a join phase waits for these ids."""
        self._asked_by: dict[int, DrawnClient] = {}
        self._heard: set[int] = set()
        self.now_ms = 0

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.random.randrange(len(choices))]

    # --- time --------------------------------------------------------------------------------------------------

    def pass_time(self, ms: int) -> None:
        """Advance the time by at least ``ms``, until no timer is near."""
        self.now_ms += ms
        self.alone.run_until(self.now_ms * US_PER_MS)
        while near := [us for us in self._close() if abs(us - self.now_ms * US_PER_MS) < CLEAR_MS * US_PER_MS]:
            self.now_ms = max(near) // US_PER_MS + CLEAR_MS + 1
            self.alone.run_until(self.now_ms * US_PER_MS)
        self._hear()

    def _close(self) -> list[int]:
        return [*self.alone.fired_us[-4:], *self.alone.due_us()[:1]]

    def wait_for_a_timer(self) -> None:
        """Advance the time beyond the next timer, if the timer is short."""
        due = self.alone.due_us()
        if due and due[0] // US_PER_MS - self.now_ms < 2 * SHORT_SESSION_MS:
            self.pass_time(due[0] // US_PER_MS + CLEAR_MS + 1 - self.now_ms)

    # --- asking ------------------------------------------------------------------------------------------------

    def ask(self, client: DrawnClient, version: int, request: Any) -> None:
        number = len(self.steps)
        name = f"{client.name}{number}"
        self.steps.append(RawRequest(self.now_ms, name, version, request))
        self._asked_by[number] = client
        client.waits += 1
        self.alone.ask(number, name, version, with_ids(request, lambda each: self._ids.get(each, each)))
        self._hear()
        self.at_once.append(number in self._heard)
        self.pass_time(GAP_MS)

    def _hear(self) -> None:
        for number in sorted(self.alone.answers.keys() - self._heard):
            self._heard.add(number)
            client, reply = self._asked_by[number], self.alone.answers[number][1]
            client.waits -= 1
            asked_as = getattr(self.steps[number].request, "member_id", UNKNOWN_MEMBER)
            match reply:
                case messages.JoinGroupReply(error=ErrorCode.NONE):
                    client.member_id, client.generation = reply.member_id, reply.generation
                    client.leads = reply.leader == reply.member_id and not reply.skip_assignment
                    client.members = tuple([each.member_id for each in reply.members])
                    client.protocol, client.synced = reply.protocol_name, False
                    self._know(reply.member_id)
                    if reply.member_id in self.generated:
                        self.generated.remove(reply.member_id)
                case messages.JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED):
                    self.generated.append(reply.member_id)
                    self._know(reply.member_id)
                    if client.generation < 0:
                        client.member_id = reply.member_id
                case messages.SyncGroupReply(error=ErrorCode.NONE):
                    client.synced = True
                case messages.JoinGroupReply() | messages.SyncGroupReply() | messages.HeartbeatReply():
                    if reply.error in _UNKNOWN and asked_as in self.generated:
                        self.generated.remove(asked_as)
                    if reply.error in _REJOIN and asked_as == client.member_id:
                        client.generation = -1
                        if reply.error in _UNKNOWN:
                            client.member_id = UNKNOWN_MEMBER

    def _know(self, member_id: str) -> None:
        if member_id not in self.known:
            self.known.append(member_id)

    def version(self, bounds: tuple[int, int]) -> int:
        """Draw a version, usually the newest."""
        low, high = bounds
        return high if self.chance(70) else self.random.randint(low, high)

    def version_with(self, bounds: tuple[int, int]) -> int:
        """A version of OffsetCommit or OffsetFetch: without topic ids if the sequence knows none."""
        version = self.version(bounds)
        return version if self._ids else min(version, messages.OFFSET_TOPIC_IDS_SINCE - 1)

    def topic_in(self, version: int, topic: str) -> tuple[str, str]:
        """The name and the id of a topic in a row of an offset: the version has one of them. ``topic``: its name, or
        the symbol of its id.
        """
        return ("", topic) if version >= messages.OFFSET_TOPIC_IDS_SINCE else (topic, "")

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Add one step: usually the next request of a real member, sometimes a random request."""
        if self.short and self.chance(12):
            self.wait_for_a_timer()
        client = self.pick(self.clients[: self.busy if self.chance(85) else 4])
        if self.chance(72):
            self._sensible(client)
        else:
            self._wild(client)

    def _sensible(self, client: DrawnClient) -> None:
        if client.waits and self.chance(80):
            client = next((each for each in self.clients[: self.busy] if not each.waits), client)
        if client.waits and self.chance(60):
            self.wait_for_a_timer()
        abandoned = [each for each in self.generated if all(each != other.member_id for other in self.clients)]
        if abandoned and self.chance(70):
            version = self.versions.leave[1]
            leaving = (messages.LeavingMember(member_id=abandoned[0]),)
            self.generated.remove(abandoned[0])
            self.ask(client, version, messages.LeaveGroup(group=GROUP, members=leaving))
        elif client.waits and self.chance(75):
            self._heartbeat(client, client.member_id, client.generation, client.instance)
        elif client.generation < 0:
            self._join(client, client.member_id, client.instance, wild=False)
        elif not client.synced:
            self._sync(client, client.member_id, client.generation, client.instance, wild=False)
        else:
            kind = self.random.randrange(100)
            if kind < 25:
                self._heartbeat(client, client.member_id, client.generation, client.instance)
            elif kind < 45:
                self._commit(client, client.member_id, client.generation, client.instance)
            elif kind < 70:
                rejoined = UNKNOWN_MEMBER if client.instance is not None and self.chance(50) else client.member_id
                self._join(client, rejoined, client.instance, wild=False)
            elif kind < 85:
                self._leave(client, wild=False)
            elif kind < 93:
                self.describe(client)
            else:
                self._fetch(client)

    def _wild(self, client: DrawnClient) -> None:
        member_id = self._some_id(client)
        if member_id == UNKNOWN_MEMBER and client.instance is None and self.chance(60):
            member_id = client.member_id
        generation = client.generation + self.pick((0, 0, 0, 0, 1, -1))
        instance = client.instance if self.chance(80) else self.pick((None, "i1", "i2"))
        kind = self.random.randrange(100)
        if kind < 38:
            self._join(client, member_id, instance, wild=True)
        elif kind < 60:
            self._sync(client, member_id, generation, instance, wild=True)
        elif kind < 70:
            self._heartbeat(client, member_id, generation, instance)
        elif kind < 82:
            self._leave(client, wild=True)
        elif kind < 92:
            if self.chance(20):
                member_id, generation = UNKNOWN_MEMBER, -1
            self._commit(client, member_id, generation, instance)
        elif kind < 97:
            self.describe(client)
        else:
            self._fetch(client)

    def _some_id(self, client: DrawnClient) -> str:
        kind = self.random.randrange(100)
        if kind < 65:
            return client.member_id
        if kind < 80 and self.known:
            return self.pick(self.known)
        return BOGUS if kind < 90 else UNKNOWN_MEMBER

    # --- requests ----------------------------------------------------------------------------------------------

    def _join(self, client: DrawnClient, member_id: str, instance: str | None, *, wild: bool) -> None:
        version = self.version(self.versions.join)
        short = self.short and self.chance(60)
        session_ms = SHORT_SESSION_MS if self.short and self.chance(30) else LONG_SESSION_MS
        names: tuple[str, ...] = _NAMES[0]
        if wild:
            names = () if self.chance(5) else self.pick(_NAMES)
            if names and self.doubling.randrange(100) < DOUBLED_PERCENT:
                names = (*names, names[self.doubling.randrange(len(names))])
            session_ms = self.pick((50, 2_000_000)) if self.chance(6) else session_ms
        metadata = self._metadata(client, wild=wild)
        request = messages.JoinGroup(
            group="" if wild and self.chance(1) else GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=-1 if version < 1 else SHORT_REBALANCE_MS if short else LONG_REBALANCE_MS,
            member_id=member_id,
            instance_id=instance if version >= 5 else None,
            protocol_type="other" if wild and self.chance(5) else "" if wild and self.chance(3) else CONSUMER,
            protocols=tuple([messages.JoinProtocol(name=name, metadata=metadata) for name in names]),
            reason="drawn" if version >= 8 and self.chance(50) else None,
        )
        self.ask(client, version, request)

    def _metadata(self, client: DrawnClient, *, wild: bool) -> bytes:
        """The metadata of all protocols of a JoinGroup."""
        return _SUBSCRIPTION + (b"\x01" if self.chance(20 if wild else 8) else b"")

    def _assignments(self, members: int) -> Iterator[bytes]:
        """The assignments that a leader sends."""
        return (bytes([self.random.randrange(256)]) for _ in range(members))

    def _sync(self, client: DrawnClient, member_id: str, generation: int, instance: str | None, *, wild: bool) -> None:
        version = self.version(self.versions.sync)
        protocol_type: str | None = CONSUMER
        protocol = client.protocol
        if wild and self.chance(20):
            protocol_type, protocol = self.pick(
                ((None, None), ("other", protocol), (CONSUMER, "other"), (None, protocol))
            )
        members = client.members if client.leads or (wild and self.chance(30)) else ()
        assignments = self._assignments(len(members))
        given = [
            messages.MemberAssignment(member_id=each, assignment=next(assignments))
            for each in members
            if self.chance(92)
        ]
        request = messages.SyncGroup(
            group=GROUP,
            generation=generation,
            member_id=member_id,
            instance_id=instance if version >= 3 else None,
            protocol_type=protocol_type if version >= 5 else None,
            protocol_name=protocol if version >= 5 else None,
            assignments=tuple(given),
        )
        self.ask(client, version, request)

    def _heartbeat(self, client: DrawnClient, member_id: str, generation: int, instance: str | None) -> None:
        version = self.version(self.versions.heartbeat)
        request = messages.Heartbeat(
            group=GROUP, generation=generation, member_id=member_id, instance_id=instance if version >= 3 else None
        )
        self.ask(client, version, request)

    def _leave(self, client: DrawnClient, *, wild: bool) -> None:
        version = self.version(self.versions.leave)
        if version < 3:
            member_id = self._some_id(client) if wild else client.member_id
            self.ask(client, version, messages.LeaveGroup(group=GROUP, member_id=member_id))
            return
        leaving = []
        for _ in range(self.pick((1, 1, 1, 2)) if wild else 1):
            member_id, instance = client.member_id, client.instance
            if wild:
                member_id = self._some_id(client) if self.chance(75) else UNKNOWN_MEMBER
                instance = instance if self.chance(70) else self.pick((None, "i1", "i2"))
            reason = "drawn" if version >= 5 and self.chance(50) else None
            leaving.append(messages.LeavingMember(member_id=member_id, instance_id=instance, reason=reason))
        self.ask(client, version, messages.LeaveGroup(group=GROUP, members=tuple(leaving)))

    def _commit(self, client: DrawnClient, member_id: str, generation: int, instance: str | None) -> None:
        version = self.version_with(self.versions.commit)
        name, topic_id = self.topic_in(version, TOPIC)
        rows = [
            messages.OffsetToCommit(
                topic=name,
                topic_id=topic_id,
                partition=partition,
                offset=len(self.steps),
                leader_epoch=self.pick((-1, 0)) if version >= 6 else -1,
                metadata=self.pick(("", "note")),
            )
            for partition in range(TOPIC_SIZE)
            if self.chance(70)
        ]
        request = messages.OffsetCommit(
            group=GROUP,
            generation=generation,
            member_id=member_id,
            instance_id=instance if version >= 7 else None,
            offsets=tuple(rows),
        )
        self.ask(client, version, request)

    def _fetch(self, client: DrawnClient) -> None:
        version = self.version_with(self.versions.fetch)
        name, topic_id = self.topic_in(version, TOPIC)
        topics = (messages.TopicPartitions(topic=name, topic_id=topic_id, partitions=tuple(range(TOPIC_SIZE))),)
        request = messages.OffsetFetch(group=GROUP, topics=topics, require_stable=version >= 7 and self.chance(50))
        self.ask(client, version, request)

    def describe(self, client: DrawnClient) -> None:
        self.ask(client, self.version(self.versions.describe), messages.DescribeGroups(groups=(GROUP,)))


_SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
"""ConsumerProtocolSubscription v0 with the topic ``t`` and without user data."""


def draw(seed: int, config: BrokerConfig, versions: Versions, *, length: int) -> DrawnSequence:
    """Draw a sequence of ``length`` requests. The last request describes the group when no timer is due soon."""
    drawing = Drawing(seed, config, versions)
    while len(drawing.steps) < length - 1:
        drawing.step()
    drawing.pass_time(GAP_MS)
    drawing.describe(drawing.clients[0])
    drawing.pass_time(CLEAR_MS)
    return DrawnSequence(seed, tuple(drawing.steps), tuple(drawing.at_once), drawing.now_ms)
