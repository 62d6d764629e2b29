package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Tests of Kafka's Java clients against an emulated cluster.
 *
 * <p>The environment variable KEMU names the program, such as ../../../.venv/bin/kemu; the default is kemu on the PATH.
 * The system property group.protocol=consumer tests members of the consumer protocol (KIP-848) at brokers of Kafka 4.0.
 */
class ServeTest {
    static final String TOPIC = "orders";
    static final String GROUP = "payments";
    static final int RECORDS = 100;
    static final Duration LIMIT = Duration.ofSeconds(120);
    static final boolean NEW_PROTOCOL = System.getProperty("group.protocol", "classic").equals("consumer");

    private Process served;
    private BufferedReader lines;
    private String servers;
    private URI control;

    /** Start an emulated cluster with the client "app". */
    @BeforeEach
    void cluster() throws IOException {
        List<String> command = List.of(System.getenv().getOrDefault("KEMU", "kemu"), "serve", "../orders.toml",
                "--client", "app", "--control", "0", "--for", "300s",
                "--profile", NEW_PROTOCOL ? "kafka-4.0" : "kafka-3.4");
        served = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        lines = new BufferedReader(new InputStreamReader(served.getInputStream()));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("app bootstrap.servers=")) {
                servers = line.substring("app bootstrap.servers=".length());
            } else if (line.startsWith("control ")) {
                control = URI.create(line.substring("control ".length()));
            } else if (line.startsWith("READY ")) {
                return;
            }
        }
        throw new IOException("kemu serve has ended before it was ready");
    }

    /** End the cluster; no rule of Kafka is broken. */
    @AfterEach
    void end() throws Exception {
        served.toHandle().destroy(); // Process.destroy would close the output
        assertTrue(lines.lines().anyMatch("verdict: holds"::equals));
        served.waitFor();
    }

    /** Send an order to the cluster; fail if the cluster refuses the order, or a wait is in vain. */
    private void ask(String verb, String order) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(control.resolve("/" + verb))
                .POST(HttpRequest.BodyPublishers.ofString(order)).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        assertEquals(200, answer.statusCode(), order + ": " + answer.body());
    }

    private static void produce(String servers, int from, int to) throws Exception {
        produce(servers, null, from, to);
    }

    /** Produce to a partition; null: to the partitions of the producer's choice. */
    private static void produce(String servers, Integer partition, int from, int to) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = from; number < to; number++) {
                sent.add(producer.send(new ProducerRecord<>(TOPIC, partition, null, "order-" + number)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    private static KafkaConsumer<String, String> member(String servers) {
        return member(servers, Map.of());
    }

    private static KafkaConsumer<String, String> member(String servers, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", servers,
                "group.id", GROUP,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false));
        settings.putAll(more);
        if (NEW_PROTOCOL) { // the broker chooses the timeouts of the session
            settings.put("group.protocol", "consumer");
            settings.remove("session.timeout.ms");
        } else {
            settings.putIfAbsent("session.timeout.ms", 6_000);
            settings.put("heartbeat.interval.ms", 500);
        }
        var made = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        made.subscribe(List.of(TOPIC));
        return made;
    }

    /** Poll until this number of different values is read; return how often each value was read. */
    @SafeVarargs
    private static Map<String, Integer> read(int count, KafkaConsumer<String, String>... members) {
        Map<String, Integer> found = new TreeMap<>();
        long until = System.nanoTime() + LIMIT.toNanos();
        while (found.size() < count) {
            assertTrue(System.nanoTime() < until, "read " + found.size() + " of " + count + " values");
            for (KafkaConsumer<String, String> member : members) {
                for (ConsumerRecord<String, String> each : member.poll(Duration.ofMillis(300))) {
                    found.merge(each.value(), 1, Integer::sum);
                }
            }
        }
        return found;
    }

    @Test
    void recordsAreReadBackOnce() throws Exception {
        produce(servers, 0, RECORDS);

        try (var only = member(servers)) {
            Map<String, Integer> found = read(RECORDS, only);
            found.forEach((value, times) -> assertEquals(1, times, value));
        }
    }

    @Test
    void twoMembersShareTheTopicAndOneLeaves() throws Exception {
        produce(servers, 0, RECORDS);

        try (var first = member(servers)) {
            try (var second = member(servers)) {
                read(RECORDS, first, second);
                second.commitSync();
            }
            produce(servers, RECORDS, RECORDS + 20);
            read(20, first);
            ask("wait", "group payments Stable members=1 within 60s");
        }
    }

    @Test
    void anAdminDescribesTheGroup() throws Exception {
        produce(servers, 0, RECORDS);

        try (var only = member(servers); var admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            read(RECORDS, only);
            only.commitSync();
            var group = admin.describeConsumerGroups(List.of(GROUP)).describedGroups().get(GROUP).get();
            assertEquals(NEW_PROTOCOL ? GroupType.CONSUMER : GroupType.CLASSIC, group.type());
            assertEquals(4, group.members().iterator().next().assignment().topicPartitions().size());
            var committed = admin.listConsumerGroupOffsets(GROUP).partitionsToOffsetAndMetadata().get();
            assertEquals(RECORDS, committed.values().stream().mapToLong(each -> each.offset()).sum());
            var all = Map.of(GROUP, new ListConsumerGroupOffsetsSpec(), "unknown", new ListConsumerGroupOffsetsSpec());
            assertEquals(committed, admin.listConsumerGroupOffsets(all).all().get().get(GROUP));
        }
    }

    @Test
    void aStaticMemberReturnsWithoutARebalance() throws Exception {
        produce(servers, 0, RECORDS);
        Map<String, Object> instance = Map.of("group.instance.id", "till", "session.timeout.ms", 30_000);
        int generation;
        try (var before = member(servers, instance)) {
            read(RECORDS, before);
            before.commitSync();
            generation = before.groupMetadata().generationId();
        }

        try (var after = member(servers, instance)) {
            produce(servers, RECORDS, RECORDS + 20);
            assertEquals(20, read(20, after).size(), "the member goes on after its commit");
            assertEquals(generation, after.groupMetadata().generationId());
        }
    }

    @Test
    void aMemberWhoseRecordsWereDeletedReadsTheRest() throws Exception {
        produce(servers, 0, 0, RECORDS);
        try (var before = member(servers)) {
            read(RECORDS, before);
            before.commitSync();
        }
        produce(servers, 0, RECORDS, RECORDS + 20);
        ask("do", "delete-records topic=orders partition=0 before=-1");
        ask("wait", "partition orders-0 start=120 within 60s");
        produce(servers, 0, RECORDS + 20, RECORDS + 40);

        try (var after = member(servers)) {
            Map<String, Integer> found = read(20, after);
            for (int number = RECORDS + 20; number < RECORDS + 40; number++) {
                assertEquals(1, found.get("order-" + number), "order-" + number);
            }
            after.commitSync();
        }
        ask("wait", "lag payments 0 within 60s");
    }

    /** Subscribe with a pattern that brokers match: subscribe(SubscriptionPattern), which clients have since 4.0. */
    private static void subscribeByBrokers(KafkaConsumer<?, ?> member, String pattern) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
        Object made = type.getConstructor(String.class).newInstance(pattern);
        member.unsubscribe();
        KafkaConsumer.class.getMethod("subscribe", type).invoke(member, made);
    }

    @Test
    @EnabledIfSystemProperty(named = "group.protocol", matches = "consumer")
    void aMemberReadsAllTopicsThatMatchItsPattern() throws Exception {
        produce(servers, 0, RECORDS);

        try (var only = member(servers); var admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            subscribeByBrokers(only, TOPIC + "(-[a-z]+)?");
            read(RECORDS, only);
            var created = List.of(new NewTopic(TOPIC + "-us", 2, (short) 3), new NewTopic("other", 2, (short) 3));
            admin.createTopics(created).all().get();
            long until = System.nanoTime() + LIMIT.toNanos();
            while (only.assignment().size() < 6) {
                assertTrue(System.nanoTime() < until, "assigned: " + only.assignment());
                only.poll(Duration.ofMillis(300));
            }
            assertTrue(only.assignment().stream().allMatch(each -> each.topic().startsWith(TOPIC)));
        }
    }

    @Test
    @EnabledIfSystemProperty(named = "group.protocol", matches = "consumer")
    void anInvalidPatternIsRefused() throws Exception {
        try (var only = member(servers)) {
            subscribeByBrokers(only, TOPIC + "(");
            var refused = assertThrows(KafkaException.class, () -> read(1, only));
            String said = "SubscribedTopicRegex `orders(` is not a valid regular expression: missing closing ).";
            assertTrue(refused.getMessage().contains(said), refused.getMessage());
        }
    }

    static List<String> faults() {
        List<String> faults = new ArrayList<>(List.of(
                "kill-coordinator group=payments for=6s",
                "crash host=b1 mode=process for=5s",
                "crash host=b2 mode=power for=5s",
                "pause host=\"coordinator of payments\" for=4s",
                "slow sender=x-app add=150ms jitter=50ms for=10s",
                "lossy sender=x-app per_mille=100 for=6s",
                "crash host=x-app mode=process for=3s",
                "error-reply sender=x-app api=Fetch error=NOT_LEADER_OR_FOLLOWER",
                "error-reply sender=x-app api=OffsetCommit error=NOT_COORDINATOR"));
        faults.addAll(NEW_PROTOCOL
                ? List.of("error-reply sender=x-app api=ConsumerGroupHeartbeat error=FENCED_MEMBER_EPOCH",
                        "error-reply sender=x-app api=ConsumerGroupHeartbeat error=NOT_COORDINATOR")
                : List.of("error-reply sender=x-app api=Heartbeat error=REBALANCE_IN_PROGRESS"));
        return faults;
    }

    @ParameterizedTest
    @MethodSource("faults")
    void aMemberSurvivesAFault(String fault) throws Exception {
        produce(servers, 0, RECORDS);

        try (var only = member(servers)) {
            read(RECORDS, only);
            only.commitSync();
            ask("do", fault);
            produce(servers, RECORDS, RECORDS + 20);
            read(20, only);
            only.commitSync();
            ask("wait", "lag payments 0 within 60s");
        }
    }
}
