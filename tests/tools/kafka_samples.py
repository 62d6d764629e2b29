# ruff: noqa: E501 (rows are as wide as the tools print them)
"""The layouts of Kafka's command line tools, 1.1 to 4.3, and of properties files, written by hand.

Source: TopicCommand, ConsumerGroupCommand and GroupsCommand of these releases; KIP-175, KIP-1043, KIP-1099.
"""

TOPICS_1 = """\
Topic:orders\tPartitionCount:3\tReplicationFactor:2\tConfigs:
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1
\tTopic: orders\tPartition: 2\tLeader: none\tReplicas: 4,1\tIsr: 1
"""
TOPICS_3 = """\
Topic: orders\tTopicId: 2cXOJrPsQ0aHvYvYW-6Zfg\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: min.insync.replicas=2,retention.ms=86400000
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tAdding Replicas: 2\tRemoving Replicas: 4
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\tOffline: 4
\tTopic: orders\tPartition: 2\tLeader: 1\tReplicas: 4,1\tIsr: 1
"""
TOPICS_4 = """\
Topic: orders    TopicId: 2cXOJrPsQ0aHvYvYW-6Zfg PartitionCount: 3       ReplicationFactor: 2    Configs: segment.bytes=1
        Topic: orders    Partition: 0    Leader: 1       Replicas: 1,2   Isr: 1,2        Elr:    LastKnownElr:
        Topic: orders    Partition: 1    Leader: 2       Replicas: 2,1   Isr: 2  Elr: 1  LastKnownElr:
        Topic: orders    Partition: 2    Leader: 4       Replicas: 4,1   Isr: 4,1        Elr: N/A        LastKnownElr: N/A
"""

OFFSETS_1 = """\
Note: This will not show information about old Zookeeper-based consumers.

TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG        CONSUMER-ID                                       HOST                           CLIENT-ID
orders                         0          100             120             20         c-81fe8a2a-0b29-4964-a1d4-4741582132bb            /10.0.0.1                      c
orders                         1          -               33155           -          d-db6f12f2-e1de-4bb7-93ec-6170fefa8830            /10.0.0.2                      d
-                              -          -               -               -          e-6078de6a-af63-4c7a-8bad-f03cb3606075            /10.0.0.3                      e
stale                          4          7               9               2          -                                                 -                              -
"""
OFFSETS_1_WITHOUT_CLIENT = """\
GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  OWNER
g      orders 0          100             120             20   c-1_/10.0.0.1
g      orders 1          5               unknown         unknown  d-1_/10.0.0.2
"""
OFFSETS_3_ALL_GROUPS = """\

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID                                     HOST            CLIENT-ID
billing         orders          0          10              15              5               b-0-aaaa                                        /10.0.0.1       b-0
billing         orders          1          10              17              7               b-1-bbbb                                        /10.0.0.1       b-1
billing         refunds         0          1               1               0               b-1-bbbb                                        /10.0.0.1       b-1

GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
audit           orders          0          3               15              12              -               -               -
audit           orders          5          3               17              14              -               -               -

Consumer group 'audit' has no active members.
"""
OFFSETS_4_VERBOSE = """\
GROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
billing         orders          0          3               10              15              5               b-0-aaaa        /10.0.0.1       b-0
billing         orders          1          -               10              17              7               b-1-bbbb        /10.0.0.1       b-1
"""

MEMBERS_1 = """\
CONSUMER-ID                                      HOST        CLIENT-ID        #PARTITIONS     ASSIGNMENT
c-1-38efa901-4917-4660-ab66-3e5b989cbac3         /127.0.0.1  c-1              3               orders(0,1), refunds(0)
c-2-38efa901-4917-4660-ab66-3e5b989cbac4         /127.0.0.1  c-2              1               orders(2)
c-3-38efa901-4917-4660-ab66-3e5b989cbac5         /127.0.0.1  c-3              0               -
"""
MEMBERS_3_STATIC = """\
GROUP           CONSUMER-ID         GROUP-INSTANCE-ID HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT
billing         i-1-aaaa            i-1               /10.0.0.1       b               2               orders(0,1)
billing         b-bbbb                                /10.0.0.1       b               1               orders(2)
"""
MEMBERS_4 = """\
GROUP           CONSUMER-ID     GROUP-INSTANCE-ID HOST            CLIENT-ID       #PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT
billing         i-1-aaaa        i-1               /10.0.0.1       b               3               5               orders:0,1;refunds:0 5               orders:0,1;refunds:0
billing         i-2-bbbb        i-2               /10.0.0.1       my client       1               5               orders:2             6               -
billing         i-3-cccc        i-3               /10.0.0.1       b               0               -               -                    -               -
"""
MEMBERS_OTHER = "CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT(S)\nx-1 /h x 1 orders(6)\n"

STATE_1 = """\
COORDINATOR (ID)          ASSIGNMENT-STRATEGY       STATE                #MEMBERS
kafka-7:9092 (7)          roundrobin                Stable               4
"""
STATE_2_EMPTY = """\
GROUP                     COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS
billing                   kafka-7:9092 (7)                               Empty           0
"""
STATE_4_VERBOSE = """\
GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH   #MEMBERS
billing         kafka-7:9092  (7)         cooperative-sticky   Stable               -               -                         5
"""

MEMBERS_4_STATIC = """\

GROUP           CONSUMER-ID                              GROUP-INSTANCE-ID HOST            CLIENT-ID       #PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT
billing         b-1-kR3yXbqvTbSd7wz1h1m5zA               i-1               /10.0.0.1       b-1             2               7               orders:0,1           7               orders:0,1
billing         b-2-3vQ0mQk7T0eEo2aYV1xkXw               i-2               /10.0.0.2       b-2             1               7               orders:2             7               orders:2
"""
MEMBERS_4_MIGRATING = """\

GROUP           CONSUMER-ID                              HOST            CLIENT-ID       #PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT    UPGRADED
billing         b-1-kR3yXbqvTbSd7wz1h1m5zA               /10.0.0.1       b-1             2               7               orders:0,1           7               orders:0,1           true
billing         b-2-3vQ0mQk7T0eEo2aYV1xkXw               /10.0.0.2       b-2             0               6               -                    7               orders:2             true
billing         b-3-8c1f6a52-0f0e-4c6e-9d0a-3a9d3f6f6f11 /10.0.0.3       b-3             1               6               orders:2             7               -                    false
"""
STATE_4_RECONCILING = """\

GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH   #MEMBERS
billing         kafka-7:9092  (7)         uniform              Reconciling          8               7                         3
"""
STATE_4_UNIFORM = """\

GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS
billing         kafka-7:9092  (7)         uniform              Stable               3
"""
LIST_4_TYPES = """\
GROUP                     TYPE                 STATE
billing                   Consumer             Stable
audit                     Classic              Empty
"""
GROUPS_4 = """\
GROUP          TYPE           PROTOCOL
billing        Consumer       consumer
audit          Classic        consumer
simple         Classic
my-share-group Share          share
"""

CONSUMER = """\
# of the billing service
bootstrap.servers=kafka-1:9092,\\
    kafka-2:9092
group.id = billing
client.id=billing-7
session.timeout.ms=30000
heartbeat.interval.ms: 10000
partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor,\\
  org.apache.kafka.clients.consumer.RangeAssignor
enable.auto.commit false
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
max.pol.records=5
"""
BROKER = """\
broker.id=1
listeners=PLAINTEXT\\://:9092
log.dirs=/var/lib/kafka
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=25
session.timeout.ms=1
"""
