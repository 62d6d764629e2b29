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
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupMaxSizeReachedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Members of a group, told what to do line by line: what their rebalance listeners hear goes to a file, with times.
 *
 * <p>Arguments: bootstrap servers, the file. Lines: {@code topic NAME PARTITIONS REPLICAS}, {@code offsets-topic
 * PARTITIONS BROKER,BROKER...} (all replicas in this order), {@code grow NAME PARTITIONS}, {@code start MEMBER
 * TOPIC,TOPIC KEY=VALUE...}, {@code close MEMBER}, {@code stall MEMBER MS} (no poll for this time), {@code subscribe
 * MEMBER TOPIC,TOPIC}, {@code load TOPIC RECORDS_PER_S}, {@code delete-group GROUP}, {@code delete-offsets GROUP TOPIC
 * PARTITIONS}, {@code end}. Each is answered with a line: ok, or why not. Keys {@code emulated.*} are the application:
 * time for each record, slow callbacks, commitSync after each poll.
 */
public final class PlanMembers {
  private static final Duration POLL = Duration.ofMillis(100);
  private static final Duration CLOSE = Duration.ofSeconds(20);
  private final String servers;
  private final PrintWriter file;
  private final Map<String, Member> members = new HashMap<>();
  private final Map<String, Integer> rates = new ConcurrentHashMap<>();

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
      case "stall":
        members.get(words[1]).stallMs = Long.parseLong(words[2]);
        break;
      case "subscribe":
        members.get(words[1]).subscribed = List.of(words[2].split(","));
        break;
      case "load":
        load(words[1], Integer.parseInt(words[2]));
        break;
      case "delete-group":
        refusable(admin -> admin.deleteConsumerGroups(List.of(words[1])).all().get());
        break;
      case "delete-offsets":
        Set<TopicPartition> partitions = new HashSet<>();
        for (int partition = 0; partition < Integer.parseInt(words[3]); partition++) {
          partitions.add(new TopicPartition(words[2], partition));
        }
        refusable(admin -> admin.deleteConsumerGroupOffsets(words[1], partitions).all().get());
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

  /** Sets the rate of a topic's records; the first rate starts the topic's producer. */
  private void load(String topic, int rate) {
    if (rates.put(topic, rate) != null) {
      return;
    }
    Thread thread = new Thread(() -> {
      Map<String, Object> settings = Map.of("bootstrap.servers", servers, "client.id", "plan-producer", "acks", "1");
      try (KafkaProducer<byte[], byte[]> producer =
          new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
        for (int number = 0; ; number++) {
          int now = rates.get(topic);
          if (now > 0) {
            producer.send(new ProducerRecord<>(topic, null, Integer.toString(number).getBytes(), new byte[100]));
          }
          Thread.sleep(now > 0 ? Math.max(1000 / now, 1) : 100);
        }
      } catch (InterruptedException ended) {
        Thread.currentThread().interrupt();
      }
    });
    thread.setDaemon(true);
    thread.start();
  }

  private interface Work {
    void on(Admin admin) throws Exception;
  }

  private void withAdmin(Work work) throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers, "client.id", "plan-admin"))) {
      work.on(admin);
    }
  }

  /** Work that the cluster may refuse. */
  private void refusable(Work work) throws Exception {
    try {
      withAdmin(work);
    } catch (ExecutionException refused) {
      wrote("plan-admin", "refused", ",\"class\":" + quoted(refused.getCause().getClass().getSimpleName()));
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
    private final Map<String, String> application = new HashMap<>();
    private volatile boolean closing = false;
    private volatile long stallMs = 0;
    private volatile List<String> subscribed = null;

    Member(String name, List<String> topics, List<String> settings) {
      super(name);
      this.topics = topics;
      properties.put("bootstrap.servers", servers);
      properties.put("client.id", name);
      properties.put("auto.offset.reset", "earliest");
      for (String each : settings) {
        int at = each.indexOf('=');
        String key = each.substring(0, at);
        (key.startsWith("emulated.") ? application : (Map) properties).put(key, each.substring(at + 1));
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
            List<String> others = subscribed;
            if (others != null) {
              subscribed = null;
              consumer.subscribe(others, this);
            }
            long stall = stallMs;
            stallMs = 0;
            rest(stall * 1000);
            int records = consumer.poll(POLL).count();
            rest(records * time("emulated.process.us.per.record"));
            if (records > 0 && application.getOrDefault("emulated.commit.after.poll", "false").equals("true")) {
              consumer.commitSync();
            }
          } catch (FencedInstanceIdException | GroupMaxSizeReachedException fenced) {
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

    private long time(String key) {
      return Long.parseLong(application.getOrDefault(key, "0"));
    }

    private void rest(long us) {
      try {
        Thread.sleep(us / 1000, (int) (us % 1000) * 1000);
      } catch (InterruptedException ended) {
        interrupt();
      }
    }

    private void told(String event, Collection<TopicPartition> partitions) {
      String names = partitions.stream().map(each -> quoted(each)).sorted().collect(Collectors.joining(","));
      wrote(getName(), event, ",\"partitions\":[" + names + "]");
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      told("assigned", partitions);
      rest(1000 * time("emulated.on.assigned.ms"));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      rest(1000 * time("emulated.on.revoked.ms"));
      told("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
      rest(1000 * time("emulated.on.lost.ms"));
      told("lost", partitions);
    }
  }
}
