"""The interfaces of actions: a cluster as its operators use it, and the plan's entry in progress."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from kemu.emulator.chance import Stream
from kemu.emulator.engine.hosts import Condition, Host
from kemu.emulator.engine.network import Rule
from kemu.emulator.engine.world import World
from kemu.protocol.commands import AnswerNext

Outcome: TypeAlias = str | None
"""None: the action took effect. A text: the reason for no effect."""


class Operators(Protocol):
    """The operations of a cluster. An ``Outcome`` is None, or the reason of a refusal."""

    @property
    def replicated(self) -> "ReplicatedOperators":
        """The operations where brokers replicate. Only actions with ``replicated=True`` use it; the reader refuses them
        elsewhere.
        """
        ...

    @property
    def deployments(self) -> "Deployer":
        """Rolling restarts and upgrades, and groups that grow or shrink."""
        ...

    def resolve(self, name: str) -> str:
        """The host that a name or a role ("leader of g") means now; "" if there is none."""

    def start(self, name: str, *, keep_disk: bool = True) -> bool:
        """Start a host from its disk or from an empty one; False if it runs or is starting."""

    def down_us(self, name: str, said_us: int) -> int:
        """The actual downtime in us of a host that was taken down, for ``said_us`` in the plan."""

    def close(self, name: str) -> bool:
        """End a host cleanly; False if it does not run."""

    def not_started_after_all(self, name: str) -> bool:
        """End a process that is starting and has done nothing yet; False if there is none."""

    def coordinator_of(self, group: str) -> str:
        """The host that coordinates a group; "" if there is none at the moment."""

    def move_coordinator(self, group: str, to: str) -> Outcome:
        """Make another broker ("" = the next live one) the leader of a group's offsets partition.

        With replication only elections move leaders, and a plan with this action is refused.
        """

    def expect_takeover(self, group: str) -> None:
        """A fault stopped this group's coordinator: after the detection, another broker is to follow it."""

    def set_rate(self, topic: str, records_per_s: int) -> Outcome:
        """Change a producer's rate."""

    def grow_topic(self, topic: str, partitions: int) -> Outcome:
        """Give a topic this many partitions."""

    def ask_admin(self, command: object) -> Outcome:
        """Send the admin client a command; its result is a note."""

    def tell_servers(self, command: object) -> None:
        """Send every broker and coordinator a command."""

    def revive(self) -> None:
        """Start every process of a complete cluster, such as every broker."""

    def keep_away(self, names: Sequence[str]) -> None:
        """Never start these hosts again."""


class Deployer(Protocol):
    """Deployments of a cluster: restarts, upgrades and scaling."""

    def rolling_restart(self, group: str, every_us: int, down_us: int, how: str, done: Callable[[], None]) -> int:
        """Restart the members of a group one after the other, one every ``every_us``.

        Args:
            every_us: interval between the orders to stop, in us.
            down_us: time between the end of a member and its next start, in us.
            how: "close" or "crash".
            done: called once for each member that runs again.

        Returns:
            The number of members.
        """

    def rolling_upgrade(
        self,
        group: str,
        every_us: int,
        down_us: int,
        how: str,
        hosts: tuple[str, ...],
        *,
        profile: str,
        assignors: tuple[str, ...],
        settings: tuple[str, ...],
        done: Callable[[], None],
    ) -> int:
        """Restart members as ``rolling_restart`` does, with a new release, new assignors or new settings.

        Without ``hosts`` the whole group is upgraded, and members that are added later are upgraded, too.
        """

    def upgrade_brokers(
        self,
        every_us: int,
        down_us: int,
        how: str,
        hosts: tuple[str, ...],
        *,
        profile: str,
        protocol: str,
        done: Callable[[], None],
    ) -> int | str:
        """Restart brokers with a new release or inter-broker protocol: their number, or the reason of a refusal."""
        ...

    def add_members(self, group: str, count: int) -> None:
        """Add members with the configuration of the group, and start them."""

    def remove_members(self, group: str, count: int) -> int:
        """Close the running members that were added last; return their number."""

    def scale_down(self, group: str, percent: int, hosts: tuple[str, ...]) -> Outcome:
        """Ask Streams instances to leave: these hosts, or so many that ``percent`` of the running ones stay."""

    def keep_instance(self, host: str) -> Outcome:
        """Tell a Streams instance that was asked to leave to stay."""


