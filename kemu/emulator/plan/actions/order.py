"""Orders of messages: single messages that are delayed or lost, held messages, and priorities of links.

All actions respect TCP: a connection keeps its order, and a lost message breaks its connection. An explored
schedule (``emulator.exploring.schedules``) consists of a few of these actions.
"""

# mypy: no-implicit-reexport

from functools import partial
from typing import Annotated

from kemu.emulator.engine.network import Network
from kemu.emulator.engine.rules import BarrierRule, GrainRule, HoldRule, LateRule, LoseRule, PriorityRule
from kemu.emulator.plan.action import (
    ANYONE,
    NEVER,
    AnyHost,
    Bounds,
    Count,
    MessageName,
    OneOf,
    action,
    for_words,
    nothing_more,
)
from kemu.emulator.plan.links import install_on, link_words, on_link
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.units import duration_text

_MOST_CHANGES = 10_000
"""Largest number of changes of priorities; each change is drawn in advance."""

_Order = Annotated[int, Bounds(0)]
"""The number of an order; runs with equal seed and number have the same order."""


@action("delay", "a single message is delayed", drawn=NEVER)
class LateMessage:
    """Delay the ``nth`` message of this API from ``sender`` to ``receiver`` ("" for any host), counted from now, by
    ``by_us``.

    Later messages of the connection wait behind the delayed message. Messages within a host are not counted, because
    these messages do not use the network.
    """

    api: MessageName
    sender: AnyHost = ANYONE
    receiver: AnyHost = ANYONE
    nth: Count = 1
    by_us: int

    def words(self) -> str:
        which = f"{self.nth}. {self.api} {link_words(self.sender, self.receiver)}"
        return f"delay the {which} by {duration_text(self.by_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return install_on(stage, 0, self.sender, self.receiver, LateRule, self.api, self.nth, self.by_us)


@action("lose", "a single message is lost, and its connection breaks", drawn=NEVER)
class LostMessage:
    """Lose the ``nth`` message of this API from ``sender`` to ``receiver`` ("" for any host), counted from now.

    The message's connection breaks, as after a timeout of TCP, and both ends learn of the break.
    """

    api: MessageName
    sender: AnyHost = ANYONE
    receiver: AnyHost = ANYONE
    nth: Count = 1

    def words(self) -> str:
        return f"lose the {self.nth}. {self.api} {link_words(self.sender, self.receiver)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return install_on(stage, 0, self.sender, self.receiver, LoseRule, self.api, self.nth)


@action("barrier", "messages of an API wait until several senders have sent one", drawn=NEVER)
class Barrier:
    """Hold messages of this API from ``sender`` to ``receiver`` ("" for any host) until ``count`` senders have sent a
    message.

    At the last sender's message, all held messages are delivered at once, in order on each connection. After ``for_us``
    without enough senders, the barrier ends like "hold".
    """

    api: MessageName
    count: Count
    sender: AnyHost = ANYONE
    receiver: AnyHost = ANYONE
    for_us: int = 0

    def words(self) -> str:
        link = link_words(self.sender, self.receiver)
        return f"hold {self.api} {link} until those of {self.count} are there{for_words(self.for_us, ', or healed')}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        world = stage.world

        def barrier(sender: str, receiver: str) -> BarrierRule:
            def come() -> None:
                if rule in world.network.rules:
                    world.network.deliver(rule, rule.holds, 0)
                    stage.end()

            rule = BarrierRule(sender, receiver, self.api, self.count, lambda: world.at(world.now_us, come))
            return rule

        return install_on(stage, self.for_us, self.sender, self.receiver, barrier)


@action("deliver", "held messages are delivered", drawn=NEVER)
class Deliver:
    """Deliver the first ``count`` (0 for all) messages of this API ("" for any API) that "hold" and "barrier" hold.

    ``sender``, ``receiver``: only messages between these hosts ("" for any host). A connection keeps its order: earlier
    messages of the same connection are delivered, too. These earlier messages arrive after a latency. Messages that are
    sent from now on are held as before.
    """

    api: MessageName = ""
    sender: AnyHost = ANYONE
    receiver: AnyHost = ANYONE
    count: Annotated[int, Bounds(0)] = 0

    def words(self) -> str:
        which = f"{self.count or 'all'} {self.api or 'messages'} {link_words(self.sender, self.receiver)}"
        return f"deliver {which} that are held"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return on_link(stage, self.sender, self.receiver, partial(self._deliver, stage.world.network))

    def _deliver(self, network: Network, sender: str, receiver: str) -> Outcome:
        delivered, which = 0, HoldRule(sender, receiver, self.api)
        for rule in list(network.rules):
            if not isinstance(rule, HoldRule) or (self.count and delivered == self.count):
                continue
            held = rule.holds
            left = self.count - delivered if self.count else 0
            delivered += network.deliver(rule, lambda packet, held=held: held(packet) and which.holds(packet), left)  # type: ignore[misc]
        return None if delivered else "nothing of it is held"


@action("ties", "simultaneous events occur in another order than the seed's order", drawn=NEVER)
class TieOrder:
    """Order simultaneous events by the order with this number. All other events follow the seed.

    With ``grain_us``, arrivals of packets are rounded up to multiples of ``grain_us``, so that more arrivals are
    simultaneous. A connection keeps its order.
    """

    order: _Order
    grain_us: int = 0
    for_us: int = 0

    def words(self) -> str:
        grain = f", arrivals to {duration_text(self.grain_us)}" if self.grain_us else ""
        return f"ties in order {self.order}{grain}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        agenda, network, rule = stage.world.agenda, stage.world.network, GrainRule()
        drawn, before = stage.world.choices.stream(f"ties/{self.order}").bits, agenda.ties
        ends = [stage.puts("order", lambda: setattr(agenda, "ties", drawn), lambda: setattr(agenda, "ties", before))]
        if self.grain_us:
            was_us = network.grain_us
            network.install(rule)
            ends += [
                lambda: network.remove(rule),
                stage.puts(
                    "grain", lambda: network.round_arrivals(self.grain_us), lambda: network.round_arrivals(was_us)
                ),
            ]
        stage.lasts(self.for_us, lambda: [end() for end in ends])
        return None


@action("priorities", "links or hosts get priorities, and some priorities change later", drawn=NEVER)
class LinkPriorities:
    """Draw a priority for each link between two hosts (one direction), or for each sending host, with the number
    ``order``.

    Messages of a link are delayed by up to ``within_us``; the lower the priority, the longer the delay. At ``changes``
    of the next ``messages`` messages, the link of the message loses its priority (PCT with ``changes`` change points).
    """

    order: _Order
    of: Annotated[str, OneOf("links", "hosts")] = "links"
    within_us: int
    changes: Annotated[int, Bounds(0, _MOST_CHANGES)] = 0
    messages: Count = 1_000
    for_us: int = 0

    def words(self) -> str:
        changes = f", {self.changes} changes in {self.messages} messages"
        within = f"up to {duration_text(self.within_us)} later"
        return f"priorities of {self.of} in order {self.order}, {within}{changes}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        chance = stage.world.choices.stream(f"priorities/{self.order}")
        rule = PriorityRule(self.of == "links", self.within_us, self.changes, self.messages, chance)
        stage.install(self.for_us, rule)
        return None
