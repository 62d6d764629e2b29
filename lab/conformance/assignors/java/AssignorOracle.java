import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads one step of a group a line and writes what the release's assignor makes of it.
 *
 * In: id, assignor's class, topics, members; tab between. Topics: "t=3" or, with racks of replicas, "t=a.b/b.c/c.a".
 * Members, ";" between: id|topics|owned|generation|rack|instance, lists with ",", partitions as "t:0".
 * Out: id, then "member=t:0,t:1" with ";" between, or "!" and what it threw.
 */
public final class AssignorOracle {

    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";

    private AssignorOracle() { }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            out.println(fields[0] + "\t" + answer(fields[1], fields[2], fields[3]));
        }
        out.flush();
    }

    private static String answer(String assignor, String topics, String members) throws Exception {
        Class<?> type = Class.forName(PACKAGE + assignor);
        Map<String, Subscription> told = new HashMap<>();
        for (String member : members.split(";")) {
            String[] parts = member.split("\\|", -1);
            ConsumerPartitionAssignor own = (ConsumerPartitionAssignor) type.getDeclaredConstructor().newInstance();
            told.put(parts[0], subscription(own, parts));
        }
        ConsumerPartitionAssignor leader = (ConsumerPartitionAssignor) type.getDeclaredConstructor().newInstance();
        Map<String, Assignment> decided;
        try {
            decided = leader.assign(cluster(topics), new GroupSubscription(told)).groupAssignment();
        } catch (RuntimeException error) {
            return "!" + error.getClass().getSimpleName();
        }
        List<String> rows = new ArrayList<>();
        for (Map.Entry<String, Assignment> one : new TreeMap<>(decided).entrySet()) {
            List<String> names = new ArrayList<>();
            for (TopicPartition partition : one.getValue().partitions()) {
                names.add(partition.topic() + ":" + partition.partition());
            }
            rows.add(one.getKey() + "=" + String.join(",", names));
        }
        return String.join(";", rows);
    }

    private static Subscription subscription(ConsumerPartitionAssignor own, String[] parts) throws Exception {
        List<String> topics = list(parts[1]);
        List<TopicPartition> owned = new ArrayList<>();
        for (String name : list(parts[2])) {
            int colon = name.lastIndexOf(':');
            owned.add(new TopicPartition(name.substring(0, colon), Integer.parseInt(name.substring(colon + 1))));
        }
        int generation = Integer.parseInt(parts[3]);
        if (generation >= 0) {
            own.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, parts[0], Optional.empty()));
        }
        ByteBuffer data = own.subscriptionUserData(new LinkedHashSet<>(topics));
        Subscription made = made(topics, data, owned, generation, parts[4]);
        if (!parts[5].isEmpty()) {
            made.setGroupInstanceId(Optional.of(parts[5]));
        }
        return made;
    }

    private static Subscription made(
            List<String> topics, ByteBuffer data, List<TopicPartition> owned, int generation, String rack)
            throws Exception {
        for (Constructor<?> each : Subscription.class.getConstructors()) {
            if (each.getParameterCount() == 5) {
                Optional<String> rackId = rack.isEmpty() ? Optional.empty() : Optional.of(rack);
                return (Subscription) each.newInstance(topics, data, owned, generation, rackId);
            }
        }
        return new Subscription(topics, data, owned);
    }

    private static Cluster cluster(String topics) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : list(topics)) {
            String[] parts = topic.split("=");
            String[] replicas = parts[1].matches("[0-9]+") ? new String[Integer.parseInt(parts[1])] : parts[1].split("/");
            for (int number = 0; number < replicas.length; number++) {
                String[] racks = replicas[number] == null ? new String[] {""} : replicas[number].split("\\.");
                Node[] on = new Node[racks.length];
                for (int at = 0; at < racks.length; at++) {
                    String rack = racks[at];
                    Node known = nodes.get(rack);
                    if (known == null) {
                        known = new Node(nodes.size(), "h" + nodes.size(), 9092, rack.isEmpty() ? null : rack);
                        nodes.put(rack, known);
                    }
                    on[at] = known;
                }
                partitions.add(new PartitionInfo(parts[0], number, on[0], on, on));
            }
        }
        return new Cluster("c", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
    }

    private static List<String> list(String text) {
        return text.isEmpty() ? new ArrayList<>() : new ArrayList<>(java.util.Arrays.asList(text.split(",")));
    }
}
