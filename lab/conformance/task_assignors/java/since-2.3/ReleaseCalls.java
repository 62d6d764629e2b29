package org.apache.kafka.streams.processor.internals.assignment;

import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.streams.processor.TaskId;

/** Kafka Streams 2.3 to 2.5: there is the sticky assignor alone; lags are not known, and every task gets standbys. */
final class ReleaseCalls {
    private ReleaseCalls() {
    }

    static ClientState client(
        final int capacity, final Set<TaskId> active, final Set<TaskId> standby, final Map<TaskId, Long> lags
    ) {
        final ClientState client = new ClientState(capacity);
        Clients.had(client, active, standby);
        return client;
    }

    static boolean assign(
        final String assignor, final Map<UUID, ClientState> clients, final Set<TaskId> all, final Set<TaskId> stateful,
        final int standbys, final int warmups, final long acceptableLag
    ) {
        if (!assignor.equals("sticky")) {
            throw new IllegalArgumentException(assignor);
        }
        new StickyTaskAssignor<>(clients, all).assign(standbys);
        return false;
    }
}
