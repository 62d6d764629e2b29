"""Send sequences to a real broker on loopback, many at once. Each sequence is a conversation with its own group.

A request is sent when it is due and all immediate responses have arrived. A parked request keeps its connection until
its response, so the next request uses another connection.
"""

import asyncio
import contextlib
import re
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from attrs import evolve

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.errors import WireError
from kemu.protocol.messages import control
from kemu.protocol.messages import group as messages
from kemu.protocol.messages.consumer_group import JOINS, ConsumerGroupDescribe, ConsumerGroupHeartbeat
from kemu.protocol.messages.data import Metadata, MetadataReply, TopicMetadata
from kemu.protocol.names import UNKNOWN_MEMBER
from lab.conformance.maven import RealKafkaError
from lab.conformance.raw.drawing import TOPIC, DrawnSequence
from lab.conformance.raw.steps import (
    GROUP,
    SIZES,
    TOPIC_CHANGES,
    TOPICS_VERSION,
    Answer,
    Conversation,
    RawRequest,
    step_of,
    symbol,
    told_by,
    with_ids,
)
from lab.conformance.raw.wire import HEADER_BYTES, reply_of, request_bytes

ANSWERED_WITHIN_S = 3
"""Longest wait of a request for an immediate response, or for an id in the request, in seconds."""
READY_S = 60
"""Longest time until the coordinator answers, in seconds."""
MOST_SECONDS = 600
"""Longest duration of a conversation, in seconds; a longer conversation fails."""
MOST_ANSWER_BYTES = 1 << 20
_FIND_VERSION, _METADATA_VERSION = 2, 12
_PROBE_VERSION = 1
_NO_TOPIC = ("", 0)
_POLL_S, _SEEN_S = 0.02, 30
_MADE_UP = re.compile(r"(.*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Pattern of a member id: the name of the client or instance, and a UUID."""
_KAFKAS_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
"""Pattern of the id of a classic member in a group of the consumer protocol."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Talker:
    """The connections to one broker."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[Connection] = []
        self._last_id = 0

    async def ask(self, client: str, version: int, request: Any) -> Any:
        """Send a request; return its reply.

        Raises:
            RealKafkaError: the broker closed the connection, or its response cannot be read.
        """
        connection = self._idle.pop() if self._idle else await self._connect()
        reader, writer = connection
        self._last_id = number = self._last_id + 1
        try:
            writer.write(request_bytes(request, version, number, client))
            await writer.drain()
            (length,) = struct.unpack(">i", await reader.readexactly(HEADER_BYTES))
            if not 0 < length <= MOST_ANSWER_BYTES:
                raise WireError(f"an answer of {length} bytes")
            reply = reply_of(type(request), version, number, await reader.readexactly(length))
        except (OSError, EOFError, WireError, ValueError) as error:
            writer.close()
            raise RealKafkaError(f"{type(request).__name__} v{version}: {error!r}") from None
        except BaseException:
            writer.close()
            raise
        self._idle.append(connection)
        return reply

    async def _connect(self) -> Connection:
        try:
            return await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as error:
            raise RealKafkaError(f"nothing listens on port {self._port}: {error.strerror}") from None

    def close(self) -> None:
        """Close all connections."""
        for _, writer in self._idle:
            writer.close()


class _Conversing:
    def __init__(self, talker: Talker, drawn: DrawnSequence, group: str) -> None:
        self._talker = talker
        self._drawn = drawn
        self._group = group
        self._began = time.monotonic()
        self._probes = 0
        self._sent: list[RawRequest] = []
        self._answers: dict[int, Answer] = {}
        self._ids: dict[int, str] = {}
        self._answered: dict[int, asyncio.Event] = {}

    def _now_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    async def run(self) -> Conversation:
        asked: list[asyncio.Task[None]] = []
        late_ms = 0
        try:
            for number, step in enumerate(self._drawn.steps):
                await asyncio.sleep((step.at_ms + late_ms - self._now_ms()) / 1000)
                await self._ids_of(step)
                late_ms = max(late_ms, self._now_ms() - step.at_ms)
                self._sent.append(evolve(step, at_ms=self._now_ms()))
                self._answered[number] = asyncio.Event()
                asked.append(asyncio.create_task(self._ask(number, step)))
                if self._drawn.at_once[number]:
                    changes = type(step.request) in TOPIC_CHANGES
                    await _within(self._answered[number].wait(), _SEEN_S if changes else ANSWERED_WITHIN_S)
                else:
                    await asyncio.sleep(0)
            await asyncio.sleep((self._drawn.end_ms + late_ms - self._now_ms()) / 1000)
            for task in asked:
                if task.done():
                    task.result()
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        await self._delete_topics()
        return self._told()

    async def _delete_topics(self) -> None:
        """Delete the topic of this sequence, which may be sent again."""
        names = [step.request.topics[0].name for step in self._sent if isinstance(step.request, control.CreateTopics)]
        if names and await self._partitions_of(names[0]):
            await self._talker.ask("kemu", TOPICS_VERSION, control.DeleteTopics(topic_names=(names[0],)))
            await self._until_seen(names[0], 0)

    async def _partitions_of(self, name: str) -> int:
        """Number of partitions of a topic in the broker's metadata; 0 without the topic."""
        (row,) = await _described(self._talker, (name,))
        return len(row.partitions) if row.error is ErrorCode.NONE else 0

    async def _topic(self, name: str) -> tuple[str, int]:
        """Id and number of partitions of a topic, as the coordinator knows it: it assigns them all to the one member
        of a new group. The broker's metadata changes before (``BrokerMetadataPublisher`` 4.0).
        """
        self._probes += 1
        probe = ConsumerGroupHeartbeat(
            group=f"{self._group}-probe{self._probes}",
            member_id="probe",
            member_epoch=JOINS,
            rebalance_timeout_ms=60_000,
            topics=(name,),
            owned=(),
        )
        reply = await self._talker.ask("kemu", _PROBE_VERSION, probe)
        return (reply.assignment[0].topic_id, len(reply.assignment[0].partitions)) if reply.assignment else _NO_TOPIC

    async def _until_seen(self, name: str, count: int) -> str:
        """Wait until the coordinator knows that the topic has so many partitions, or 0; return the topic's id."""
        deadline = time.monotonic() + _SEEN_S
        while time.monotonic() < deadline:
            if await self._partitions_of(name) == count:
                topic_id, known = await self._topic(name)
                if known == count:
                    return topic_id
            await asyncio.sleep(_POLL_S)
        raise RealKafkaError(f"the coordinator did not see the change of topic {name} in {_SEEN_S} s")

    def _told(self) -> Conversation:
        self._learn_ids()
        symbols = {member_id: symbol(step) for step, member_id in self._ids.items()}
        symbols |= {topic_id: name for name, topic_id in self._drawn.topics.items()}
        answers = {
            number: Answer(
                answer.at_ms, told_by(with_ids(answer.reply, lambda name: symbols.get(name, name)), self._group)
            )
            for number, answer in sorted(self._answers.items())
        }
        ids = dict(sorted(self._ids.items()))
        topics = self._drawn.topics
        return Conversation(self._drawn.seed, self._now_ms(), tuple(self._sent), answers, ids, topics=topics)

    def _learn_ids(self) -> None:
        """Find the ids of parked joins in responses to other members or tools."""
        for answer in [self._answers[number] for number in sorted(self._answers)]:
            for member_id in _ids_in(answer.reply):
                made_up = _MADE_UP.fullmatch(member_id)
                if made_up is None or member_id in self._ids.values():
                    continue
                steps = [
                    each
                    for each, step in enumerate(self._sent)
                    if isinstance(step.request, messages.JoinGroup)
                    and step.request.member_id == UNKNOWN_MEMBER
                    and made_up[1] == (step.request.instance_id or step.client)
                    and each not in self._ids
                    and step.at_ms <= answer.at_ms
                    and (each not in self._answers or self._answers[each].at_ms > answer.at_ms)
                ]
                if steps:
                    self._ids[steps[-1]] = member_id

    async def _ids_of(self, step: RawRequest) -> None:
        """Wait for the responses with the ids that a request names."""
        for name in _named(step.request):
            event = self._answered.get(step_of(name))
            if event is not None:
                await _within(event.wait())

    async def _ask(self, number: int, step: RawRequest) -> None:
        symbols = {symbol(each): member_id for each, member_id in self._ids.items()} | dict(self._drawn.topics)
        request = with_ids(step.request, lambda name: symbols.get(name, name))
        reply = await self._talker.ask(step.client, step.version, in_group(request, self._group))
        match request:
            case control.CreateTopics(topics=(new,)):
                self._ids[number] = await self._until_seen(new.name, new.num_partitions)
            case control.CreatePartitions(topics=(more,)):
                await self._until_seen(more.name, more.count)
            case control.DeleteTopics(topic_names=(name,)):
                await self._until_seen(name, 0)
        at_ms = self._now_ms()
        if isinstance(request, messages.JoinGroup) and request.member_id == UNKNOWN_MEMBER:
            member_id = reply.member_id
            made_up = _MADE_UP.fullmatch(member_id)
            is_named = made_up is not None and made_up[1] == (request.instance_id or step.client)
            if is_named or _KAFKAS_UUID.fullmatch(member_id):
                self._ids[number] = member_id
        if isinstance(request, ConsumerGroupHeartbeat) and not request.member_id and reply.member_id:
            self._ids[number] = reply.member_id
        self._answers[number] = Answer(at_ms, reply)
        self._answered[number].set()


def _ids_in(message: Any) -> list[str]:
    found: list[str] = []

    def look(name: str) -> str:
        found.append(name)
        return name

    with_ids(message, look)
    return found


def _named(request: Any) -> list[str]:
    return [name for name in _ids_in(request) if re.fullmatch(r"m\d+", name)]


def in_group(request: Any, group: str) -> Any:
    """The same request for another group; other requests than those of the sequence's group are unchanged."""
    if type(request) in (messages.DescribeGroups, ConsumerGroupDescribe):
        return evolve(request, groups=(group,))
    if type(request) in (messages.ListGroups, *TOPIC_CHANGES):
        return request
    return evolve(request, group=group) if request.group == GROUP else request


async def _within(waiting: Awaitable[object], seconds: float = ANSWERED_WITHIN_S) -> None:
    with contextlib.suppress(TimeoutError):  # the comparison will show the missing response
        await asyncio.wait_for(waiting, seconds)


async def ready(port: int, topics: Iterable[str] = (TOPIC,)) -> dict[str, str]:
    """Create topics, and wait until the broker coordinates groups; return the ids of the topics.

    Raises:
        RealKafkaError: the broker is not ready in time.
    """
    deadline = time.monotonic() + READY_S
    said = "nothing"
    names = list(topics)
    new = tuple([control.NewTopic(name=name, num_partitions=SIZES[name], replication_factor=1) for name in names])
    talker = Talker(port)
    try:
        while time.monotonic() < deadline:
            try:
                created = await talker.ask("kemu", TOPICS_VERSION, control.CreateTopics(topics=new, timeout_ms=10_000))
                made = {each.error_code for each in created.topics}
                found = await talker.ask("kemu", _FIND_VERSION, messages.FindCoordinator(key=GROUP))
                said = (
                    f"CreateTopics {', '.join(sorted(each.name for each in made))}, FindCoordinator {found.error.name}"
                )
                if found.error is ErrorCode.NONE and made <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                    return {each.topic: each.topic_id for each in await _described(talker, names) if len(names) > 1}
            except RealKafkaError as error:
                said = str(error)
            await asyncio.sleep(0.5)
    finally:
        talker.close()
    raise RealKafkaError(f"the broker coordinates no group after {READY_S} s; it said: {said}")


async def _described(talker: Talker, topics: Iterable[str]) -> tuple[TopicMetadata, ...]:
    reply: MetadataReply = await talker.ask("kemu", _METADATA_VERSION, Metadata(topics=tuple(topics)))
    return reply.topics


async def converse(
    port: int, drawn: Sequence[DrawnSequence], *, at_once: int, prefix: str, say: Callable[[int], None]
) -> list[Conversation]:
    """Send all sequences, ``at_once`` at a time; call ``say`` with the number of finished sequences.

    Raises:
        RealKafkaError: the broker has ended, or a conversation took too long.
    """
    talker, room = Talker(port), asyncio.Semaphore(at_once)
    done = 0

    async def one(each: DrawnSequence) -> Conversation:
        nonlocal done
        async with room:
            conversing = _Conversing(talker, each, f"{prefix}-{each.seed}")
            try:
                talk = await asyncio.wait_for(conversing.run(), MOST_SECONDS)
            except TimeoutError:
                raise RealKafkaError(f"sequence {each.seed} took longer than {MOST_SECONDS} s") from None
        done += 1
        say(done)
        return talk

    tasks = [asyncio.create_task(one(each)) for each in drawn]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        talker.close()
