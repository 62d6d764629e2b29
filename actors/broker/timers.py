"""The timers of a broker: the first element of each key. Those of its requests to others are the client's."""

from enum import StrEnum


class BrokerTimer(StrEnum):
    """What a broker waits for. The rest of the key, if any, says for which one."""

    FETCH = "fetch"
    """A consumer's fetch was held back for ``max_wait_ms``; its number."""
    FOLLOWER_FETCH = "follower-fetch"
    """The same of a follower's."""
    FETCHER = "fetcher"
    """A fetch loop of ours may go on; the leader it copies from."""
    PRODUCE = "produce"
    """A producer's batches took too long; the call's number."""
    DELETE_RECORDS = "delete-records"
    """Followers took too long to delete records, too; the call's number."""
    ISR = "isr"
    """Half of ``replica.lag.time.max.ms`` is over: look who fell behind."""
    ISR_NOTIFY = "isr-notify"
    """Tell the controller of the ISRs that changed."""
    ALTER_ISR = "alter-isr"
    """Ask the controller (again) for the ISRs that are to change."""
    CHECKPOINT = "checkpoint"
    """Write down the high watermarks."""
    RETENTION = "retention"
    """Look what in the logs is too old or too much."""
    FLUSH = "flush"
    """The flush scheduler looks which logs were not flushed for too long."""
    LEAVING = "leaving"
    """Ask again for a controlled shutdown."""
    CLOSING_LOGS = "closing-logs"
    """The logs are flushed and closed: the process leaves the metadata store, and ends."""
