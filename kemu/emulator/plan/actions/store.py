"""Faults of the metadata store, where brokers replicate.

The whole store is unavailable while it elects a leader, or after ``crash`` of "zk". The other faults affect the
messages between one broker and the store. Such a fault takes effect when the store reports the fault.
"""

# mypy: no-implicit-reexport

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
    "the metadata store elects another leader, and serves no client during the election",
    drawn=NEVER,
    drawn_replicated=(lambda draw: StoreElection(),),
    replicated=True,
)
class StoreElection:
    """End the leader of the store's ensemble. The ensemble's servers drop their clients, refuse new clients, and elect
    another leader.

    Written data stays. Every session gets its whole timeout again when the new leader starts, so no session of a client
    that reconnects in time expires. Clients set their watches again when they connect. ``for_us`` 0: the draw
    ``store.election``.
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
    """Arm a fault that lasts for ``for_us``."""
    outcome = stage.tell_store(command)
    if outcome is None:
        stage.lasts(for_us, lambda: stage.cluster.replicated.tell_store(EndStoreFault(number=stage.index)))
    return outcome


def _lost_answer(draw: Draw) -> "LostStoreAnswer":
    """The random form of a lost answer, without applied writes of controllers.

    An applied write of an ISR by the controller would leave the partition's leader with an old version until the next
    election. Like Kafka's ``processAlterPartition``, the leader gives up on an unknown version.
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
    """Lose the answer to the ``nth`` write (1 for the next) of a broker to the store, and all later messages of the
    connection.

    The broker gives up after two thirds of its session's timeout and reconnects. The broker cannot know the outcome of
    the write (KAFKA-1382). ``applied``: whether the store applied the write. ``part``: the writer, "broker" (for ISRs)
    or "controller" (for registrations, elections, and the controller's writes).
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

    After its timeout the session expires and the store deletes the broker's registration. If the broker was the
    controller, another controller is elected. Until the end of the fault, the broker does not know of the expiry: it is
    a zombie.
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
    """Delay the next watch event for a broker, and every later message from the store to the broker.

    During the delay, the broker's controller part uses old data. ``for_us`` 0: until healed, or until the broker
    reconnects.
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
    """Expire a broker's session now. The broker learns of the expiry with its next message to the store.

    ``linger_us``: time for which the broker's registration, and the broker's /controller, remain in the store. So the
    broker's new session finds the node of its former session (KAFKA-7165).
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
