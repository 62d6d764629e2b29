"""What the parts of a controller share: its books, its pen, its voice.

``ControllerBase`` is the machine as its parts see it; ``actors.controller.controller.Controller`` adds the event queue,
the session and the election.
"""

from collections.abc import Iterable

from kemu.actors.controller.batch import BatchNotEmpty, ControlBatch
from kemu.actors.controller.channels import ControllerChannels
from kemu.actors.controller.context import ControllerContext
from kemu.actors.controller.rules import RULES, ControllerRules
from kemu.actors.controller.transactions import ControllerStore
from kemu.actors.machine import Machine
from kemu.protocol.config import ControllerConfig
from kemu.protocol.names import ActorName, TopicPartition

US_PER_MS = 1_000
US_PER_S = 1_000_000


class IllegalState(Exception):
    """A request was to be sent while a batch was half full: the controller gives up its office."""


class ControllerBase(Machine):
    """A broker's controller: what its parts use."""

    def __init__(
        self,
        name: ActorName,
        broker_id: int,
        config: ControllerConfig,
        rules: ControllerRules = RULES,
    ) -> None:
        super().__init__(name)
        self.broker_id = broker_id
        self.config = config
        self.rules = rules
        self.channels = ControllerChannels(
            self,
            self.answered,
            timeout_us=config.controller_socket_timeout_ms * US_PER_MS,
            backoff_us=config.emulated_send_backoff_ms * US_PER_MS,
        )
        self.new_books()

    def new_books(self) -> None:
        """Know nothing: at the start, and after every resignation."""
        self.context = ControllerContext()
        self.store = ControllerStore(self.context, self.rules)
        self.batch = ControlBatch(self.broker_id, self.context, self.rules, self.channels.send)

    def answered(self, broker: int, request: object, reply: object) -> None:
        """A broker answered a control request."""
        raise NotImplementedError

    def send_update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Tell brokers who lives, and about these partitions.

        Raises:
            IllegalState: the batch was not empty; it is now.
        """
        try:
            self.batch.begin()
        except BatchNotEmpty:
            self.batch.clear()
            raise IllegalState("metadata in the middle of another batch") from None
        self.batch.add_update_metadata(brokers, partitions)
        self.batch.send()
