package org.apache.kafka.streams.processor.internals.assignment;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.assignment.AssignorConfiguration.AssignmentConfigs;

/** Kafka Streams 2.6 to 3.1. */
final class Clients {
    private Clients() {
    }

    static ClientState client(
        final int capacity, final Set<TaskId> active, final Set<TaskId> standby, final Map<TaskId, Long> lags
    ) {
        return new ClientState(active, standby, lags, capacity);
    }

    static AssignmentConfigs configs(final long acceptableLag, final int warmups, final int standbys, final long ms) {
        return new AssignmentConfigs(acceptableLag, warmups, standbys, ms);
    }
}
