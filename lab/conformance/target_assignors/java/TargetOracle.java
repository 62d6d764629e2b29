import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Reads one change of a group a line and writes the targets that the release's coordinator computes.
 *
 * In: id, assignor's class, topics, history, updated member, members, targets; tab between. Topics, "," between:
 * "name=uuid=count". History, "," between: "+id" for a join and "-id" for a removal before this change, in order.
 * Members, ";" between: id|instance|names with ",". Targets, ";" between: "id=uuid:0.1,uuid:2".
 * Out: id, then the targets of all members in the same format, in the order of Kafka's collections.
 */
public final class TargetOracle {

    private static final String PACKAGE = "org.apache.kafka.coordinator.group.";

    private TargetOracle() { }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            out.println(fields[0] + "\t" + answer(fields));
        }
        out.flush();
    }

    private static String answer(String[] fields) throws Exception {
        MetadataImage image = image(fields[2]);
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        Map<String, ConsumerGroupMember> described = new HashMap<>();
        Set<Set<String>> subscriptions = new LinkedHashSet<>();
        for (String text : fields[5].split(";")) {
            String[] parts = text.split("\\|", -1);
            ConsumerGroupMember.Builder member = new ConsumerGroupMember.Builder(parts[0])
                .setSubscribedTopicNames(list(parts[2]));
            if (!parts[1].isEmpty()) {
                member.setInstanceId(parts[1]);
            }
            described.put(parts[0], member.build());
            subscriptions.add(described.get(parts[0]).subscribedTopicNames());
        }
        Map<String, ConsumerGroupMember> members = new TimelineHashMap<>(registry, 0);
        for (String change : list(fields[3])) {
            String id = change.substring(1);
            if (change.charAt(0) == '+') {
                ConsumerGroupMember known = described.get(id);
                members.put(id, known == null ? new ConsumerGroupMember.Builder(id).build() : known);
            } else {
                members.remove(id);
            }
        }
        Map<String, Assignment> targets = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        read(fields[6], targets, inverted);
        PartitionAssignor assignor = (PartitionAssignor) Class.forName(PACKAGE + "assignor." + fields[1])
            .getDeclaredConstructor().newInstance();
        TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder builder =
            new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder("g", 2, assignor);
        builder.withMembers(members)
            .withStaticMembers(Collections.emptyMap())
            .withSubscriptionType(
                subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS)
            .withTargetAssignment(targets)
            .withInvertedTargetAssignment(inverted)
            .addOrUpdateMember(fields[4], described.get(fields[4]));
        giveTopics(builder, image);
        return written(targetsOf(builder.build()), described.keySet());
    }

    /** The topics in the form of the release, and the clock of 4.3. */
    private static void giveTopics(Object builder, MetadataImage image) throws Exception {
        for (Method each : TargetAssignmentBuilder.class.getMethods()) {
            switch (each.getName()) {
                case "withTopicsImage":
                    each.invoke(builder, image.topics());
                    break;
                case "withSubscriptionMetadata":
                    each.invoke(builder, subscriptionMetadata(image));
                    break;
                case "withMetadataImage":
                    each.invoke(builder, each.getParameterTypes()[0] == MetadataImage.class ? image : wrapped(image));
                    break;
                case "withTime":
                    each.invoke(builder, Time.SYSTEM);
                    break;
                default:
                    break;
            }
        }
    }

    private static Object wrapped(MetadataImage image) throws Exception {
        return Class.forName("org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage")
            .getConstructor(MetadataImage.class).newInstance(image);
    }

    /** Topic to its description, which only 4.0 uses. */
    private static Map<String, Object> subscriptionMetadata(MetadataImage image) throws Exception {
        Constructor<?> made = Class.forName(PACKAGE + "modern.TopicMetadata").getConstructors()[0];
        Map<String, Object> found = new HashMap<>();
        for (org.apache.kafka.image.TopicImage topic : image.topics().topicsById().values()) {
            found.put(topic.name(), made.newInstance(topic.id(), topic.name(), topic.partitions().size()));
        }
        return found;
    }

    private static MetadataImage image(String topics) throws Exception {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (String text : list(topics)) {
            String[] parts = text.split("=");
            Uuid id = uuid(parts[1]);
            delta.replay(new TopicRecord().setTopicId(id).setName(parts[0]));
            for (int number = 0; number < Integer.parseInt(parts[2]); number++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(number)
                    .setReplicas(Arrays.asList(0)).setIsr(Arrays.asList(0)).setLeader(0));
            }
        }
        return delta.apply(MetadataProvenance.EMPTY);
    }

    private static void read(String text, Map<String, Assignment> targets, Map<Uuid, Map<Integer, String>> inverted) {
        for (String row : text.isEmpty() ? new String[0] : text.split(";")) {
            String member = row.substring(0, row.indexOf('='));
            ConsumerGroupTargetAssignmentMemberValue value = new ConsumerGroupTargetAssignmentMemberValue();
            for (String topic : list(row.substring(member.length() + 1))) {
                String[] parts = topic.split(":");
                List<Integer> numbers = new ArrayList<>();
                for (String number : parts[1].split("\\.")) {
                    numbers.add(Integer.parseInt(number));
                    inverted.computeIfAbsent(uuid(parts[0]), any -> new HashMap<>())
                        .put(Integer.parseInt(number), member);
                }
                value.topicPartitions().add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(uuid(parts[0])).setPartitions(numbers));
            }
            targets.put(member, Assignment.fromRecord(value));
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> targetsOf(Object result) throws Exception {
        return (Map<String, Object>) result.getClass().getMethod("targetAssignment").invoke(result);
    }

    @SuppressWarnings("unchecked")
    private static String written(Map<String, Object> targets, Set<String> members) throws Exception {
        Method partitions = Class.forName(PACKAGE + "api.assignor.MemberAssignment").getMethod("partitions");
        List<String> rows = new ArrayList<>();
        for (String id : new TreeSet<>(members)) {
            List<String> topics = new ArrayList<>();
            if (targets.get(id) != null) {
                Map<Uuid, Set<Integer>> share = (Map<Uuid, Set<Integer>>) partitions.invoke(targets.get(id));
                for (Map.Entry<Uuid, Set<Integer>> topic : share.entrySet()) {
                    List<String> numbers = new ArrayList<>();
                    for (Integer number : topic.getValue()) {
                        numbers.add(number.toString());
                    }
                    topics.add(text(topic.getKey()) + ":" + String.join(".", numbers));
                }
            }
            rows.add(id + "=" + String.join(",", topics));
        }
        return String.join(";", rows);
    }

    private static Uuid uuid(String text) {
        java.util.UUID found = java.util.UUID.fromString(text);
        return new Uuid(found.getMostSignificantBits(), found.getLeastSignificantBits());
    }

    private static String text(Uuid id) {
        return new java.util.UUID(id.getMostSignificantBits(), id.getLeastSignificantBits()).toString();
    }

    private static List<String> list(String text) {
        return text.isEmpty() ? new ArrayList<>() : new ArrayList<>(Arrays.asList(text.split(",")));
    }
}
