"""Values of a Streams application's settings: rebalancing mode, reaction to a thread's failure, stage of learners.

``stream.rebalancing.mode`` (KIP-429, page version 99): members of the mode "incremental" join with protocol type
"stream". Members of the mode "upgrading" join with "consumer", as older applications do. A coordinator refuses a member
with another type than its group's, so the mode cannot change while the group has members.

When the consumer of a stream thread raises an error, there are three reactions. The thread dies and the others continue
(before 2.8), the instance closes, or a new thread replaces the failed thread (KIP-671, 2.8).
"""

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
