"""The names and roles that a plan may use."""

from kemu.protocol.frozen import frozen
from kemu.protocol.names import STORE

ROLES = ("coordinator", "leader")
"""Roles in "ROLE of GROUP"."""

MOST_BROKERS = 1_000
"""A larger number of brokers is refused as a typing error, because its run would take too long."""

REPLICATED_ROLES = ("controller", "partition leader")
"""Further roles in a replicated cluster: "controller", and "partition leader of t-0"."""


@frozen(kw_only=True)
class Known:
    """The names of a scenario that its plan may use."""

    brokers: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    """Hosts of real clients."""
    groups: tuple[str, ...] = ()
    topics: tuple[tuple[str, int], ...] = ()
    """Topics as (name, number of partitions)."""
    internal: tuple[tuple[str, int], ...] = ()
    """Internal topics that a plan may reassign, as (name, number of partitions)."""
    replicated: bool = False
    """Whether the cluster has a metadata store and an elected controller."""
    declared: tuple[str, ...] = ()
    """Topics that exist at the start."""
    created: tuple[str, ...] = ()
    """Topics that the plan creates, one entry per creation."""
    subscribed: tuple[str, ...] = ()
    """Topics to which groups subscribe."""
    streams: tuple[str, ...] = ()
    """Groups whose members are Streams instances."""
    in_groups: tuple[tuple[str, str], ...] = ()
    """Members as (member, group)."""
    classic_members: tuple[str, ...] = ()
    """Members that start with ``group.protocol`` classic."""
    log_dirs: tuple[tuple[str, int], ...] = ()
    """Brokers as (broker, number of log directories)."""
    deleted: tuple[str, ...] = ()
    """Topics that the plan deletes."""

    def partitions_of(self, topic: str) -> int:
        """The number of partitions of a topic after this plan; 0 for an unknown topic."""
        return dict((*self.topics, *self.internal)).get(topic, 0)

    def members_of(self, group: str) -> tuple[str, ...]:
        """The hosts of a group's members."""
        return tuple(host for host, of in self.in_groups if of == group)

    def hosts(self, kind: str = "any") -> tuple[str, ...]:
        """The hosts of a kind: "any", "member" or "broker"."""
        by_role = ("controller",) if self.replicated else ()
        return {"broker": (*self.brokers, *by_role), "member": self.members}.get(
            kind,
            (*self.brokers, *self.members, *self.producers, *self.clients, *((*by_role, STORE) if by_role else ())),
        )


def role_of(host: str) -> tuple[str, str] | None:
    """(role, group) of a role: ("leader", "g") for "leader of g"; None for a host's name."""
    role, of, group = host.partition(" of ")
    return (role, group) if of and role in (*ROLES, *REPLICATED_ROLES) and group else None