class ReplicatedOperators(Protocol):
    """The operations of a cluster with a controller, a metadata store, replicas and log directories."""

    def add_brokers(self, count: int) -> Outcome:
        """Start new brokers on empty disks."""

    def tell_store(self, command: object) -> Outcome:
        """Send the metadata store a command."""

    def fail_log_dir(self, name: str, log_dir: int) -> Outcome:
        """Make a log directory of a broker fail; a broker without another one dies."""
        ...

    def repair_log_dir(self, name: str, log_dir: int) -> None:
        """Repair a log directory with its data. The broker is restarted, because only a start detects the repair."""
        ...

    def store_election_us(self, said_us: int) -> int:
        """Duration in us of a leader election of the metadata store, for ``said_us`` in the plan; 0: not given."""
        ...

    def create_topic(self, topic: str, partitions: int, replication_factor: int, records_per_s: int) -> Outcome:
        """Have a topic created (factor 0: the brokers' default), and records appended once it exists."""

    def delete_topic(self, topic: str) -> Outcome:
        """Ask for a topic to be deleted."""

    @property
    def reassigns_by_store(self) -> bool:
        """Whether the brokers' release supports reassignments only by a list in the store."""
        ...

    def reassign_in_store(
        self, topic: str, targets: tuple[tuple[int, tuple[int, ...]], ...], brokers: tuple[int, ...]
    ) -> Outcome:
        """Write a list of reassignments into the store: (partition, replicas), or all to these brokers."""
        ...

    def elect_preferred_leaders(self, topics: tuple[str, ...], *, in_store: bool) -> Outcome:
        """Request preferred leaders for these topics (none = all), from the controller or by a list in the store."""


class Stage(Protocol):
    """One entry of a plan in progress: the cluster, the world, and the end of its effects."""

    @property
    def world(self) -> World:
        """The hosts, the network and the clock."""

    @property
    def cluster(self) -> Operators:
        """The operations of the cluster."""

    @property
    def index(self) -> int:
        """The entry's number in the plan."""

    def host(self, name: str) -> Host | str:
        """The host of a name or role, or the reason that there is none."""

    def take_down(self, name: str, how: Condition) -> Host | str:
        """Take a running host down. Return the host, or the reason of a refusal."""

    def parts(self, count: int) -> None:
        """Split the entry into so many parts, each done at a time of its own (``part_done``)."""

    def part_done(self) -> None:
        """Record that one part took effect."""

    def lasts(self, for_us: int, end: Callable[[], object]) -> None:
        """Call ``end`` after ``for_us`` (0 = when all is healed)."""

    def puts(self, what: str, put: Callable[[], object], back: Callable[[], object]) -> Callable[[], None]:
        """Change a shared setting with ``put``; return the function that ends the change, for ``lasts``.

        Entries of one kind may change the same setting (``what``) at a time. The last entry in force decides. After the
        end of all of them, ``back`` of the first one restores the setting.
        """

    def install(self, for_us: int, rule: Rule) -> None:
        """Install a rule of the network for this time; each packet that it affects counts as an effect of the entry."""

    def end(self) -> None:
        """End the entry if it still lasts."""

    def inject(self, command: AnswerNext) -> None:
        """Make every server answer a request with an error; each such answer counts as an effect."""

    def tell_store(self, command: object) -> Outcome:
        """Arm a fault of the store; it takes effect when the store reports it."""

    def chance(self) -> Stream:
        """The entry's own random stream."""

    def end_all(self) -> None:
        """End the lasting effects of every entry."""
