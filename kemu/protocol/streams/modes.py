"""Words that settings of a Streams application may be: how it rebalances, and what a thread's death means.

``stream.rebalancing.mode`` (KIP-429, page version 99): members of the mode "incremental" join as protocol type
"stream", those of the mode "upgrading" as "consumer", which is what applications of before were. A coordinator refuses
a member whose type is not that of its group: there is no way from one to the other while the group has members.

What a stream thread does when its consumer raises: the thread dies and the others go on (before 2.8), the instance
closes, or the thread is replaced by a new one (KIP-671, 2.8).
"""

INCREMENTAL, UPGRADING = "incremental", "upgrading"
REBALANCING_MODES = (INCREMENTAL, UPGRADING)
STREAM = "stream"
"""The protocol type of the page's applications; others are "consumer"."""
SHUTDOWN_CLIENT, REPLACE_THREAD, THREAD_DIES = "shutdown-client", "replace-thread", "thread-dies"
UNCAUGHT_EXCEPTION = (SHUTDOWN_CLIENT, REPLACE_THREAD, THREAD_DIES)
