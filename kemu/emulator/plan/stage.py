"""What an action acts on: a cluster as its operators see it, and one entry of a plan that is being carried out."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from kemu.emulator.chance import Stream
from kemu.emulator.engine.hosts import Condition, Host
from kemu.emulator.engine.network import Rule
from kemu.emulator.engine.world import World
from kemu.protocol.commands import AnswerNext

Outcome: TypeAlias = str | None
"""None: it took effect. A text: why not."""


class Operators(Protocol):
    """What operators can do to a cluster. An ``Outcome`` tells why something cannot be had."""

    @property
    def replicated(self) -> "ReplicatedOperators":
        """What else they can do where brokers replicate; actions declared so (``replicated=True``) alone ask for it.

        A plan that has one for other brokers is refused when it is read.
        """
        ...

    @property
    def deployments(self) -> "Deployer":
        """Rolling restarts and upgrades, and groups that grow or shrink."""
        ...

    def resolve(self, name: str) -> str:
        """The host a name or a role ("leader of g") means now; "" if there is none."""

    def start(self, name: str, *, keep_disk: bool = True) -> bool:
        """Start a host that does not run, from its disk or from an empty one; False if it runs or is starting."""

    def down_us(self, name: str, said_us: int) -> int:
        """How long a host that was just taken down is down when the plan says so long."""

    def close(self, name: str) -> bool:
        """End a host cleanly; False if it does not run."""

    def not_started_after_all(self, name: str) -> bool:
        """A process that is starting and has done nothing yet ends; False if there is none."""

    def coordinator_of(self, group: str) -> str:
        """The host that coordinates a group; "" when nobody does at the moment."""

    def move_coordinator(self, group: str, to: str) -> Outcome:
        """Make another broker ("" = the next live one) the leader of a group's offsets partition.

        Where brokers replicate, elections alone do: no plan asks for this there.
        """

    def expect_takeover(self, group: str) -> None:
        """This group's coordinator was killed on purpose: when that is noticed, another broker is to follow it."""

    def set_rate(self, topic: str, records_per_s: int) -> Outcome:
        """Change a producer's rate."""

    def grow_topic(self, topic: str, partitions: int) -> Outcome:
        """Give a topic this many partitions."""

    def ask_admin(self, command: object) -> Outcome:
        """Tell the admin client; what comes of it is a note."""

    def tell_servers(self, command: object) -> None:
        """Tell every broker and coordinator."""

    def revive(self) -> None:
        """Start what must run for the cluster to be whole, such as every broker."""

    def keep_away(self, names: Sequence[str]) -> None:
        """From now on these hosts are not started any more, whoever asks."""


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
    """What operators can do to a cluster that has a controller, a metadata store, replicas and log directories."""

    def add_brokers(self, count: int) -> Outcome:
        """Start brokers that were not there before, on empty disks."""

    def tell_store(self, command: object) -> Outcome:
        """Tell the metadata store something."""

    def fail_log_dir(self, name: str, log_dir: int) -> Outcome:
        """A log directory of a broker cannot be written or read any more; a broker that has no other dies."""
        ...

    def repair_log_dir(self, name: str, log_dir: int) -> None:
        """It can again, with what lies there; the broker is started again, which it takes to see that."""
        ...

    def store_election_us(self, said_us: int) -> int:
        """How long the metadata store elects a leader when the plan says so long; 0: it does not say."""
        ...

    def create_topic(self, topic: str, partitions: int, replication_factor: int, records_per_s: int) -> Outcome:
        """Have a topic created (factor 0: as the brokers have it), and appended to once it is there."""

    def delete_topic(self, topic: str) -> Outcome:
        """Ask for a topic to be deleted."""

    @property
    def reassigns_by_store(self) -> bool:
        """Whether the brokers' release knows reassignments by a list in the store only."""
        ...

    def reassign_in_store(
        self, topic: str, targets: tuple[tuple[int, tuple[int, ...]], ...], brokers: tuple[int, ...]
    ) -> Outcome:
        """Leave the controller a list of partitions in the store: (partition, replicas), or all to these brokers."""
        ...

    def elect_preferred_leaders(self, topics: tuple[str, ...], *, in_store: bool) -> Outcome:
        """Ask for preferred leaders of these topics (none = of all): the controller, or by a list in the store."""


class Stage(Protocol):
    """One entry of a plan while it is carried out: the cluster and the world, and how what it begins is ended."""

    @property
    def world(self) -> World:
        """Hosts, network, time."""

    @property
    def cluster(self) -> Operators:
        """What operators can do."""

    @property
    def index(self) -> int:
        """Which entry of the plan it is."""

    def host(self, name: str) -> Host | str:
        """The host of a name or role, or why there is none."""

    def take_down(self, name: str, how: Condition) -> Host | str:
        """Take a running host down: it, or why not."""

    def parts(self, count: int) -> None:
        """It has so many parts, each done at a time of its own (``part_done``)."""

    def part_done(self) -> None:
        """One of its parts took effect."""

    def lasts(self, for_us: int, end: Callable[[], object]) -> None:
        """It ends after ``for_us`` (0 = when all is healed), by doing this."""

    def puts(self, what: str, put: Callable[[], object], back: Callable[[], object]) -> Callable[[], None]:
        """Change a setting of which there is one, with ``put``: what ends that, for ``lasts``.

        Entries of one kind may change the same (``what``) at a time: the last of those that still last decides, and
        when none does any more, the ``back`` of the first. Whoever ends first takes nothing from the others.
        """

    def install(self, for_us: int, rule: Rule) -> None:
        """A rule of the network that lasts so long; what it judges counts as the entry's effect."""

    def end(self) -> None:
        """It is over, if it still lasts."""

    def inject(self, command: AnswerNext) -> None:
        """Tell every server to answer a request with an error; the answer counts, not the telling."""

    def tell_store(self, command: object) -> Outcome:
        """Arm a fault of the store; what counts is that the store says it hit."""

    def chance(self) -> Stream:
        """This entry's own stream."""

    def end_all(self) -> None:
        """End everything that lasts, of every entry."""
