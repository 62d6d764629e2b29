"""The interfaces that actions use: the operators of a cluster, and the plan's entry in progress."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from kemu.emulator.chance import Stream
from kemu.emulator.engine.hosts import Condition, Host
from kemu.emulator.engine.network import Rule
from kemu.emulator.engine.world import World
from kemu.protocol.commands import AlterConfigs, AnswerNext

Outcome: TypeAlias = str | None
"""The result of an action: None for an effect, or the reason for no effect."""


class Operators(Protocol):
    """The operations of a cluster. An ``Outcome`` is None, or the reason of a refusal."""

    @property
    def replicated(self) -> "ReplicatedOperators":
        """The operations of a replicated cluster. Only actions with ``replicated=True`` use these operations; the
        reader refuses such actions in other clusters.
        """
        ...

    @property
    def deployments(self) -> "Deployer":
        """Rolling restarts and upgrades, and groups that grow or shrink."""
        ...

    def resolve(self, name: str) -> str:
        """The host that has this name, or this role ("leader of g") now; "" without such a host."""

    def start(self, name: str, *, keep_disk: bool = True) -> bool:
        """Start a host from its disk or from an empty disk; return False if the host runs or is starting."""

    def down_us(self, name: str, said_us: int) -> int:
        """The downtime in us of a host that was taken down; ``said_us`` is the downtime in the plan."""

    def close(self, name: str) -> bool:
        """Close a host cleanly; return False if the host does not run."""

    def not_started_after_all(self, name: str) -> bool:
        """End a process that is starting and has done nothing yet; return False without such a process."""

    def coordinator_of(self, group: str) -> str:
        """The host of the group's coordinator; "" without a coordinator."""

    def move_coordinator(self, group: str, to: str) -> Outcome:
        """Make the broker ``to`` ("" for the next live broker) the leader of a group's offsets partition.

        With replication only elections move leaders, and a plan with this action is refused.
        """

    def expect_takeover(self, group: str) -> None:
        """Let another broker become this group's coordinator after the detection of the coordinator's failure."""

    def set_rate(self, topic: str, records_per_s: int) -> Outcome:
        """Change the rate of a topic's producer."""

    def grow_topic(self, topic: str, partitions: int) -> Outcome:
        """Increase a topic's number of partitions to ``partitions``."""

    def alter_configs(self, change: AlterConfigs) -> Outcome:
        """Change a setting. Without replication, only groups have settings that change."""

    def ask_admin(self, command: object) -> Outcome:
        """Send a command to the admin client. The result of the command is a note."""

    def tell_servers(self, command: object) -> None:
        """Send a command to every broker and coordinator."""

    def revive(self) -> None:
        """Start every process of a complete cluster, such as every broker."""

    def keep_away(self, names: Sequence[str]) -> None:
        """Never start these hosts again."""


class Deployer(Protocol):
    """Deployments of a cluster: restarts, upgrades and scaling."""

    def rolling_restart(self, group: str, every_us: int, down_us: int, how: str, done: Callable[[], None]) -> int:
        """Restart the members of a group in sequence, one every ``every_us``.

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

        Without ``hosts`` the whole group is upgraded, including members that are added later.
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
        """Restart brokers with a new release or inter-broker protocol. Return the number of brokers, or the reason of a
        refusal.
        """
        ...

    def add_members(self, group: str, count: int) -> None:
        """Add members with the configuration of the group, and start them."""

    def remove_members(self, group: str, count: int) -> int:
        """Close the running members that were added last; return the number of closed members."""

    def scale_down(self, group: str, percent: int, hosts: tuple[str, ...]) -> Outcome:
        """Ask Streams instances to leave: ``hosts``, or so many instances that ``percent`` of the running instances
        stay.
        """

    def keep_instance(self, host: str) -> Outcome:
        """Cancel the request to leave of a Streams instance."""


class ReplicatedOperators(Protocol):
    """The operations of a cluster with a controller, a metadata store, replicas and log directories."""

    def add_brokers(self, count: int) -> Outcome:
        """Start new brokers on empty disks."""

    def tell_store(self, command: object) -> Outcome:
        """Send a command to the metadata store."""

    def fail_log_dir(self, name: str, log_dir: int) -> Outcome:
        """Make a log directory of a broker fail. A broker without another log directory ends."""
        ...

    def repair_log_dir(self, name: str, log_dir: int) -> None:
        """Repair a log directory with its data, and restart the broker, because only a start detects the repair."""
        ...

    def store_election_us(self, said_us: int) -> int:
        """Duration in us of a leader election of the metadata store; ``said_us`` is the duration in the plan, or 0."""
        ...

    def create_topic(self, topic: str, partitions: int, replication_factor: int, records_per_s: int) -> Outcome:
        """Request a new topic (factor 0 for the brokers' default), and start the producer when the topic exists."""

    def delete_topic(self, topic: str) -> Outcome:
        """Request the deletion of a topic."""

    @property
    def reassigns_by_store(self) -> bool:
        """Whether the brokers' release supports reassignments only by a list in the store."""
        ...

    def reassign_in_store(
        self, topic: str, targets: tuple[tuple[int, tuple[int, ...]], ...], brokers: tuple[int, ...]
    ) -> Outcome:
        """Write reassignments into the store: ``targets`` as (partition, replicas), or all to ``brokers``."""
        ...

    def elect_preferred_leaders(self, topics: tuple[str, ...], *, in_store: bool) -> Outcome:
        """Request preferred leaders for ``topics`` (() for all), from the controller or by a list in the store."""


class Stage(Protocol):
    """An entry of a plan in progress: access to the cluster and the world, and the ends of its effects."""

    @property
    def world(self) -> World:
        """The hosts, the network and the clock."""

    @property
    def cluster(self) -> Operators:
        """The operations of the cluster."""

    @property
    def index(self) -> int:
        """The index of the entry in the plan."""

    def host(self, name: str) -> Host | str:
        """The host with this name or role, or the reason of a refusal."""

    def take_down(self, name: str, how: Condition) -> Host | str:
        """End a running host. Return the host, or the reason of a refusal."""

    def parts(self, count: int) -> None:
        """Set the number of the entry's parts. Each part ends at a time of its own (``part_done``)."""

    def part_done(self) -> None:
        """Record that one part took effect."""

    def lasts(self, for_us: int, end: Callable[[], object]) -> None:
        """Call ``end`` after ``for_us`` (0 for the end of all faults)."""

    def puts(self, what: str, put: Callable[[], object], back: Callable[[], object]) -> Callable[[], None]:
        """Change a shared setting with ``put``; return the function that ends the change, for ``lasts``.

        Entries of one kind may change the same setting (``what``) at the same time. The last active entry decides.
        After the end of all these entries, ``back`` of the first entry restores the setting.
        """

    def install(self, for_us: int, rule: Rule) -> None:
        """Install a rule of the network for ``for_us``. Each packet that the rule affects is an effect of the entry."""

    def end(self) -> None:
        """End the fault of the entry, if the fault still lasts."""

    def inject(self, command: AnswerNext) -> None:
        """Make every server answer a request with an error. Each injected error is an effect of the entry."""

    def tell_store(self, command: object) -> Outcome:
        """Arm a fault of the store. The fault takes effect when the store reports the fault."""

    def chance(self) -> Stream:
        """The entry's own random stream."""

    def end_all(self) -> None:
        """End the lasting effects of every entry."""
