import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a group, told what to do line by line: what their rebalance listeners hear goes to a file, with times.
 *
 * <p>Arguments: bootstrap servers, the file. Lines: {@code topic NAME PARTITIONS REPLICAS}, {@code offsets-topic
 * PARTITIONS BROKER,BROKER...} (all replicas in this order), {@code grow NAME PARTITIONS}, {@code start MEMBER
 * TOPIC,TOPIC KEY=VALUE...}, {@code close MEMBER}, {@code end}. Each is answered with a line: ok, or why not.
 */
public final class PlanMembers {
  private static final Duration POLL = Duration.ofMillis(100);
  private static final Duration CLOSE = Duration.ofSeconds(20);
  private final String servers;
  private final PrintWriter file;
  private final Map<String, Member> members = new HashMap<>();

  private PlanMembers(String servers, String path) throws IOException {
    this.servers = servers;
    this.file = new PrintWriter(new FileWriter(path));
  }

  public static void main(String[] arguments) throws Exception {
    PlanMembers all = new PlanMembers(arguments[0], arguments[1]);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    System.out.println("ok");
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer = "ok";
      try {
        all.told(line.split(" "));
      } catch (Exception error) {
        answer = "failed: " + error;
      }
      System.out.println(answer.replace('\n', ' '));
      if (line.equals("end")) {
        break;
      }
    }
    Runtime.getRuntime().halt(0);
  }

  private void told(String[] words) throws Exception {
    switch (words[0]) {
      case "topic":
        create(new NewTopic(words[1], Integer.parseInt(words[2]), Short.parseShort(words[3])));
        break;
      case "offsets-topic":
        List<Integer> replicas =
            Arrays.stream(words[2].split(",")).map(Integer::valueOf).collect(Collectors.toList());
        Map<Integer, List<Integer>> all = new HashMap<>();
        for (int partition = 0; partition < Integer.parseInt(words[1]); partition++) {
          all.put(partition, replicas);
        }
        create(new NewTopic("__consumer_offsets", all).configs(Map.of("cleanup.policy", "compact")));
        break;
      case "grow":
        withAdmin(admin ->
            admin.createPartitions(Map.of(words[1], NewPartitions.increaseTo(Integer.parseInt(words[2])))).all().get());
        break;
      case "start":
        Member member = new Member(words[1], List.of(words[2].split(",")), Arrays.asList(words).subList(3, words.length));
        members.put(words[1], member);
        member.start();
        break;
      case "close":
        members.get(words[1]).closing = true;
        break;
      case "end":
        for (Member each : members.values()) {
          each.closing = true;
        }
        for (Member each : members.values()) {
          each.join(CLOSE.toMillis());
        }
        break;
      default:
        throw new IllegalArgumentException("no such order: " + words[0]);
    }
  }

  private void create(NewTopic topic) throws Exception {
    withAdmin(admin -> admin.createTopics(List.of(topic)).all().get());
  }

  private interface Work {
    void on(Admin admin) throws Exception;
  }

  private void withAdmin(Work work) throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers, "client.id", "plan-admin"))) {
      work.on(admin);
    }
  }

  private synchronized void wrote(String who, String event, String rest) {
    file.println(
        "{\"ts\":\"" + Instant.now() + "\",\"who\":\"" + who + "\",\"event\":\"" + event + "\"" + rest + "}");
    file.flush();
  }

  private static String quoted(Object value) {
    return "\"" + String.valueOf(value).replace("\\", "/").replace("\"", "'").replace("\n", " ") + "\"";
  }

  /** One consumer and its thread. */
  private final class Member extends Thread implements ConsumerRebalanceListener {
    private final List<String> topics;
    private final Properties properties = new Properties();
    private volatile boolean closing = false;

    Member(String name, List<String> topics, List<String> settings) {
      super(name);
      this.topics = topics;
      properties.put("bootstrap.servers", servers);
      properties.put("client.id", name);
      properties.put("auto.offset.reset", "earliest");
      for (String each : settings) {
        int at = each.indexOf('=');
        properties.put(each.substring(0, at), each.substring(at + 1));
      }
    }

    @Override
    public void run() {
      wrote(getName(), "started", ",\"config\":" + quoted(properties));
      try (KafkaConsumer<byte[], byte[]> consumer =
          new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
        consumer.subscribe(topics, this);
        while (!closing) {
          try {
            consumer.poll(POLL);
          } catch (FencedInstanceIdException fenced) {
            wrote(getName(), "exception", ",\"class\":" + quoted(fenced.getClass().getSimpleName()));
            break;
          } catch (KafkaException error) {
            wrote(getName(), "exception", ",\"class\":" + quoted(error.getClass().getSimpleName()));
          }
        }
        wrote(getName(), "closing", "");
      } catch (KafkaException error) {
        wrote(getName(), "exception", ",\"class\":" + quoted(error.getClass().getSimpleName()));
      }
      wrote(getName(), "closed", "");
    }

    private void told(String event, Collection<TopicPartition> partitions) {
      String names = partitions.stream().map(each -> quoted(each)).sorted().collect(Collectors.joining(","));
      wrote(getName(), event, ",\"partitions\":[" + names + "]");
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      told("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      told("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
      told("lost", partitions);
    }
  }
}
