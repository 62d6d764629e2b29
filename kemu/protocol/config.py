"""Configuration by Kafka's own keys, each with its default and the source of the default.

A field ``session_timeout_ms`` is Kafka's ``session.timeout.ms``. Keys without a Kafka counterpart describe the
application or the emulated machine and start with ``emulated.``.
"""

from typing import Any

import attrs

from kemu.protocol.frozen import FrozenField, frozen

AT_LEAST_ONCE = "at_least_once"
EXACTLY_ONCE = "exactly_once"
"""The first value of Streams' ``processing.guarantee`` for exactly once. KIP-447 added ``exactly_once_beta`` and
``exactly_once_v2``.
"""
GROUP_PROTOCOLS = ("classic", "consumer")
"""The values of ``group.protocol``."""
SERVER_ASSIGNORS = ("uniform", "range")
"""The assignors of a coordinator for groups of the consumer protocol. Source: ``group.consumer.assignors``."""
CLOSE_MEMBERSHIPS = CLOSE_DEFAULT, CLOSE_LEAVES, CLOSE_REMAINS = ("default", "leave", "remain")
"""The membership operations of ``close(CloseOptions)`` (KIP-1092): DEFAULT, LEAVE_GROUP and REMAIN_IN_GROUP."""
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
"""The values of ``group.consumer.migration.policy``."""
NEVER = (1 << 63) - 1
"""Kafka's ``Long.MaxValue``, the limit that is never reached."""
_SOURCE = "kemu.source"
_KEY = "kemu.key"


def key(default: Any, source: str, name: str | None = None) -> Any:
    """A config field; ``name``: the Kafka key, if it is not the field's name with dots."""
    return attrs.field(default=default, metadata={_SOURCE: source, _KEY: name})


def key_of(field: FrozenField) -> str:
    """The Kafka key of a config field."""
    return field.metadata.get(_KEY) or field.name.replace("_", ".")


def source_of(field: FrozenField) -> str:
    """The source of the default of a config field."""
    return str(field.metadata.get(_SOURCE, ""))


