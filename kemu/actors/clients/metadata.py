"""A client's metadata and its refresh: one implementation for consumers, producers and admin clients.

One Metadata request is in flight at a time. After a failure and its backoff the client asks the next broker. Without
topics of interest the client sends no requests.

Source: Kafka's ``Metadata`` and ``NetworkClient.DefaultMetadataUpdater``; ``AdminMetadataManager``.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from kemu.actors.client import Backoff, Client, backoff_ms
from kemu.actors.clients.brokers import BrokersToAsk
from kemu.actors.clients.known_cluster import NOTHING_KNOWN, LastSeen
from kemu.actors.clients.once import OncePerValue
from kemu.actors.machine import Chance, Machine, TimerKey
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import TOPIC_IDS_SINCE, Metadata, MetadataReply, NewLeader, TopicMetadata
from kemu.protocol.metadata_rules import METADATA_3_7, MetadataRules
from kemu.protocol.names import ActorName, TopicPartition

METADATA: TimerKey = ("metadata",)
"""The timer for outdated metadata, or for the next allowed request."""

NO_BROKERS = "the response names no brokers"
"""The failure of a response from a broker that starts and knows no brokers yet.

Source: ``NetworkClient.DefaultMetadataUpdater.handleSuccessfulResponse`` (2.4 to 4.3), ``AdminMetadataManager.update``.
"""

FATAL_TOPIC_ERRORS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


class MetadataWatcher(Protocol):
    """The receiver of metadata."""

    def metadata_refreshed(self, changed: bool) -> None:
        """Use a Metadata response; ``changed``: whether it differs from the response before."""
        ...

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """React to a topic that is not authorized, or whose name is invalid.

        The response is dropped, and the client sends no further request until its user asks for metadata.
        """
        ...


class MetadataRefresh:
    """The last Metadata response, and the request in flight.

    Args:
        machine: the machine that steps; ``METADATA`` is its timer.
        client: sends the requests.
        brokers: selects the broker to ask.
        watcher: receives the answers.
        retry: the wait between two requests without new information (``retry.backoff.ms``).
        max_age_us: the maximum age of a response (``metadata.max.age.ms``).
        version: the version of the Metadata requests.
        chance: the machine's random stream, for the jitter of ``retry``.
        rules: the leader epochs in responses that the release trusts.
        without_topics: whether to request brokers and the controller even without topics (an admin client).
    """

    def __init__(
        self,
        machine: Machine,
        client: Client,
        brokers: BrokersToAsk,
        watcher: MetadataWatcher,
        *,
        retry: Backoff,
        max_age_us: int,
        version: int,
        chance: Chance,
        rules: MetadataRules = METADATA_3_7,
        without_topics: bool = False,
    ) -> None:
        self.cluster = NOTHING_KNOWN
        self.controller: ActorName | None = None
        """The last known controller."""
        self.stale = False
        """Whether newer metadata is requested and has not arrived."""
        self.behind = False
        """Whether some topics of interest have not been requested yet."""
        self.answers = 0
        """The number of responses so far."""
        self.interest: tuple[str, ...] = ()
        self.rules = rules
        self._last_seen = LastSeen(rules)
        self._keeps: Callable[[str], bool] | None = None
        """The filter while all topics are requested: it selects further topics to keep. None: topics by name."""
        self._ids: tuple[str, ...] | None = None
        """The ids of topics of interest; None: topics by name."""
        self._for_now: tuple[str, ...] = ()
        """Further topics, for a question in progress. Source: ``Metadata.addTransientTopics``."""
        self._machine = machine
        self._client = client
        self._brokers = brokers
        self._watcher = watcher
        self._retry = retry
        self._max_age_us = max_age_us
        self._version = version
        self._chance = chance
        self._without_topics = without_topics
        self._asked_for: tuple[str, ...] | None = None
        """The topics of the request in flight; None without a request in flight."""
        self._asked_ids: tuple[str, ...] = ()
        """The topic ids in the request in flight."""
        self._asked_all = False
        """Whether the request in flight is about all topics."""
        self._failures = 0
        self._answered_us = 0
        """The time of the last answer; 0 if the last request failed."""
        self._not_before_us = 0
        self._timer_us = 0

    def want(self, topics: tuple[str, ...], *, anew: bool = False) -> None:
        """Replace the topics of interest, and request the new topics; ``anew``: all topics, even if all are known.

        A request in flight about all of them serves, as if it were sent now.
        Source: ``Metadata.requestUpdateForNewTopics`` (2.4 to 4.3), after any change of a subscription.
        """
        before, self.interest = self._topics, topics
        if anew:
            self._ask_at_once()
        else:
            self._ask_for_new(before)

    def want_for_now(self, topics: tuple[str, ...]) -> None:
        """Add these topics to the topics of interest, until the next call of this method."""
        before, self._for_now = self._topics, topics
        self._ask_for_new(before)

    def want_ids(self, ids: tuple[str, ...] | None) -> None:
        """Request these topics by id from the next refresh on. None: request topics by name again.

        Source: ``ConsumerMetadata.newMetadataRequestBuilder`` 4.1: names only during a question.
        """
        self._ids = ids

    def want_all(self, keeps: Callable[[str], bool] | None) -> None:
        """Request all topics from now on, and keep topics that pass this filter. None: request topics by name again.

        Source: ``ConsumerMetadata.newMetadataRequestBuilder``, ``retainTopic``.
        """
        self._keeps = keeps
        if keeps is not None:
            self._ask_at_once()

    @classmethod
    def of_consumer(
        cls,
        machine: Machine,
        client: Client,
        brokers: BrokersToAsk,
        watcher: MetadataWatcher,
        config: ConsumerConfig,
        *,
        version: int,
        chance: Chance,
        rules: MetadataRules,
    ) -> "MetadataRefresh":
        """The metadata of a consumer with this configuration."""
        return cls(
            machine,
            client,
            brokers,
            watcher,
            retry=backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms),
            max_age_us=config.metadata_max_age_ms * 1000,
            version=version,
            chance=chance,
            rules=rules,
        )

    @property
    def is_wanted(self) -> bool:
        """Whether the client has topics of interest, by name, by id or by a filter."""
        return bool(self.interest) or self._keeps is not None or self._ids is not None

    def refresh_if_allowed(self) -> None:
        """Request metadata, unless the last response's backoff has not passed.
        Source: ``Metadata.timeToAllowUpdate``.
        """
        if self._machine.now_us >= self._not_before_us:
            self.refresh()

    @property
    def _topics(self) -> tuple[str, ...]:
        if not self._for_now:
            return self.interest
        return (*self.interest, *(topic for topic in self._for_now if topic not in self.interest))

    def _is_retained(self, topic: str) -> bool:
        """Whether a topic of a response is kept. Source: ``Metadata.retainTopic``."""
        layout = self.cluster.topics.get(topic) if self._ids else None
        by_id = layout is not None and layout.topic_id in (self._ids or ())
        return by_id or topic in self._topics or (self._keeps is not None and self._keeps(topic))

    def _ask_for_new(self, before: tuple[str, ...]) -> None:
        if any(topic not in before for topic in self._topics):
            self._ask_at_once()

    def _ask_at_once(self) -> None:
        self.stale = self.behind = True
        self._not_before_us = 0
        self._ask()

    def current_leader(self, topic: str, partition: int) -> tuple[ActorName | None, int]:
        """(address of a partition's leader, highest leader epoch seen); the address is None if the leader
        is unknown.
        """
        return self._last_seen.current_leader(self.cluster, topic, partition)

    def saw_epoch(self, topic: str, partition: int, epoch: int) -> bool:
        """Record a leader epoch. If the metadata is older, refresh the metadata and return True: the leader is unknown
        until the refresh.
        """
        if not self._last_seen.saw(self.cluster, topic, partition, epoch):
            return False
        self.refresh()
        return True

    def learn_leaders(self, leaders: Sequence[NewLeader]) -> tuple[TopicPartition, ...]:
        """Learn the leaders that the errors of a response name; return the partitions that have a newer leader now."""
        self.cluster, moved = self._last_seen.moved(self.cluster, leaders)
        if moved:
            self._brokers.learned(tuple(self.cluster.brokers.values()))
        return moved

    def refresh(self) -> None:
        """Request metadata as soon as the backoff allows, because the known metadata was wrong."""
        self.stale = True
        self._ask()

    def refresh_often(self) -> None:
        """Request metadata after the first backoff, although the last answers brought no change.

        Source: ``Metadata.requestUpdate(true)``, which resets ``equivalentResponseCount`` (KIP-580, 3.7).
        """
        if self._answered_us and self._failures > 1:
            self._failures = 1
            self._not_before_us = self._answered_us + self._retry.after(1, self._chance)
        self.refresh()

    def refresh_later(self) -> None:
        """Request metadata after the backoff, which grows, because the response is incomplete."""
        self.stale = True
        self._failures += 1
        wait_us = self._retry.after(self._failures, self._chance)
        self._not_before_us = self._machine.now_us + wait_us
        self._ask_at(self._not_before_us)

    def timer_fired(self) -> None:
        """Request metadata (the timer METADATA fired)."""
        self._timer_us = 0
        self.refresh()

    def _ask(self) -> None:
        wanted = self._topics or self._ids or self._without_topics or self._keeps is not None
        if self._asked_for is not None or not wanted:
            return
        if self._machine.now_us < self._not_before_us:
            self._ask_at(self._not_before_us)
            return
        self._send()

    def ask_for_brokers(self) -> None:
        """Request the brokers before the application subscribes. Source: ``Metadata.bootstrap``, and the first round
        of ``ConsumerNetworkThread`` (4.0 to 4.3).
        """
        self._send()

    def _send(self) -> None:
        self._asked_for, self._asked_all = self._topics, self._keeps is not None
        self._asked_ids = () if self._for_now else self._ids or ()
        host = self._brokers.pick()
        asked = Metadata(topics=None if self._asked_all else self._asked_for, topic_ids=self._asked_ids)
        version = TOPIC_IDS_SINCE if self._asked_ids else self._version
        self._client.call(host, asked, version, self._answered, self._failed, host)

    def _ask_at(self, at_us: int) -> None:
        if at_us < self._timer_us or not self._timer_us:
            self._timer_us = at_us
            self._machine.start_timer(METADATA, at_us - self._machine.now_us)

    def _failed(self, why: str, host: ActorName) -> None:
        self._asked_for, self._answered_us = None, 0
        self._brokers.pass_over(host)
        self.refresh_later()

    def _answered(self, reply: MetadataReply, host: ActorName) -> None:
        if not reply.brokers:
            self._failed(NO_BROKERS, host)
            return
        asked_for, self._asked_for = self._asked_for, None
        self._answered_us = self._machine.now_us
        for topic in reply.topics:
            if topic.error in FATAL_TOPIC_ERRORS:
                self._watcher.fail_later(topic.error, f"Metadata of {topic.topic}")
                return
        if self._keeps is not None:
            wanted = dict.fromkeys(self._topics)
            kept = tuple(row for row in reply.topics if row.topic in wanted or self._keeps(row.topic))
            reply = MetadataReply(brokers=reply.brokers, controller_id=reply.controller_id, topics=kept)
        self.answers += 1
        version = self._client.version_for(host, Metadata, self._version)
        learned = self._last_seen.learned(self.cluster, reply, version, self._is_retained)
        self.controller = learned.brokers.get(reply.controller_id)
        changed = learned != self.cluster
        if changed:
            self.cluster = learned
            self._brokers.learned(tuple(learned.brokers.values()))
        topics = self._topics
        if self._keeps is not None or self._asked_all:
            self.behind = not self._asked_all
        else:
            lacks_ids = not self._for_now and not set(self._ids or ()).issubset(self._asked_ids)
            self.behind = lacks_ids or (asked_for != topics and not set(topics).issubset(asked_for or ()))
        self.stale = self.behind
        self._timer_us = 0
        self._ask_at(self._machine.now_us + self._max_age_us)
        if not self.behind and any(_left_open_once(topic) for topic in reply.topics):
            self.refresh_later()
        else:
            # KIP-580: the backoff grows while answers bring no change. Topics that the request in flight did not name
            # wait for the backoff, too (``Metadata.update``: lastRefreshMs).
            self._failures = 0 if changed or self.behind else self._failures + 1
            wait_us = self._retry.after(max(1, self._failures), self._chance)
            self._not_before_us = self._machine.now_us + wait_us
            if self.behind:
                self._ask()
        self._watcher.metadata_refreshed(changed)


def _left_open(topic: TopicMetadata) -> bool:
    """Whether the answer about a topic is incomplete, so that it must be requested again
    (``Metadata.updateLatestMetadata``).
    """
    if topic.error is not ErrorCode.NONE:
        return True
    return any(row.error is ErrorCode.LEADER_NOT_AVAILABLE for row in topic.partitions)


_left_open_once = OncePerValue(_left_open)
