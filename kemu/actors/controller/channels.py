"""The controller's channels to the brokers: each has a queue with one request in flight, retried until answered.

A channel neither loses nor reorders requests. But a request may arrive more than once and late: after the broker has
restarted, or after another controller was elected. Only the removal of the broker empties its queue.
Source: Kafka 2.8 ``ControllerChannelManager`` and ``RequestSendThread``.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kemu.actors.client import DISCONNECTED, Backoff, Client
from kemu.actors.controller.dispatch import ControllerTimer
from kemu.actors.machine import Event, LinkDown, Machine, Received, TimerFired
from kemu.protocol.messages.control import LeaderAndIsrReply, StopReplicaReply, UpdateMetadataReply
from kemu.protocol.names import ActorName

REPLIES = (LeaderAndIsrReply, StopReplicaReply, UpdateMetadataReply)
"""The brokers' replies to controllers' requests."""

Answered = Callable[[int, object, Any], None]
"""(broker, request, reply): the call after each reply."""


class _Channel:
    """One broker's queue; its first request is in flight, or waits for the next attempt."""

    __slots__ = ("broker", "host", "queue")

    def __init__(self, broker: int, host: ActorName) -> None:
        self.broker = broker
        self.host = host
        self.queue: deque[tuple[object, int]] = deque()


class ControllerChannels:
    """The controller's part for channels, which calls ``answered`` for each reply.

    A failed attempt is repeated after the fixed time ``backoff_us``, as in ``RequestSendThread``.
    """

    def __init__(self, machine: Machine, answered: Answered, *, timeout_us: int, backoff_us: int) -> None:
        self._machine = machine
        self._answered = answered
        self._client = Client(
            machine,
            request_timeout_us=timeout_us,
            reconnect=Backoff(backoff_us, backoff_us),
            chance=None,
            deadline=(ControllerTimer.CHANNEL_TIMEOUT,),
        )
        self._timers: Mapping[str, Callable[..., None]] = {
            ControllerTimer.CHANNEL_RETRY: self._retry,
            ControllerTimer.CHANNEL_TIMEOUT: self._client.deadline_passed,
        }
        self._channels: dict[int, _Channel] = {}

    def add(self, broker: int, host: ActorName) -> None:
        """Open a channel to a broker."""
        if broker not in self._channels:
            self._channels[broker] = _Channel(broker, host)

    def remove(self, broker: int) -> None:
        """Close the channel and drop its queued requests; a request in flight may still arrive."""
        channel = self._channels.pop(broker, None)
        if channel is not None:
            self._client.forget(channel.host)
            self._machine.stop_timer((ControllerTimer.CHANNEL_RETRY, str(broker)))

    def remove_all(self) -> None:
        """Close every channel."""
        for broker in list(self._channels):
            self.remove(broker)

    def send(self, broker: int, request: object, version: int) -> None:
        """Queue a request for the broker; a request without a channel is dropped."""
        channel = self._channels.get(broker)
        if channel is None:
            return
        channel.queue.append((request, version))
        if len(channel.queue) == 1:
            self._try(channel)

    def handle(self, event: Event) -> bool:
        """React to an event of the channels; False for other events."""
        match event:
            case Received(message=message):
                # A broker numbers its own requests, so one of its numbers may equal the number of a request to the
                # broker.
                return isinstance(message, REPLIES) and self._client.reply_arrived(event)
            case LinkDown(peer=peer):
                if all(channel.host != peer for channel in self._channels.values()):
                    return False
                self._client.connection_broke(peer, DISCONNECTED)
            case TimerFired(key=(timer, *about)) if timer in self._timers:
                self._timers[timer](*about)
            case _:
                return False
        return True

    def _retry(self, broker: str) -> None:
        self._try(self._channels[int(broker)])

    def _try(self, channel: _Channel) -> None:
        request, version = channel.queue[0]
        self._client.call(channel.host, request, version, self._replied, self._failed, channel)

    def _failed(self, why: str, channel: _Channel) -> None:
        wait_us = self._client.available_at(channel.host) - self._machine.now_us
        self._machine.start_timer((ControllerTimer.CHANNEL_RETRY, str(channel.broker)), wait_us)

    def _replied(self, message: Any, channel: _Channel) -> None:
        request, _ = channel.queue.popleft()
        if channel.queue:
            self._try(channel)
        self._answered(channel.broker, request, message)