@frozen(kw_only=True)
class ConsumerConfig:
    """The configuration of one member of a group."""

    group_id: str = key("g", "required by Kafka; no default there")
    client_id: str = key("", "Kafka: empty; here the actor's name")
    group_instance_id: str | None = key(None, "KIP-345: unset = dynamic member")
    client_rack: str = key("", "KIP-392")
    group_protocol: str = key("classic", "KIP-848, Kafka 3.7; classic, or consumer (Kafka 4.0)")
    group_remote_assignor: str = key("", "KIP-848, Kafka 3.7: empty = the broker's choice; uniform or range")
    session_timeout_ms: int = key(45_000, "KIP-735, Kafka 3.0")
    heartbeat_interval_ms: int = key(3_000, "Kafka 3.9")
    max_poll_interval_ms: int = key(300_000, "KIP-62; sent as the rebalance timeout")
    max_poll_records: int = key(500, "Kafka 3.9")
    request_timeout_ms: int = key(30_000, "Kafka 3.9")
    retry_backoff_ms: int = key(100, "Kafka 3.9")
    retry_backoff_max_ms: int = key(1_000, "KIP-580, Kafka 3.7; 0: every wait is retry.backoff.ms, as before")
    reconnect_backoff_ms: int = key(50, "Kafka 3.9")
    reconnect_backoff_max_ms: int = key(1_000, "Kafka 3.9")
    metadata_max_age_ms: int = key(300_000, "Kafka 3.9")
    exclude_internal_topics: bool = key(True, "Kafka 3.9: patterns do not match __consumer_offsets")
    fetch_min_bytes: int = key(1, "Kafka 3.9")
    fetch_max_wait_ms: int = key(500, "Kafka 3.9")
    fetch_max_bytes: int = key(52_428_800, "Kafka 3.9")
    max_partition_fetch_bytes: int = key(1_048_576, "Kafka 3.9")
    enable_auto_commit: bool = key(True, "Kafka 3.9")
    auto_commit_interval_ms: int = key(5_000, "Kafka 3.9")
    auto_offset_reset: str = key("latest", "Kafka 3.9: latest, earliest or none")
    partition_assignment_strategy: tuple[str, ...] = key(
        ("range", "cooperative-sticky"), "ConsumerConfig, Kafka 3.0 (KAFKA-13023); only range before"
    )
    default_api_timeout_ms: int = key(60_000, "Kafka 3.9")
    internal_leave_group_on_close: bool = key(True, "Kafka 3.9: internal; Streams sets it to false")
    rebalance_protocol: str = key("eager", "KIP-429 page v99: eager or cooperative; in no release of Kafka")
    enable_parallel_rebalance: bool = key(
        False, "KIP-333 page: a second consumer processes the missed records; not shipped"
    )
    emulated_parallel_rebalance_calls: str = key(
        "log", "emulated, KIP-333 page: poll and beginningOffsets by the log, or literally by the page"
    )
    emulated_process_us_per_record: int = key(200, "emulated: time of the application for a record")
    emulated_poll_timeout_ms: int = key(100, "emulated: poll(Duration) of the application's loop")
    emulated_commit_after_poll: bool = key(False, "emulated: the application calls commitSync() after each batch")
    emulated_on_revoked_ms: int = key(0, "emulated: duration of onPartitionsRevoked")
    emulated_on_lost_ms: int = key(0, "emulated: duration of onPartitionsLost")
    emulated_on_assigned_ms: int = key(0, "emulated: duration of onPartitionsAssigned")
    emulated_close_timeout_ms: int = key(
        30_000, "emulated, KIP-266: the timeout of close(); request.timeout.ms, if less; 0: close() awaits no answer"
    )
    emulated_close_membership: str = key(
        CLOSE_DEFAULT, "emulated, KIP-1092, Kafka 4.1: close() with default, leave (also static members) or remain"
    )
    emulated_bytecode: str = key("new", "emulated, KIP-429 page: old = a consumer that does not know the KIP")
    emulated_mixed_policy: str = key("page", "emulated, KIP-429 page: page or safe_fill, for V0 and V1 members")
    emulated_incompatible_rejoin: str = key("once", "emulated, KIP-429 page: once or at-once, for V0 and V1 members")

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the member uses the consumer protocol of KIP-848."""
        return self.group_protocol == GROUP_PROTOCOLS[1]


@frozen(kw_only=True)
class BrokerConfig:
    """The configuration of one broker and its group coordinator."""

    group_min_session_timeout_ms: int = key(6_000, "Kafka 3.9")
    group_max_session_timeout_ms: int = key(1_800_000, "Kafka 3.9")
    group_initial_rebalance_delay_ms: int = key(3_000, "KIP-134")
    group_max_size: int = key(2_147_483_647, "KIP-389")
    group_consumer_session_timeout_ms: int = key(45_000, "KIP-848, Kafka 4.0")
    group_consumer_min_session_timeout_ms: int = key(45_000, "KIP-848, Kafka 4.0")
    group_consumer_max_session_timeout_ms: int = key(60_000, "KIP-848, Kafka 4.0")
    group_consumer_heartbeat_interval_ms: int = key(5_000, "KIP-848, Kafka 4.0")
    group_consumer_min_heartbeat_interval_ms: int = key(5_000, "KIP-848, Kafka 4.0")
    group_consumer_max_heartbeat_interval_ms: int = key(15_000, "KIP-848, Kafka 4.0")
    group_consumer_assignment_interval_ms: int = key(1_000, "KIP-1263, Kafka 4.3; earlier releases: no interval")
    group_consumer_min_assignment_interval_ms: int = key(0, "KIP-1263, Kafka 4.3")
    group_consumer_max_assignment_interval_ms: int = key(15_000, "KIP-1263, Kafka 4.3")
    group_consumer_max_size: int = key(2_147_483_647, "KIP-848, Kafka 4.0")
    group_consumer_regex_refresh_interval_ms: int = key(
        600_000, "KIP-848, internal, Kafka 4.1: age at which matches of SubscriptionPattern are stale; at least 10000"
    )
    group_consumer_assignors: tuple[str, ...] = key(SERVER_ASSIGNORS, "KIP-848, Kafka 4.0; the first: the default")
    group_consumer_migration_policy: str = key(
        MIGRATION_POLICIES[0],
        "KIP-848, Kafka 4.0; conversions of groups with members: bidirectional, upgrade, downgrade or disabled",
    )
    group_coordinator_append_linger_ms: int = key(
        5, "Kafka 4.0; -1 (adaptive) since 4.2; only the Java coordinator gathers writes; 0, -1 = never"
    )
    offsets_retention_minutes: int = key(10_080, "KIP-186")
    offsets_retention_check_interval_ms: int = key(600_000, "Kafka 3.9")
    offset_metadata_max_bytes: int = key(4_096, "Kafka 3.9")
    offsets_topic_num_partitions: int = key(50, "Kafka 3.9")
    offsets_topic_segment_bytes: int = key(
        104_857_600, "Kafka 3.9; when a segment closes, the log cleaner may remove superseded group records"
    )
    message_max_bytes: int = key(1_048_588, "KAFKA-4203, Kafka 2.5; 1,000,012 before; also for group records")
    socket_request_max_bytes: int = key(104_857_600, "Kafka 3.9")
    max_incremental_fetch_session_cache_slots: int = key(1_000, "KIP-227, Kafka 1.1")
    log_retention_ms: int = key(604_800_000, "Kafka 3.9 (log.retention.hours 168); topic settings override this key")
    log_retention_bytes: int = key(-1, "Kafka 3.9; per partition; topic settings override this key")
    log_segment_bytes: int = key(1_073_741_824, "Kafka 3.9; topic settings override this key")
    log_roll_ms: int = key(604_800_000, "Kafka 3.9 (log.roll.hours 168); topic settings override this key")
    log_retention_check_interval_ms: int = key(300_000, "Kafka 3.9")
    log_flush_interval_messages: int = key(NEVER, "Kafka 2.8; 1 = fsync at each append")
    log_flush_interval_ms: int | None = key(None, "Kafka 2.8: unset = log.flush.scheduler.interval.ms")
    log_flush_scheduler_interval_ms: int = key(NEVER, "Kafka 2.8: interval of the flush check; first check at 30 s")
    emulated_append_us: int = key(500, "emulated: duration of a flushed append")
    emulated_dirty_expire_ms: int = key(30_000, "Linux vm.dirty_expire_centisecs: age of pages to write back")
    emulated_dirty_writeback_ms: int = key(5_000, "Linux vm.dirty_writeback_centisecs: interval of the write-back")
    emulated_first_flush_check_ms: int = key(30_000, "Kafka: fixed delay before the first flush check")
    emulated_load_us: int = key(50_000, "emulated: time of a coordinator to load a partition of its log")
    emulated_new_member_timeout_ms: int = key(300_000, "Kafka: a new member's join may take 5 minutes (fixed)")
    coordinator_kind: str = key(
        "java", "past bugs of: java (4.0), java-4.1 to -4.3, scala (3.2 on), scala-2.8, -2.6, -2.4"
    )


@frozen(kw_only=True)
class ProducerConfig:
    """The configuration of a producer of a topic: its rate and its delivery guarantees."""

    acks: int = key(-1, "Kafka 3.0: all")
    request_timeout_ms: int = key(30_000, "Kafka 3.9")
    delivery_timeout_ms: int = key(120_000, "Kafka 3.9")
    linger_ms: int = key(0, "Kafka 3.9")
    retry_backoff_ms: int = key(100, "Kafka 3.9")
    retry_backoff_max_ms: int = key(1_000, "KIP-580, Kafka 3.7; 0: every wait is retry.backoff.ms, as before")
    reconnect_backoff_ms: int = key(50, "Kafka 3.9")
    reconnect_backoff_max_ms: int = key(1_000, "Kafka 3.9")
    enable_idempotence: bool = key(True, "KIP-679, Kafka 3.0")
    metadata_max_age_ms: int = key(300_000, "Kafka 3.9")
    emulated_records_per_s: int = key(100, "emulated: records per second, over all partitions")
    emulated_batch_interval_ms: int = key(100, "emulated: interval between batches")
    emulated_numbered_keys: bool = key(
        False, "emulated: keys 0, 1, 2 and so on; Kafka's partitioner hashes them. Without, partitions in turn"
    )


@frozen(kw_only=True)
class StreamsConfig:
    """The configuration of one Kafka Streams instance. ``ConsumerConfig`` has the settings of its threads' consumers.

    Keys of KIP-429's page that never shipped keep the page's names.
    """

    num_stream_threads: int = key(1, "Kafka 2.3")
    num_standby_replicas: int = key(0, "Kafka 2.3")
    max_warmup_replicas: int = key(2, "KIP-441, Kafka 2.6")
    acceptable_recovery_lag: int = key(10_000, "KIP-441, Kafka 2.6; records")
    probing_rebalance_interval_ms: int = key(600_000, "KIP-441, Kafka 2.6")
    commit_interval_ms: int = key(30_000, "Kafka 2.3, at least once; exactly once: 100")
    processing_guarantee: str = key(
        AT_LEAST_ONCE, "Kafka 2.3: at_least_once or exactly_once; exactly_once_beta (2.6), exactly_once_v2 (3.0)"
    )
    application_server: str = key("", "Kafka 2.3: host:port for queries, {host} = the host's name; sent to all members")
    stream_rebalancing_mode: str = key(
        "incremental", 'KIP-429 page: protocol type "stream"; upgrading: "consumer"; read by the learner assignor only'
    )
    scale_down_timeout_ms: int = key(-1, "KIP-429 page: infinite (-1); 0 = at once")
    learner_partial_rebalance: bool = key(True, "KIP-429 page: rejoin for each ready task, not for all")
    stream_imbalance_percentage: str = key("0.2", "KIP-429 page: a fraction, stage 4; empty = as even as possible")
    emulated_task_assignor: str = key("learner", "emulated: learner, sticky, ha, prior, module:Class; by profile")
    emulated_assignor_stage: int = key(4, "emulated: the stage of KIP-429's page, 1 to 4")
    emulated_learner_pick: str = key("lowest", "emulated: lowest or highest, the task that moves first")
    emulated_learner_ready_lag: int = key(0, "emulated: lag in records at which a learner is ready")
    emulated_prefer_caught_up: bool = key(False, "emulated: assign a task without owner to its most caught-up copy")
    emulated_uncaught_exception: str = key(
        "shutdown-client", "KIP-671, Kafka 2.8: shutdown-client or replace-thread; before, thread-dies"
    )
    emulated_weight: int = key(0, "emulated: capacity of an instance; 0 = its number of threads")
    emulated_restore_us_per_record: int = key(20, "emulated: time to apply a changelog record")
    emulated_changelog_per_record: int = key(1, "emulated: changelog records written per processed record")

    @property
    def exactly_once(self) -> bool:
        """Whether state is discarded after an unclean close."""
        return self.processing_guarantee != AT_LEAST_ONCE

    @property
    def producer_per_task(self) -> bool:
        """Whether each task, not each thread, has its own transactional producer (exactly once before KIP-447)."""
        return self.processing_guarantee == EXACTLY_ONCE


@frozen(kw_only=True)
class ControllerConfig:
    """The configuration of a broker's controller part: its session in the metadata store, and its work as
    controller.
    """

    zookeeper_session_timeout_ms: int = key(18_000, "KIP-537, Kafka 2.5; 6,000 before")
    zookeeper_max_in_flight_requests: int = key(10, "Kafka 2.8")
    unclean_leader_election_enable: bool = key(False, "KIP-106, Kafka 0.11; topic settings override this key")
    auto_leader_rebalance_enable: bool = key(True, "Kafka 2.8")
    leader_imbalance_check_interval_seconds: int = key(300, "Kafka 2.8")
    leader_imbalance_per_broker_percentage: int = key(10, "Kafka 2.8")
    controller_socket_timeout_ms: int = key(30_000, "Kafka 2.8")
    controlled_shutdown_max_retries: int = key(3, "Kafka 2.8")
    controlled_shutdown_retry_backoff_ms: int = key(5_000, "Kafka 2.8")
    default_replication_factor: int = key(1, "Kafka 2.8")
    num_partitions: int = key(1, "Kafka 2.8")
    delete_topic_enable: bool = key(True, "Kafka 1.0")
    reassignment_max_concurrent_replica_movements: int = key(2_147_483_647, "KIP-435; cluster-wide, dynamic")
    reassignment_max_concurrent_partition_movements: int = key(2_147_483_647, "KIP-435; cluster-wide, dynamic")
    reassignment_max_concurrent_leader_movements: int = key(2_147_483_647, "KIP-435; cluster-wide, dynamic")
    emulated_send_backoff_ms: int = key(100, "Kafka: fixed back-off of the controller's request threads")
    emulated_first_rebalance_ms: int = key(5_000, "Kafka: fixed delay before the first preferred-leader check")


@frozen(kw_only=True)
class ReplicaConfig:
    """The configuration of replication on one broker; the defaults are Kafka 2.8's."""

    replica_lag_time_max_ms: int = key(30_000, "KIP-537, Kafka 2.5; 10,000 before")
    replica_fetch_wait_max_ms: int = key(500, "Kafka 2.8")
    replica_fetch_min_bytes: int = key(1, "Kafka 2.8")
    replica_fetch_max_bytes: int = key(1_048_576, "Kafka 2.8; per partition")
    replica_fetch_response_max_bytes: int = key(10_485_760, "Kafka 2.8")
    replica_fetch_backoff_ms: int = key(1_000, "Kafka 2.8")
    replica_socket_timeout_ms: int = key(30_000, "Kafka 2.8")
    replica_high_watermark_checkpoint_interval_ms: int = key(5_000, "Kafka 2.8")
    min_insync_replicas: int = key(1, "Kafka 2.8; topic settings override this key")
    offsets_commit_timeout_ms: int = key(5_000, "Kafka 2.8")
    offsets_topic_replication_factor: int = key(3, "Kafka 2.8")
    emulated_log_create_us: int = key(0, "emulated: time of a broker to create a log")
    controlled_shutdown_enable: bool = key(True, "Kafka 2.8")
    controlled_shutdown_max_retries: int = key(3, "Kafka 2.8")
    controlled_shutdown_retry_backoff_ms: int = key(5_000, "Kafka 2.8")
    reconnect_backoff_ms: int = key(50, "Kafka 2.8")
    reconnect_backoff_max_ms: int = key(1_000, "Kafka 2.8")
    emulated_isr_notification_tick_ms: int = key(
        2_500, "Kafka: fixed; interval of the check for unannounced ISR changes"
    )
    emulated_isr_notification_delay_ms: int = key(5_000, "Kafka: fixed; age of the newest ISR change to announce")
    emulated_isr_notification_most_ms: int = key(60_000, "Kafka: fixed; longest time between announcements")
