"""Faults of the metadata store, where brokers replicate.

The store as a whole is away while it elects a leader, or is crashed (``crash`` of "zk"). The other faults are of how
one broker hears it and is heard: such a fault counts when the store says that it hit, not when it was asked for.
"""

from typing import Annotated

from kemu.emulator.engine.hosts import Condition
from kemu.emulator.plan.action import NEVER, BrokerHost, OneOf, action, for_words, nothing_more
from kemu.emulator.plan.draw import SECOND, Draw
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.units import duration_text
from kemu.protocol.commands import DelayWatches, EndStoreFault, ExpireSession, FreezeSession, LoseStoreAnswer
from kemu.protocol.names import STORE, controller_on


@action(
    "elect-store-leader",
    "the metadata store loses its leader and elects another; it serves nobody meanwhile",
    drawn=NEVER,
    drawn_replicated=(lambda draw: StoreElection(),),
    replicated=True,
)
class StoreElection:
    """The leader of the store's ensemble dies: its servers drop their clients, refuse new ones, and elect another.

    What was written stays. Every session has its whole timeout again when the new leader begins, so that nobody's
    expires who comes back in time; watches are set again as clients connect. ``for_us`` 0: as ``store.election`` is
    drawn.
    """

    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"the store's leader dies, another is elected{for_words(self.for_us, '')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.take_down(STORE, Condition.CRASHED)
        if isinstance(host, str):
            return host
        stage.lasts(stage.cluster.replicated.store_election_us(self.for_us), lambda: stage.cluster.start(STORE))
        return None


def _tell(stage: Stage, for_us: int, command: object) -> Outcome:
    """Arm a fault that can be ended."""
    outcome = stage.tell_store(command)
    if outcome is None:
        stage.lasts(for_us, lambda: stage.cluster.replicated.tell_store(EndStoreFault(number=stage.index)))
    return outcome


def _lost_answer(draw: Draw) -> "LostStoreAnswer":
    """Never one of a controller's writes that happen.

    An ISR that it writes for a leader would leave it with an old version until the partition's next election: as
    Kafka's ``processAlterPartition`` does, it gives up on a version that is not the one it knows.
    """
    host, part = draw.broker_or_controller(), draw.one_of(("broker", "controller"))
    nth, applied = draw.chance.between(1, 3), draw.chance.below(2) == 0
    return LostStoreAnswer(host=host, part=part, nth=nth, applied=applied and part == "broker")


@action(
    "lose-store-answer",
    "a broker does not learn whether its write to the store happened",
    drawn=(),
    drawn_replicated=(_lost_answer,),
    replicated=True,
)
class LostStoreAnswer:
    """The answer to the ``nth`` write (1 = next) of a broker to the store is lost, and its connection goes dead.

    The broker learns nothing until it gives up after two thirds of its session's timeout and comes back: it cannot know
    whether the write happened (KAFKA-1382). ``applied``: whether it did. ``part``: whose write: "broker" (its ISRs), or
    "controller" (its registration, the election, and all that the controller writes).
    """

    host: BrokerHost
    part: Annotated[str, OneOf("broker", "controller")] = "broker"
    nth: int = 1
    applied: bool = True

    def words(self) -> str:
        """See ``Action``."""
        done = "applied" if self.applied else "not applied"
        return f"lose the store's answer to write {self.nth} of {self.host} ({self.part}), which is {done}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        command = LoseStoreAnswer(
            client=host.name if self.part == "broker" else controller_on(host.name),
            nth=self.nth,
            executed=self.applied,
            writes_only=True,
            number=stage.index,
        )
        return _tell(stage, 0, command)


@action(
    "freeze-session",
    "a broker and the store do not hear each other; its session may expire",
    drawn=(),
    drawn_replicated=(lambda draw: FrozenSession(host=draw.broker_or_controller(), for_us=draw.span()),),
    replicated=True,
)
class FrozenSession:
    """A broker and the store do not hear each other, while everybody else hears both.

    Frozen for longer than the session's timeout, the session expires: the broker's registration goes, and if it was the
    controller another is elected. It learns so when it is heard again; until then it is a zombie.
    """

    host: BrokerHost
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"freeze the session of {self.host}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        return _tell(stage, self.for_us, FreezeSession(client=controller_on(host.name), for_us=0, number=stage.index))


@action(
    "delay-watches",
    "a broker learns late of what changed in the store",
    drawn=(),
    drawn_replicated=(lambda draw: LateWatches(host=draw.broker_or_controller(), for_us=draw.span(100_000)),),
    replicated=True,
)
class LateWatches:
    """The next watch of a broker that fires is told so much later, and all that the store says to it then after it.

    So its controller part acts on old news, while others know more. ``for_us`` 0: until healed, or until the broker
    gives the connection up and hears of it when it connects again.
    """

    host: BrokerHost
    for_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        return f"keep the next watch of {self.host} back{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        return _tell(stage, 0, DelayWatches(client=controller_on(host.name), for_us=self.for_us, number=stage.index))


def _expiry(draw: Draw) -> "ExpiredSession":
    linger_us = draw.span(100_000, 5 * SECOND) if draw.chance.below(2) else 0
    return ExpiredSession(host=draw.broker_or_controller(), linger_us=linger_us)


@action(
    "expire-session",
    "the store ends a broker's session; its nodes may linger",
    drawn=(),
    drawn_replicated=(_expiry,),
    replicated=True,
)
class ExpiredSession:
    """The store ends a broker's session now; the broker learns so when it speaks to the store again.

    ``linger_us``: its registration, and /controller if it holds it, stay in the store for so long: the broker comes
    back with a new session and meets the node of its own former one (KAFKA-7165).
    """

    host: BrokerHost
    linger_us: int = 0

    def words(self) -> str:
        """See ``Action``."""
        lingers = f", whose nodes linger for {duration_text(self.linger_us)}" if self.linger_us else ""
        return f"expire the session of {self.host}{lingers}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        command = ExpireSession(client=controller_on(host.name), linger_us=self.linger_us, number=stage.index)
        return _tell(stage, self.linger_us, command) if self.linger_us else stage.tell_store(command)
