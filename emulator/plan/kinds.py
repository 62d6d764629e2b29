"""What the tables of actions have of each: a row."""

from attrs import frozen

ANYONE = ""


@frozen
class ActionKind:
    """One row of the tables: the class, what it does in a line, and what its host fields accept.

    ``hosts``: (field, "any" | "member" | "broker"); fields without a row are no hosts.
    ``workload``: done by operators and users, not by misfortune.
    ``replicated``: True = only where brokers replicate ([brokers.replication]), False = only where they do not.
    ``instead``: what to write where it cannot be done.
    """

    cls: type
    summary: str
    hosts: tuple[tuple[str, str], ...] = ()
    workload: bool = False
    replicated: bool | None = None
    instead: str = ""
