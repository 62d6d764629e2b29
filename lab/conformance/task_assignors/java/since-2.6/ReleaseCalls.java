package org.apache.kafka.streams.processor.internals.assignment;

import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.assignment.AssignorConfiguration.AssignmentConfigs;

/** Kafka Streams since 2.6: KIP-441's assignor, and two others behind the same call. */
final class ReleaseCalls {
    private static final long PROBING_INTERVAL_MS = 600_000L;

    private ReleaseCalls() {
    }

    static ClientState client(
        final int capacity, final Set<TaskId> active, final Set<TaskId> standby, final Map<TaskId, Long> lags
    ) {
        return Clients.client(capacity, active, standby, lags);
    }

    static boolean assign(
        final String assignor, final Map<UUID, ClientState> clients, final Set<TaskId> all, final Set<TaskId> stateful,
        final int standbys, final int warmups, final long acceptableLag
    ) {
        final AssignmentConfigs configs = Clients.configs(acceptableLag, warmups, standbys, PROBING_INTERVAL_MS);
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
