"""What releases decide otherwise about replicas: how an ISR is changed, and how a partition is moved to other brokers.

Each is a value that a profile picks (``protocol.profiles``) and a scenario may set.
"""

from enum import StrEnum


class IsrPath(StrEnum):
    """How a leader changes the ISR of a partition."""

    STORE = "store"
    """The leader writes the state node itself, and tells the controller by a node in /isr_change_notification.

    Brokers with inter.broker.protocol.version 2.6 or lower. A leader that is cut off from the controller, and not from
    the store, goes on taking followers out and in.
    """
    CONTROLLER = "controller"
    """The leader asks the controller, which writes the state node (AlterIsr; AlterPartition since 3.2).

    KIP-497, inter.broker.protocol.version 2.7. While the controller does not answer, the ISR stays as it is.
    """
