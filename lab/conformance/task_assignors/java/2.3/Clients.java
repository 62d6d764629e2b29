package org.apache.kafka.streams.processor.internals.assignment;

import java.util.Set;
import org.apache.kafka.streams.processor.TaskId;

/** Kafka Streams 2.3: tasks are those of a consumer, by name. */
final class Clients {
    private Clients() {
    }

    static void had(final ClientState client, final Set<TaskId> active, final Set<TaskId> standby) {
        client.addPreviousActiveTasks("consumer", active);
        client.addPreviousStandbyTasks("consumer", standby);
    }
}
