"""The controller's lines to the brokers: per broker a queue, one request in flight, tried until answered.

So on one channel requests are neither lost nor reordered, but one may arrive twice, and late: after the broker bounced,
or from a controller that has long been replaced. Only removing the broker empties its queue.
Source: Kafka 2.8 ``ControllerChannelManager`` and ``RequestSendThread``.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from kemu.actors.controller.dispatch import ControllerTimer
from kemu.actors.machine import Event, LinkDown, Machine, Received, TimerFired
from kemu.protocol.names import ActorName

Answered = Callable[[int, object, Any], None]
"""(broker, request, reply)."""


class _Channel:
    """One broker's queue; its head is in flight, or waits for the next try."""

    __slots__ = ("broker", "host", "queue", "request_id")

    def __init__(self, broker: int, host: ActorName) -> None:
        self.broker = broker
        self.host = host
        self.queue: deque[tuple[object, int]] = deque()
        self.request_id = 0
        """Of the head, while it is in flight."""


class ControllerChannels:
    """A part of the controller. ``answered`` is called for each reply."""

    def __init__(self, machine: Machine, answered: Answered, *, timeout_us: int, backoff_us: int) -> None:
        self._machine = machine
        self._answered = answered
        self._timeout_us = timeout_us
        self._backoff_us = backoff_us
        self._channels: dict[int, _Channel] = {}

    def add(self, broker: int, host: ActorName) -> None:
        """Open a line to a broker."""
        if broker not in self._channels:
            self._channels[broker] = _Channel(broker, host)

    def remove(self, broker: int) -> None:
        """Close it; what is queued is forgotten (what is in flight may still arrive)."""
        channel = self._channels.pop(broker, None)
        if channel is not None:
            self._machine.hang_up(channel.host)
            self._machine.stop_timer((ControllerTimer.CHANNEL_RETRY, str(broker)))
            self._machine.stop_timer((ControllerTimer.CHANNEL_TIMEOUT, str(broker)))

    def remove_all(self) -> None:
        """Close every line."""
        for broker in list(self._channels):
            self.remove(broker)

    def send(self, broker: int, request: object, version: int) -> None:
        """Queue a request; to a broker without a line it is lost."""
        channel = self._channels.get(broker)
        if channel is None:
            return
        channel.queue.append((request, version))
        if len(channel.queue) == 1:
            self._try(channel)

    def handle(self, event: Event) -> bool:
        """Take an event of the channels; False if it is none."""
        match event:
            case Received(request_id=request_id, peer=peer, message=message):
                channel = self._of(peer)
                if channel is None or channel.request_id != request_id:
                    return False
                self._reply(channel, message)
            case LinkDown(peer=peer):
                channel = self._of(peer)
                if channel is None:
                    return False
                if channel.request_id:
                    self._retry(channel)
            case TimerFired(key=(ControllerTimer.CHANNEL_RETRY, broker)):
                self._try(self._channels[int(broker)])
            case TimerFired(key=(ControllerTimer.CHANNEL_TIMEOUT, broker)):
                channel = self._channels[int(broker)]
                self._machine.hang_up(channel.host)
                self._retry(channel)
            case _:
                return False
        return True

    def _of(self, peer: ActorName) -> _Channel | None:
        return next((channel for channel in self._channels.values() if channel.host == peer), None)

    def _try(self, channel: _Channel) -> None:
        request, version = channel.queue[0]
        channel.request_id = self._machine.request(channel.host, request, version)
        self._machine.start_timer((ControllerTimer.CHANNEL_TIMEOUT, str(channel.broker)), self._timeout_us)

    def _retry(self, channel: _Channel) -> None:
        channel.request_id = 0
        self._machine.stop_timer((ControllerTimer.CHANNEL_TIMEOUT, str(channel.broker)))
        self._machine.start_timer((ControllerTimer.CHANNEL_RETRY, str(channel.broker)), self._backoff_us)

    def _reply(self, channel: _Channel, message: Any) -> None:
        channel.request_id = 0
        self._machine.stop_timer((ControllerTimer.CHANNEL_TIMEOUT, str(channel.broker)))
        request, _ = channel.queue.popleft()
        if channel.queue:
            self._try(channel)
        self._answered(channel.broker, request, message)
