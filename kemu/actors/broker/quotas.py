"""Throttling of replicas that are not in sync (KIP-73), on the leader and on the follower.

The rate (bytes a second) is a setting of one broker. The throttled replicas are a setting of each topic: a list
"partition:broker,...", or "*" for all replicas. The traffic of all throttled replicas is measured; only replicas that
are not in sync are delayed. The measured rate is the mean over the last ten seconds and the current second.

Source: Kafka 2.8 ``ReplicationQuotaManager``, ``ReplicaManager.shouldLeaderThrottle``,
``ReplicaFetcherThread.shouldFollowerThrottle``, ``SimpleRate``; 11 samples of one second.
"""

from collections import deque
from collections.abc import Mapping

from kemu.protocol.names import TopicPartition

SAMPLES = 11
SAMPLE_US = 1_000_000


class ReplicationQuota:
    """The quota of one direction. ``settings``: topic -> its settings, read at each use; ``key``: the setting with the
    list of replicas.
    """

    def __init__(self, node_id: int, key: str, settings: Mapping[str, Mapping[str, str]]) -> None:
        self._node_id = node_id
        self._key = key
        self._settings = settings
        self.rate: int | None = None
        """Bytes a second; None: no limit and no measurement."""
        self._samples: deque[list[int]] = deque()
        """[begin, bytes] of each second with traffic, oldest first."""
        self._lists: dict[str, tuple[str, frozenset[int] | None]] = {}
        """Topic -> the text of its list, and this broker's partitions in the list (None: all)."""

    def configure(self, rate: str | None) -> None:
        """Set the rate in bytes a second; None: no limit."""
        self.rate = int(rate) if rate is not None else None
        if self.rate is None:
            self._samples.clear()

    def concerns(self, at: TopicPartition) -> bool:
        """Whether this broker's replica of a partition is in the list of the partition's topic."""
        text = self._settings.get(at[0], {}).get(self._key, "")
        if not text:
            return False
        known = self._lists.get(at[0])
        if known is None or known[0] != text:
            known = self._lists[at[0]] = (text, self._listed(text))
        return known[1] is None or at[1] in known[1]

    def _listed(self, text: str) -> frozenset[int] | None:
        if text == "*":
            return None
        pairs = [pair.split(":") for pair in text.split(",")]
        return frozenset(int(partition) for partition, broker in pairs if int(broker) == self._node_id)

    def record(self, at: TopicPartition, count: int, now_us: int) -> None:
        """Add the transferred bytes of a partition to the measurement."""
        if self.rate is None or not self.concerns(at):
            return
        if not self._samples or now_us - self._samples[-1][0] >= SAMPLE_US:
            self._samples.append([now_us, 0])
        self._samples[-1][1] += count

    def holds_back(self, at: TopicPartition, now_us: int) -> bool:
        """Whether a replica of the partition must wait, if the replica is not in sync."""
        return self.rate is not None and self.concerns(at) and self._measured(now_us) > self.rate

    def _measured(self, now_us: int) -> int:
        samples = self._samples
        while samples and now_us - samples[0][0] >= SAMPLES * SAMPLE_US:
            samples.popleft()
        if not samples:
            return 0
        return sum(count for _, count in samples) * SAMPLE_US // max(now_us - samples[0][0], SAMPLE_US)
