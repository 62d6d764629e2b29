package org.apache.kafka.streams.processor.internals.assignment;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.assignment.AssignorConfiguration.AssignmentConfigs;

/** Kafka Streams 3.4: configurations and clients have tags for racks, here none. */
final class ReleaseCalls {
    private static final long PROBING_INTERVAL_MS = 600_000L;

    private ReleaseCalls() {
    }

    static ClientState client(
        final int capacity, final Set<TaskId> active, final Set<TaskId> standby, final Map<TaskId, Long> lags
    ) {
        return new ClientState(active, standby, lags, Collections.emptyMap(), capacity);
    }

    static boolean assign(
        final String assignor, final Map<UUID, ClientState> clients, final Set<TaskId> all, final Set<TaskId> stateful,
        final int standbys, final int warmups, final long acceptableLag
    ) {
        final AssignmentConfigs configs =
            new AssignmentConfigs(acceptableLag, warmups, standbys, PROBING_INTERVAL_MS, Collections.emptyList());
        return called(assignor).assign(clients, all, stateful, configs);
    }

    private static TaskAssignor called(final String assignor) {
        switch (assignor) {
            case "sticky":
                return new StickyTaskAssignor();
            case "ha":
                return new HighAvailabilityTaskAssignor();
            case "prior":
                return new FallbackPriorTaskAssignor();
            default:
                throw new IllegalArgumentException(assignor);
        }
    }
}
