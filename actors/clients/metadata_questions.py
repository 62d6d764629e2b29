"""When a client asks for its topic's metadata, and whom (a part of the producer)."""

from kemu.actors.machine import Chance, Machine, Received
from kemu.protocol.config import ProducerConfig
from kemu.protocol.messages.data import Metadata, MetadataReply
from kemu.protocol.names import ActorName

TIMER = ("metadata",)


def backoff_us(failures: int, config: ProducerConfig, chance: Chance) -> int:
    """The pause after so many failures in a row: doubles up to the maximum, give or take a fifth. Source: KIP-580."""
    backoff_ms = min(config.retry_backoff_ms << min(failures - 1, 20), config.retry_backoff_max_ms)
    return backoff_ms * 10 * (80 + chance.below(41))


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
            pause_us = backoff_us(max(1, self._failures), self._config, self._chance)
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
            self._machine.start_timer(TIMER, due_us - self._machine.now_us)
