"""Messages within one broker process: between a broker (``b0``) and its controller part (``b0/controller``).

In Kafka these messages are method calls. Here the messages use a connection between two actors of one host; no network
fault affects this connection. The API keys are kemu's own.
"""

from kemu.protocol.messages.store import StoreCode
from kemu.protocol.wire.schema import REPLY, REQUEST, message


@message(api_key=110, kind=REQUEST, versions=range(0, 1))
class BrokerSession:
    """Controller part -> broker: the process is registered in the store, with this session and broker epoch.

    The controller part sends the message after every registration; a new session follows an expired session. The broker
    attaches to the session for its ISR changes. From now on, control requests with a lower broker epoch are stale.
    ``session_id`` 0: the session has expired, and a new registration will follow. The broker continues to run
    without a session.
    """

    session_id: int
    broker_epoch: int


@message(api_key=110, kind=REPLY, versions=range(0, 1))
class BrokerSessionReply:
    """The reply to BrokerSession: the broker has received the message."""


@message(api_key=111, kind=REQUEST, versions=range(0, 1))
class LeaveStore:
    """Broker -> controller part: the process shuts down. Resign as controller and close the session."""


@message(api_key=111, kind=REPLY, versions=range(0, 1))
class LeaveStoreReply:
    """The reply to LeaveStore: the session is closed or expired, or the store could not be reached in time
    (``code``).
    """

    code: StoreCode


@message(api_key=115, kind=REQUEST, versions=range(0, 1))
class BrokerConfigs:
    """Controller part -> broker: the current settings of a topic, or ("") of all brokers."""

    topic: str
    settings: tuple[tuple[str, str], ...]


@message(api_key=115, kind=REPLY, versions=range(0, 1))
class BrokerConfigsReply:
    """The reply to BrokerConfigs: the broker has received the message."""


@message(api_key=120, kind=REQUEST, versions=range(0, 1))
class GroupConfigs:
    """Controller part -> broker -> coordinator: the current settings of a group (KIP-848)."""

    group: str
    settings: tuple[tuple[str, str], ...]


@message(api_key=120, kind=REPLY, versions=range(0, 1))
class GroupConfigsReply:
    """The reply to GroupConfigs: the receiver has the message."""


@message(api_key=118, kind=REQUEST, versions=range(0, 1))
class OwnConfigs:
    """Controller part -> broker: the current settings of this broker alone."""

    settings: tuple[tuple[str, str], ...]


@message(api_key=118, kind=REPLY, versions=range(0, 1))
class OwnConfigsReply:
    """The reply to OwnConfigs: the broker has received the message."""
