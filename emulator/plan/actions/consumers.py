"""What an application does to its consumer."""

from kemu.emulator.plan.action import NEVER, MemberHost, action, nothing_more
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.text.tables import Table
from kemu.protocol.commands import Subscribe, Unsubscribe


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
