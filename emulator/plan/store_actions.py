"""What can be done only where brokers replicate: faults of the metadata store, and what operators do through it.

The conventions are those of ``emulator.plan.actions``. The store itself never fails; what fails is how one broker hears
it and is heard. A fault of the store counts when the store says that it hit, not when it was asked for.
"""

from collections.abc import Mapping
from typing import TypeAlias

from kemu.emulator.plan.kinds import ActionKind
from kemu.protocol.wire.values import value

"""The host of the metadata store."""

# --- faults of the store -------------------------------------------------------------------------------------------


@value
class LostStoreAnswer:
    """The answer to the ``nth`` write (1 = next) of a broker to the store is lost, and its connection goes dead.

    The broker learns nothing until it gives up after two thirds of its session's timeout and comes back: it cannot know
    whether the write happened (KAFKA-1382). ``applied``: whether it did. ``part``: whose write: "broker" (its ISRs), or
    "controller" (its registration, the election, and all that the controller writes).
    """

    host: str
    part: str = "broker"
    nth: int = 1
    applied: bool = True


@value
class FrozenSession:
    """A broker and the store do not hear each other, while everybody else hears both.

    Frozen for longer than the session's timeout, the session expires: the broker's registration goes, and if it was the
    controller another is elected. It learns so when it is heard again; until then it is a zombie.
    """

    host: str
    for_us: int = 0


@value
class LateWatches:
    """The next watch of a broker that fires is told so much later, and all that the store says to it then after it.

    So its controller part acts on old news, while others know more. ``for_us`` 0: until healed, or until the broker
    gives the connection up and hears of it when it connects again.
    """

    host: str
    for_us: int = 0


@value
class ExpiredSession:
    """The store ends a broker's session now; the broker learns so when it speaks to the store again.

    ``linger_us``: its registration, and /controller if it holds it, stay in the store for so long: the broker comes
    back with a new session and meets the node of its own former one (KAFKA-7165).
    """

    host: str
    linger_us: int = 0


# --- what operators do through the store ---------------------------------------------------------------------------


@value
class CreateTopic:
    """A topic is created, as ``kafka-topics --zookeeper --create`` did: placed on the brokers registered then.

    ``replication_factor`` 0: as the brokers have it. ``records_per_s``: its producer starts and appends so many per
    second, over all partitions (0 = none). A topic of [topics] can be created again once it was deleted.
    """

    topic: str
    partitions: int = 1
    replication_factor: int = 0
    records_per_s: int = 0


@value
class DeleteTopic:
    """A topic is marked for deletion, as ``kafka-topics --zookeeper --delete`` did; the controller does the rest.

    Its replicas are deleted on every broker, then its nodes; a dead broker delays that until it is back. Its producer
    stops when the tool is called: otherwise it would ask for the topic for ever. No group may subscribe to it.
    """

    topic: str


@value
class ElectPreferredLeaders:
    """The first replica of each partition is to lead, as ``kafka-preferred-replica-election`` asked for.

    It leads if it is alive and in sync. ``topics``: of these only; none = of all, ``__consumer_offsets`` too.
    """

    topics: tuple[str, ...] = ()


StoreAction: TypeAlias = (
    LostStoreAnswer | FrozenSession | LateWatches | ExpiredSession | CreateTopic | DeleteTopic | ElectPreferredLeaders
)

_BROKER = (("host", "broker"),)

STORE_FAULTS: Mapping[str, ActionKind] = {
    "lose-store-answer": ActionKind(
        LostStoreAnswer, "a broker does not learn whether its write to the store happened", _BROKER, replicated=True
    ),
    "freeze-session": ActionKind(
        FrozenSession, "a broker and the store do not hear each other; its session may expire", _BROKER, replicated=True
    ),
    "delay-watches": ActionKind(
        LateWatches, "a broker learns late of what changed in the store", _BROKER, replicated=True
    ),
    "expire-session": ActionKind(
        ExpiredSession, "the store ends a broker's session; its nodes may linger", _BROKER, replicated=True
    ),
}

STORE_WORKLOAD: Mapping[str, ActionKind] = {
    "create-topic": ActionKind(CreateTopic, "a topic is created", workload=True, replicated=True),
    "delete-topic": ActionKind(DeleteTopic, "a topic is deleted", workload=True, replicated=True),
    "elect-preferred-leaders": ActionKind(
        ElectPreferredLeaders, "the first replica of each partition is to lead again", workload=True, replicated=True
    ),
}

CHOICES_OF_STORE: Mapping[tuple[type, str], tuple[str, ...]] = {(LostStoreAnswer, "part"): ("broker", "controller")}
