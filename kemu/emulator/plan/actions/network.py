"""Faults of the network: isolated, slow and lossy links, and links that hold packets.

The network never reorders or duplicates packets of a connection. Kafka uses TCP connections, and a fault that TCP
excludes would find bugs that Kafka does not have.
"""

# mypy: no-implicit-reexport

from typing import Annotated

from kemu.emulator.engine.rules import HoldRule, LossyRule, SlowRule, SplitRule
from kemu.emulator.plan.action import ANYONE, AnyHost, AnyHosts, Bounds, MessageName, action, for_words, nothing_more
from kemu.emulator.plan.draw import SECOND
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.links import install_on, link_words
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table
from kemu.emulator.text.units import duration_text
from kemu.protocol.names import STORE


@action(
    "isolate",
    "a host is isolated from all other hosts",
    drawn=(lambda draw: Isolate(host=draw.member(), for_us=draw.span()),),
    drawn_replicated=(lambda draw: Isolate(host=draw.broker(), for_us=draw.span()),),
)
class Isolate:
    """Isolate a host: no packets to or from other hosts arrive."""

    host: AnyHost
    for_us: int = 0

    def words(self) -> str:
        return f"isolate {self.host}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        host = stage.host(self.host)
        if isinstance(host, str):
            return host
        stage.install(self.for_us, SplitRule((host.name,), (), one_way=False))
        return None


@action(
    "split",
    "two sets of hosts are isolated from each other, or in one direction",
    drawn=(),
    drawn_replicated=(lambda draw: Split(side=(draw.broker_or_controller(),), other=(STORE,), for_us=draw.span()),),
)
class Split:
    """Isolate two sets of hosts from each other. ``one_way``: ``other`` receives nothing from ``side``, but ``side``
    receives packets from ``other``.

    An empty ``other`` means all hosts that are not in ``side``.
    """

    side: AnyHosts
    other: AnyHosts = ()
    one_way: bool = False
    for_us: int = 0

    def words(self) -> str:
        side, other = ", ".join(self.side), ", ".join(self.other) or "everyone else"
        cut = f"{other} hears nothing of {side}" if self.one_way else f"split {side} from {other}"
        return cut + for_words(self.for_us)

    def check(self, table: Table, known: Known) -> None:
        both = sorted(set(self.side) & set(self.other))
        if not self.side:
            table.problem("side", "must name at least one host")
        elif both:
            table.problem("other", f"has hosts of the other side too: {', '.join(both)}")

    def apply(self, stage: Stage) -> Outcome:
        side = tuple(stage.cluster.resolve(name) for name in self.side)
        other = tuple(stage.cluster.resolve(name) for name in self.other)
        if not all((*side, *other)):
            return "a host of it does not exist now"
        stage.install(self.for_us, SplitRule(side, other, self.one_way))
        return None


@action(
    "slow",
    "a link gets slower, with jitter",
    drawn=(
        lambda draw: Slow(sender=draw.member(), add_us=draw.span(1_000, SECOND), jitter_us=SECOND, for_us=draw.span()),
    ),
)
class Slow:
    """Delay packets from ``sender`` to ``receiver`` ("" for any host) by ``add_us``, plus at most ``jitter_us``."""

    sender: AnyHost = ANYONE
    receiver: AnyHost = ANYONE
    add_us: int
    jitter_us: int = 0
    for_us: int = 0

    def words(self) -> str:
        jitter = f" to {duration_text(self.add_us + self.jitter_us)}" if self.jitter_us else ""
        link = link_words(self.sender, self.receiver)
        return f"slow {link} by {duration_text(self.add_us)}{jitter}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return install_on(
            stage, self.for_us, self.sender, self.receiver, SlowRule, self.add_us, self.jitter_us, stage.chance()
        )


@action(
    "lossy",
    "a link loses packets, and so breaks connections",
    drawn=(lambda draw: Lossy(per_mille=draw.chance.between(5, 30), for_us=draw.span()),),
)
class Lossy:
    """Lose ``per_mille`` of 1,000 packets from ``sender`` to ``receiver`` ("" for any host); each loss breaks a
    connection.
    """

    sender: AnyHost = ANYONE
    receiver: AnyHost = ANYONE
    per_mille: Annotated[int, Bounds(0, 1_000)]
    for_us: int = 0

    def words(self) -> str:
        return (
            f"lose {self.per_mille} of 1,000 packets {link_words(self.sender, self.receiver)}{for_words(self.for_us)}"
        )

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return install_on(stage, self.for_us, self.sender, self.receiver, LossyRule, self.per_mille, stage.chance())


@action(
    "hold",
    "a link holds packets and delivers the held packets later, in order",
    drawn=(lambda draw: Hold(sender=draw.member(), for_us=draw.span()),),
    drawn_replicated=(lambda draw: Hold(sender=draw.broker(), receiver=draw.broker(), for_us=draw.span()),),
)
class Hold:
    """Hold packets from ``sender`` to ``receiver`` ("" for any host), and deliver the held packets in order at the end.

    With ``api``, only packets of this API are held; later packets of a connection wait behind held packets.
    ``deliver`` releases some held packets earlier.
    """

    sender: AnyHost = ANYONE
    receiver: AnyHost = ANYONE
    api: MessageName = ""
    for_us: int = 0

    def words(self) -> str:
        since = f" from the next {self.api}" if self.api else ""
        return f"hold {link_words(self.sender, self.receiver)}{since}{for_words(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        return install_on(stage, self.for_us, self.sender, self.receiver, HoldRule, self.api)


@action(
    "disconnect",
    "the connections of two hosts are reset",
    drawn=(lambda draw: Disconnect(a=draw.member(), b=draw.broker()),),
    drawn_replicated=(lambda draw: Disconnect(a=draw.broker(), b=STORE),),
)
class Disconnect:
    """Reset the connections between two hosts; both hosts may reconnect at once."""

    a: AnyHost
    b: AnyHost

    def words(self) -> str:
        return f"disconnect {self.a} and {self.b}"

    def check(self, table: Table, known: Known) -> None:
        if self.a == self.b:
            table.problem("b", "must be another host")

    def apply(self, stage: Stage) -> Outcome:
        first, second = stage.cluster.resolve(self.a), stage.cluster.resolve(self.b)
        return None if stage.world.network.break_between(first, second) else "they have no connection"
