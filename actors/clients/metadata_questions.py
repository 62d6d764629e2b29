"""When a client asks for its topic's metadata, and whom (a part of the producer)."""

from kemu.actors.client import Backoff
from kemu.actors.machine import Chance, Machine, Received, TimerKey
from kemu.protocol.config import ProducerConfig
from kemu.protocol.messages.data import Metadata, MetadataReply
from kemu.protocol.names import ActorName

METADATA: TimerKey = ("metadata",)
"""Fires when it is time to ask."""


class MetadataQuestions:
    """One question at a time, to the brokers last heard of and the bootstrap ones in turn."""

    def __init__(
        self,
        machine: Machine,
        topic: str,
        config: ProducerConfig,
        bootstrap: tuple[ActorName, ...],
        chance: Chance,
        version: int,
    ) -> None:
        self._machine = machine
        self._topic = topic
        self._config = config
        self._chance = chance
        self._retry = Backoff(config.retry_backoff_ms * 1000, config.retry_backoff_max_ms * 1000)
        self._version = version
        self._bootstrap = bootstrap
        self._brokers = bootstrap
        self._next_broker = chance.below(len(bootstrap))
        self._request_id = 0
        """Of the question under way; 0 for none."""
        self.asked: ActorName = ""
        """To whom the question under way went; "" for none."""
        self.deadline_us = 0
        """When the question under way is given up."""
        self._asked_us = 0
        self._failures = 0
        self._due_us: int | None = None

    def ask(self) -> None:
        """Ask now (the timer is due, or the process starts)."""
        assert not self.asked, f"asked {self.asked} already"
        self._due_us = None
        self.asked = self._brokers[self._next_broker % len(self._brokers)]
        self._next_broker += 1
        self._request_id = self._machine.request(self.asked, Metadata(topics=(self._topic,)), self._version)
        self._asked_us = self._machine.now_us
        self.deadline_us = self._asked_us + self._config.request_timeout_ms * 1000

    def want(self) -> None:
        """Ask at once, but leave the backoff between two questions. Source: Kafka's ``Metadata.timeToAllowUpdate``."""
        if not self.asked:
            pause_us = self._retry.after(max(1, self._failures), self._chance)
            self._ask_by(max(self._machine.now_us, self._asked_us + pause_us))

    def lost(self, broker: ActorName) -> None:
        """The connection to a broker is gone: a question to it will not be answered."""
        if self.asked == broker:
            self.asked = ""
            self._failures += 1

    def is_answer(self, event: Received) -> bool:
        """Whether this answers the question under way; then it is over."""
        if not self.asked or event.request_id != self._request_id:
            return False
        self.asked = ""
        reply: MetadataReply = event.message
        self._brokers = tuple(dict.fromkeys((*(broker.host for broker in reply.brokers), *self._bootstrap)))
        return True

    def settle(self, *, complete: bool) -> None:
        """The answer was taken in; ask again when it is too old, or soon if it left something open."""
        if complete:
            self._failures = 0
            self._due_us = None
            self._ask_by(self._machine.now_us + self._config.metadata_max_age_ms * 1000)
        else:
            self._failures += 1
            self.want()

    def _ask_by(self, due_us: int) -> None:
        if self._due_us is None or due_us < self._due_us:
            self._due_us = due_us
            self._machine.start_timer(METADATA, due_us - self._machine.now_us)
