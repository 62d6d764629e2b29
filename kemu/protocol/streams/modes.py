"""Values of a Streams application's settings, and decisions of its release.

``stream.rebalancing.mode`` (KIP-429, page version 99): members of the mode "incremental" join with protocol type
"stream". Members of the mode "upgrading" join with "consumer", as older applications do. A coordinator refuses a member
with another type than its group's, so the mode cannot change while the group has members.

When the consumer of a stream thread raises an error, there are three reactions. The thread dies and the others continue
(before 2.8), the instance closes, or a new thread replaces the failed thread (KIP-671, 2.8).
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum

INCREMENTAL, UPGRADING = "incremental", "upgrading"
REBALANCING_MODES = (INCREMENTAL, UPGRADING)
STREAM = "stream"
"""The protocol type of applications of KIP-429's page; other applications have "consumer"."""
SHUTDOWN_CLIENT, REPLACE_THREAD, THREAD_DIES = "shutdown-client", "replace-thread", "thread-dies"
UNCAUGHT_EXCEPTION = (SHUTDOWN_CLIENT, REPLACE_THREAD, THREAD_DIES)
PICKS = ("lowest", "highest")
"""The tasks of the heaviest owner that may get a learner first (KIP-429's page)."""
SCALE_UP, SCALE_DOWN, EAGER, BALANCE = 1, 2, 3, 4
"""The stages of KIP-429's page; each stage includes all earlier stages."""
LEARNER = "learner"


class Layout(IntEnum):
    """The supported version numbers of metadata. ``streams.metadata`` has a table of their releases."""

    STICKY = 4
    LEARNER = 5
    HIGH_AVAILABILITY = 8


LAYOUTS: Mapping[str, Layout] = {LEARNER: Layout.LEARNER, "sticky": Layout.STICKY}
"""Task assignor -> metadata layout of the members; all other assignors need offset sums."""


class ThreadPlacement(StrEnum):
    """A release's rule for distributing an instance's tasks to its threads."""

    IN_TURN = "in turn"
    """2.3: active tasks are dealt to the threads in turn regardless of their owners, and so are standbys. In Kafka the
    threads are a hash set; here they are ordered by name, as in 2.4.
    """
    STICKY_OR_IN_TURN = "sticky or in turn"
    """2.4 and 2.5: active tasks stay with their owners if no thread exceeds its share and no task comes from another
    instance. Otherwise active tasks are dealt in turn, for this instance and all later instances. Standbys are dealt in
    turn.
    """
    COPIES_APART = "copies apart"
    """2.6 to 3.1: tasks with state remain where possible; tasks without state even out the loads, in turn. Copies are
    dealt without regard to other tasks (KAFKA-12959).
    """
    TOGETHER = "together"
    """3.2 and later: copies are part of the threads' loads, and tasks without state are dealt last, regardless of their
    owners.
    """
    KEEPING = "keeping"
    """KIP-429's learners, where the page is silent: the rule of 3.2, but tasks without state remain where possible."""
