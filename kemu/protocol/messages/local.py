"""What the actors of one broker process tell each other: a broker (``b0``) and its controller part (``b0/controller``).

In Kafka these are method calls within a process; here they are messages on the connection of two actors of one host,
which no fault between hosts touches. The keys are ours.
"""

from kemu.protocol.messages.store import StoreCode
from kemu.protocol.wire.schema import REPLY, REQUEST, message


@message(api_key=110, kind=REQUEST, versions=range(0, 1))
class BrokerSession:
    """Controller part -> broker: we are registered in the store, under this session and broker epoch.

    Said after every registration (a new one follows each expired session). The broker attaches to the session for its
    ISR changes; control requests with a lower broker epoch are stale from now on. ``session_id`` 0: the session has
    expired, a new registration will follow (the broker goes on: it does not know more either).
    """

    session_id: int
    broker_epoch: int


@message(api_key=110, kind=REPLY, versions=range(0, 1))
class BrokerSessionReply:
    """Heard."""


@message(api_key=111, kind=REQUEST, versions=range(0, 1))
class LeaveStore:
    """Broker -> controller part: the process ends cleanly. Resign if we control, close the session."""


@message(api_key=111, kind=REPLY, versions=range(0, 1))
class LeaveStoreReply:
    """The session is closed, or was over, or the store could not be reached in time (``code``)."""

    code: StoreCode


@message(api_key=115, kind=REQUEST, versions=range(0, 1))
class BrokerConfigs:
    """Controller part -> broker: these are the settings now of a topic, or ("") of all brokers."""

    topic: str
    settings: tuple[tuple[str, str], ...]


@message(api_key=115, kind=REPLY, versions=range(0, 1))
class BrokerConfigsReply:
    """Heard."""


@message(api_key=118, kind=REQUEST, versions=range(0, 1))
class OwnConfigs:
    """Controller part -> broker: these are the settings now of this broker alone."""

    settings: tuple[tuple[str, str], ...]


@message(api_key=118, kind=REPLY, versions=range(0, 1))
class OwnConfigsReply:
    """Heard."""
