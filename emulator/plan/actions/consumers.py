"""What an application does to its consumer."""

from typing import Annotated

from kemu.emulator.plan.action import NEVER, MemberHost, OneOf, action, nothing_more
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table
from kemu.emulator.text.units import duration_text
from kemu.protocol.commands import RaiseInListener, StopPolling, Subscribe, Unsubscribe


def _tell(stage: Stage, name: str, command: object) -> Outcome:
    host = stage.host(name)
    if isinstance(host, str):
        return host
    return None if stage.world.tell(host.name, command) else f"{host.name} does not run"


@action("subscribe", "a member subscribes to other topics", drawn=NEVER, workload=True)
class Subscription:
    """A member's subscription is these topics from now on, until its process ends; it joins with them.

    Its group rebalances. The others keep theirs: members of a group may subscribe to different topics.
    """

    host: MemberHost
    topics: tuple[str, ...]

    def words(self) -> str:
        """See ``Action``."""
        return f"{self.host} subscribes to {', '.join(self.topics)}"

    def check(self, table: Table, known: Known) -> None:
        """See ``Action``."""
        if not self.topics:
            table.problem("topics", 'must name at least one; to subscribe to none write do = "unsubscribe"')
        for topic in self.topics:
            table.known("topics", topic, [name for name, _ in known.topics], "topic")

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return _tell(stage, self.host, Subscribe(topics=self.topics))


@action("unsubscribe", "a member leaves its group and goes on without topics", drawn=NEVER, workload=True)
class Unsubscription:
    """``consumer.unsubscribe()``: the member gives its partitions up and leaves its group; its process goes on."""

    host: MemberHost

    def words(self) -> str:
        """See ``Action``."""
        return f"{self.host} unsubscribes"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return _tell(stage, self.host, Unsubscribe())


@action("stop-polling", "a member's application does not poll for a while", drawn=NEVER)
class PollingStop:
    """A member's application does not call poll() for so long, while its heartbeats go on: slow work, a deadlock.

    It begins with the member's next poll. Longer than ``max.poll.interval.ms``, the member leaves its group and comes
    back when it polls again; shorter, a rebalance waits for it, at most for its rebalance timeout.
    """

    host: MemberHost
    for_us: int

    def words(self) -> str:
        """See ``Action``."""
        return f"{self.host} does not poll for {duration_text(self.for_us)}"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return _tell(stage, self.host, StopPolling(for_us=self.for_us))


@action("fail-listener", "the next call of a member's rebalance listener raises", drawn=NEVER)
class ListenerFailure:
    """The next call of this callback of a member's rebalance listener raises an exception; later ones do not."""

    host: MemberHost
    callback: Annotated[str, OneOf("onPartitionsRevoked", "onPartitionsAssigned", "onPartitionsLost")]

    def words(self) -> str:
        """See ``Action``."""
        return f"the next {self.callback} of {self.host} raises"

    check = nothing_more

    def apply(self, stage: Stage) -> Outcome:
        """See ``Action``."""
        return _tell(stage, self.host, RaiseInListener(callback=self.callback, why="a fault of the plan"))
