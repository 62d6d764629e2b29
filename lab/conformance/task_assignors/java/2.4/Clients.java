package org.apache.kafka.streams.processor.internals.assignment;

import java.util.Set;
import org.apache.kafka.streams.processor.TaskId;

/** Kafka Streams 2.4 and 2.5: tasks are a client's. */
final class Clients {
    private Clients() {
    }

    static void had(final ClientState client, final Set<TaskId> active, final Set<TaskId> standby) {
        client.addPreviousActiveTasks(active);
        client.addPreviousStandbyTasks(standby);
    }
}
