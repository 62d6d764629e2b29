"""Numbers of incremental fetch sessions (KIP-227). Source: Kafka 3.9's ``FetchMetadata``."""

NO_FETCH_SESSION = 0
"""The session id of a fetch outside of a session."""
FULL_EPOCH = 0
"""The session epoch of a fetch that lists all of its partitions and asks for a new session."""
FINAL_EPOCH = -1
"""The session epoch of a fetch that lists all of its partitions and asks for no session."""
LARGEST_EPOCH = 2**31 - 1


def epoch_after(epoch: int) -> int:
    """The session epoch of the next incremental fetch."""
    return 1 if epoch == LARGEST_EPOCH else epoch + 1
