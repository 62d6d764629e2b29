"""Faults of the metadata store, where brokers replicate.

The whole store is unavailable while it elects a leader, or after ``crash`` of "zk". The other faults affect the
messages between one broker and the store. These faults take effect when the store reports them.
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
    "the metadata store loses its leader and elects another; it serves no client meanwhile",
    drawn=NEVER,
    drawn_replicated=(lambda draw: StoreElection(),),
    replicated=True,
)
class StoreElection:
    """The leader of the store's ensemble dies. The ensemble's servers drop their clients, refuse new ones, and elect
    another leader.

    Written data stays. Every session starts a whole timeout when the new leader begins, so no session of a client that
    reconnects in time expires. Watches are set again as clients connect. ``for_us`` 0: the draw ``store.election``.
    """

    for_us: int = 0

    def words(self) -> str:
        return f"the store's leader dies, another is elected{for_words(self.for_us, '')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
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
    """A random form without applied writes of controllers.

    Such a write of an ISR would leave the partition's leader with an old version until the next election. As Kafka's
    ``processAlterPartition`` does, the leader gives up on an unknown version.
    """
    host, part = draw.broker_or_controller(), draw.one_of(("broker", "controller"))
    nth, applied = draw.chance.between(1, 3), draw.chance.below(2) == 0
    return LostStoreAnswer(host=host, part=part, nth=nth, applied=applied and part == "broker")


@action(
    "lose-store-answer",
    "a broker does not learn the outcome of its write to the store",
    drawn=(),
    drawn_replicated=(_lost_answer,),
    replicated=True,
)
class LostStoreAnswer:
    """Lose the answer to the ``nth`` write (1 = next) of a broker to the store; its connection goes dead.

    The broker gives up after two thirds of its session's timeout and reconnects. The broker cannot know the outcome of
    the write (KAFKA-1382). ``applied``: whether the store applied it. ``part``: the writer, "broker" (its ISRs) or
    "controller" (its registration, the election, and the controller's writes).
    """

    host: BrokerHost
    part: Annotated[str, OneOf("broker", "controller")] = "broker"
    nth: int = 1
    applied: bool = True

    def words(self) -> str:
        done = "applied" if self.applied else "not applied"
        return f"lose the store's answer to write {self.nth} of {self.host} ({self.part}), which is {done}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
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
    "no message passes between a broker and the store; its session may expire",
    drawn=(),
    drawn_replicated=(lambda draw: FrozenSession(host=draw.broker_or_controller(), for_us=draw.span()),),
    replicated=True,
)
class FrozenSession:
    """Lose all messages between a broker and the store; all other links work.

    After the session's timeout the session expires: the broker's registration is deleted, and another controller is
    elected if it was the controller. The broker learns of that at the end of the fault; until then it is a zombie.
    """

    host: BrokerHost
    for_us: int = 0

    def words(self) -> str:
        return f"freeze the session of {self.host}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        return _tell(stage, self.for_us, FreezeSession(client=controller_on(host.name), for_us=0, number=stage.index))


@action(
    "delay-watches",
    "a broker's watches of the store fire late",
    drawn=(),
    drawn_replicated=(lambda draw: LateWatches(host=draw.broker_or_controller(), for_us=draw.span(100_000)),),
    replicated=True,
)
class LateWatches:
    """Delay the next watch of a broker that fires, and every later message of the store to it.

    The broker's controller part acts on old data meanwhile. ``for_us`` 0: until healed, or until the broker reconnects.
    """

    host: BrokerHost
    for_us: int = 0

    def words(self) -> str:
        return f"keep the next watch of {self.host} back{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        return _tell(stage, 0, DelayWatches(client=controller_on(host.name), for_us=self.for_us, number=stage.index))


def _expiry(draw: Draw) -> "ExpiredSession":
    linger_us = draw.span(100_000, 5 * SECOND) if draw.chance.below(2) else 0
    return ExpiredSession(host=draw.broker_or_controller(), linger_us=linger_us)


@action(
    "expire-session",
    "the store ends a broker's session; its nodes may remain",
    drawn=(),
    drawn_replicated=(_expiry,),
    replicated=True,
)
class ExpiredSession:
    """The store ends a broker's session now; the broker learns of it with its next message to the store.

    ``linger_us``: time for which the broker's registration, and /controller if the broker has it, remain in the store.
    So the broker's new session finds the node of its former one (KAFKA-7165).
    """

    host: BrokerHost
    linger_us: int = 0

    def words(self) -> str:
        lingers = f", with its nodes left for {duration_text(self.linger_us)}" if self.linger_us else ""
        return f"expire the session of {self.host}{lingers}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        command = ExpireSession(client=controller_on(host.name), linger_us=self.linger_us, number=stage.index)
        return _tell(stage, self.linger_us, command) if self.linger_us else stage.tell_store(command)
