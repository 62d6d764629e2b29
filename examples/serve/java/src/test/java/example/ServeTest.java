package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Tests of Kafka's Java clients against an emulated cluster.
 *
 * <p>The environment variable KEMU names the program, such as ../../../.venv/bin/kemu; the default is kemu on the PATH.
 */
class ServeTest {
    static final String TOPIC = "orders";
    static final String GROUP = "payments";
    static final int RECORDS = 100;
    static final Duration LIMIT = Duration.ofSeconds(120);

    private Process served;

    /** Start an emulated cluster; return its bootstrap servers. */
    private String cluster(String... options) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                System.getenv().getOrDefault("KEMU", "kemu"), "serve", "../orders.toml", "--for", "300s"));
        command.addAll(List.of(options));
        served = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(served.getInputStream()));
        String ready = "READY bootstrap.servers=";
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith(ready)) {
                return line.substring(ready.length());
            }
        }
        throw new IOException("kemu serve has ended before it was ready");
    }

    @AfterEach
    void end() throws InterruptedException {
        served.destroy();
        served.waitFor();
    }

    private static void produce(String servers, int from, int to) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = from; number < to; number++) {
                sent.add(producer.send(new ProducerRecord<>(TOPIC, "order-" + number)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    private static KafkaConsumer<String, String> member(String servers) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers,
                "group.id", GROUP,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false,
                "session.timeout.ms", 6_000,
                "heartbeat.interval.ms", 500);
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
        String servers = cluster();
        produce(servers, 0, RECORDS);

        try (var only = member(servers)) {
            Map<String, Integer> found = read(RECORDS, only);
            found.forEach((value, times) -> assertEquals(1, times, value));
        }
    }

    @Test
    void twoMembersShareTheTopicAndOneLeaves() throws Exception {
        String servers = cluster();
        produce(servers, 0, RECORDS);

        try (var first = member(servers)) {
            try (var second = member(servers)) {
                read(RECORDS, first, second);
                second.commitSync();
            }
            produce(servers, RECORDS, RECORDS + 20);
            read(20, first);
        }
    }

    @Test
    void aMemberSurvivesTheLossOfItsCoordinator() throws Exception {
        String servers = cluster("--do", "kill-coordinator group=payments at=5s for=6s");
        produce(servers, 0, RECORDS);

        try (var only = member(servers)) {
            read(RECORDS, only);
            long until = System.nanoTime() + Duration.ofSeconds(15).toNanos();
            while (System.nanoTime() < until) {
                only.poll(Duration.ofMillis(500));
            }
            only.commitSync();
            produce(servers, RECORDS, RECORDS + 20);
            read(20, only);
        }
    }
}
