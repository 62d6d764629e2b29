package org.apache.kafka.streams.processor.internals.assignment;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.kafka.streams.processor.TaskId;

/**
 * Asks a release's own task assignors: one case a line on standard input, one answer a line on standard output.
 *
 * <p>A case has eight fields with tabs between them: its id, the assignor, all tasks, those with state, standbys,
 * warm-ups, the acceptable lag, and the clients. Fields of a client are separated by "=", its tasks by ",", a task from
 * its lag by ":", clients by ";". It stands in the assignors' package, since some of what it calls is not public; what
 * differs between releases is in ReleaseCalls.
 *
 * <p>Sets and maps are of the kinds that StreamsPartitionAssignor hands over, filled in order.
 */
public final class TaskAssignorOracle {
    private TaskAssignorOracle() {
    }

    public static void main(final String[] arguments) throws Exception {
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        final PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
        out.flush();
    }

    private static String answer(final String[] fields) {
        final Map<UUID, ClientState> clients = new HashMap<>();
        for (final String text : fields[7].split(";")) {
            final String[] parts = text.split("=", -1);
            clients.put(
                UUID.fromString(parts[0]),
                ReleaseCalls.client(Integer.parseInt(parts[1]), tasks(parts[2]), tasks(parts[3]), lags(parts[4]))
            );
        }
        final boolean probing = ReleaseCalls.assign(
            fields[1],
            clients,
            tasks(fields[2]),
            tasks(fields[3]),
            Integer.parseInt(fields[4]),
            Integer.parseInt(fields[5]),
            Long.parseLong(fields[6])
        );
        final String given = new TreeMap<>(clients).entrySet().stream()
            .map(each -> each.getKey() + "=" + text(each.getValue().activeTasks()) + "="
                + text(each.getValue().standbyTasks()))
            .collect(Collectors.joining(";"));
        return fields[0] + "\t" + probing + "\t" + given;
    }

    private static Set<TaskId> tasks(final String text) {
        final Set<TaskId> found = new HashSet<>();
        if (!text.isEmpty()) {
            for (final String task : text.split(",")) {
                found.add(TaskId.parse(task));
            }
        }
        return found;
    }

    private static Map<TaskId, Long> lags(final String text) {
        final Map<TaskId, Long> found = new TreeMap<>();
        if (!text.isEmpty()) {
            for (final String pair : text.split(",")) {
                final int at = pair.indexOf(':');
                found.put(TaskId.parse(pair.substring(0, at)), Long.parseLong(pair.substring(at + 1)));
            }
        }
        return found;
    }

    private static String text(final Set<TaskId> tasks) {
        return new TreeSet<>(tasks).stream().map(TaskId::toString).collect(Collectors.joining(","));
    }
}
