import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Drives a broker with kafka-clients of any age from 0.11 on: `Clients HOST:PORT ID CODEC...`.
 *
 * Newer calls are reached where the class is there: groups are described from 2.0 on, `poll(Duration)` likewise.
 */
public final class Clients {
    private static final long FIRST_TIME_MS = System.currentTimeMillis() - 3_600_000;
    private static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        String id = args[1];
        try (AdminClient admin = AdminClient.create(settings())) {
            for (String codec : args[2].split(",")) {
                everythingWrittenIsReadBack(admin, id + "-" + codec, codec, "all");
            }
            everythingWrittenIsReadBack(admin, id + "-0", "none", "0");
            everythingWrittenIsReadBack(admin, id + "-1", "none", "1");
            bigRecord(admin, id + "-big");
            offsets(admin, id + "-offsets");
            configs(admin, id + "-offsets");
            groupOfTwo(admin, id + "-group");
            manyTopics(admin, id + "-many");
        }
        System.out.println(AppInfoParser.getVersion() + " is done");
        System.exit(0);
    }

    private static Properties settings(String... pairs) {
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) {
            all.put(pairs[i], pairs[i + 1]);
        }
        return all;
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void eventually(String what, Condition condition) throws Exception {
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (!condition.holds()) {
            check(System.nanoTime() < deadline, "not within 30 s: " + what);
            Thread.sleep(20);
        }
    }

    private static void create(AdminClient admin, int partitions, List<String> names) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (String name : names) {
            topics.add(new NewTopic(name, partitions, (short) 1));
        }
        admin.createTopics(topics).all().get(30, TimeUnit.SECONDS);
        eventually("the topics are there", () -> admin.listTopics().names().get().containsAll(names));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static List<ProducerRecord<byte[], byte[]>> samples(String topic, int count) {
        List<ProducerRecord<byte[], byte[]>> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            byte[] key = i % 5 == 1 ? null : bytes("key" + i);
            byte[] value = i % 5 == 2 ? null : bytes(String.join("", Collections.nCopies(1 + i % 7 * 9, "value" + i)));
            ProducerRecord<byte[], byte[]> one = new ProducerRecord<>(topic, 0, FIRST_TIME_MS + i, key, value);
            if (i % 5 == 3) {
                one.headers().add("a", bytes("1")).add("a", new byte[0]).add("n", null);
            }
            all.add(one);
        }
        return all;
    }

    private static void write(List<ProducerRecord<byte[], byte[]>> records, String... pairs) throws Exception {
        Properties settings = settings(pairs);
        settings.put("linger.ms", "5");
        settings.put("retries", "50"); // the leader of a new partition may not know of it yet
        settings.put("max.in.flight.requests.per.connection", "1");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records) {
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get(30, TimeUnit.SECONDS);
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String... pairs) {
        Properties settings = settings(pairs);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** The poll that this version of kafka-clients has. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try {
            return (ConsumerRecords<byte[], byte[]>)
                    KafkaConsumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(100));
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<byte[], byte[]>)
                    KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 100L);
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(String topic, long from, int count) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", "unused-" + topic)) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, from);
            eventually(count + " records of " + topic, () -> {
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    found.add(record);
                }
                return found.size() >= count;
            });
            check(poll(consumer).isEmpty(), "there is more than was written");
        }
        return found;
    }

    private static void same(
            List<ConsumerRecord<byte[], byte[]>> got, List<ProducerRecord<byte[], byte[]>> wanted) {
        check(got.size() == wanted.size(), got.size() + " records instead of " + wanted.size());
        for (int i = 0; i < wanted.size(); i++) {
            ConsumerRecord<byte[], byte[]> one = got.get(i);
            ProducerRecord<byte[], byte[]> other = wanted.get(i);
            check(one.offset() == i
                    && one.timestamp() == other.timestamp()
                    && Arrays.equals(one.key(), other.key())
                    && Arrays.equals(one.value(), other.value())
                    && Arrays.equals(one.headers().toArray(), other.headers().toArray()), "record " + i + " is " + one);
        }
    }

    private static void everythingWrittenIsReadBack(AdminClient admin, String topic, String codec, String acks)
            throws Exception {
        create(admin, 1, Collections.singletonList(topic));
        String idempotent = acks.equals("all") ? "true" : "false";
        write(samples(topic, 300), "compression.type", codec, "acks", acks, "enable.idempotence", idempotent);
        same(read(topic, 0, 300), samples(topic, 300));
        check(read(topic, 250, 50).get(0).offset() == 250, "a seek does not begin where it is told");
    }

    private static void bigRecord(AdminClient admin, String topic) throws Exception {
        create(admin, 1, Collections.singletonList(topic));
        List<ProducerRecord<byte[], byte[]>> big = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            big.add(new ProducerRecord<>(topic, 0, FIRST_TIME_MS, null, new byte[900_000]));
        }
        write(big, "acks", "all");
        same(read(topic, 0, 2), big);
    }

    private static void offsets(AdminClient admin, String topic) throws Exception {
        create(admin, 1, Collections.singletonList(topic));
        write(samples(topic, 100));
        TopicPartition partition = new TopicPartition(topic, 0);
        Set<TopicPartition> one = Collections.singleton(partition);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", "unused-" + topic)) {
            check(consumer.beginningOffsets(one).get(partition) == 0, "the first offset");
            check(consumer.endOffsets(one).get(partition) == 100, "the end offset");
            long found = consumer.offsetsForTimes(Collections.singletonMap(partition, FIRST_TIME_MS + 42))
                    .get(partition).offset();
            check(found == 42, "offset " + found + " has the time of record 42");
            check(consumer.partitionsFor(topic).size() == 1, "the partitions");
        }
    }

    private static void configs(AdminClient admin, String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        String policy = admin.describeConfigs(Collections.singleton(resource)).all().get().get(resource)
                .get("cleanup.policy").value();
        check(policy.equals("delete"), "cleanup.policy is " + policy);
        check(admin.describeCluster().nodes().get().contains(admin.describeCluster().controller().get()),
                "the controller is one of the nodes");
    }

    /** A consumer of a group on a thread; commits what it has seen. */
    private static final class Member extends Thread {
        private final String topic;
        private final String group;
        final List<Integer> seen = new CopyOnWriteArrayList<>();
        volatile int owned;
        volatile boolean leaves;
        volatile Exception failed;

        Member(String group, String topic) {
            this.group = group;
            this.topic = topic;
            start();
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> consumer =
                    consumer("group.id", group, "heartbeat.interval.ms", "200", "session.timeout.ms", "10000")) {
                consumer.subscribe(Collections.singletonList(topic));
                while (!leaves) {
                    List<Integer> values = new ArrayList<>();
                    for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                        values.add(Integer.parseInt(new String(record.value(), StandardCharsets.UTF_8)));
                    }
                    if (!values.isEmpty()) {
                        commit(consumer);
                    }
                    seen.addAll(values);
                    owned = consumer.assignment().size();
                }
            } catch (Exception error) {
                failed = error;
            }
        }

        private static void commit(KafkaConsumer<byte[], byte[]> consumer) {
            try {
                consumer.commitSync();
            } catch (org.apache.kafka.common.KafkaException rebalanced) {
                // The next owner reads the records again.
            }
        }

        void close() throws Exception {
            leaves = true;
            join();
            if (failed != null) {
                throw failed;
            }
        }
    }

    private static int distinct(Member... members) {
        Set<Integer> all = new HashSet<>();
        for (Member member : members) {
            all.addAll(member.seen);
        }
        return all.size();
    }

    private static void writeNumbers(String topic, int first, int count) throws Exception {
        List<ProducerRecord<byte[], byte[]>> all = new ArrayList<>();
        for (int i = first; i < first + count; i++) {
            all.add(new ProducerRecord<>(topic, i % 50, null, bytes(Integer.toString(i))));
        }
        write(all);
    }

    private static void groupOfTwo(AdminClient admin, String name) throws Exception {
        create(admin, 50, Collections.singletonList(name));
        writeNumbers(name, 0, 500);
        Member one = new Member(name, name);
        eventually("the first member reads", () -> !one.seen.isEmpty());
        Member two = new Member(name, name);
        eventually("two members share 50 partitions", () -> one.owned == 25 && two.owned == 25);
        writeNumbers(name, 500, 500);
        eventually("all 1000 records are seen", () -> distinct(one, two) == 1000);
        describeGroup(admin, name);
        one.close();
        eventually("the second member owns everything", () -> two.owned == 50);
        writeNumbers(name, 1000, 200);
        eventually("all 1200 records are seen", () -> distinct(one, two) == 1200);
        two.close();
        writeNumbers(name, 1200, 100);
        Member three = new Member(name, name);
        eventually("the group goes on", () -> distinct(three) == 100);
        check(three.seen.size() == 100, three.seen.size() + " records are read instead of 100");
        three.close();
    }

    /** Only from 2.0 on has the admin client groups. */
    private static void describeGroup(AdminClient admin, String name) throws Exception {
        try {
            AdminClient.class.getMethod("listConsumerGroups");
        } catch (NoSuchMethodException old) {
            return;
        }
        Groups.describe(admin, name);
    }

    /** Apart, so that older versions need not load what they lack. */
    private static final class Groups {
        static void describe(AdminClient admin, String name) throws Exception {
            Set<String> names = new HashSet<>();
            for (ConsumerGroupListing listing : admin.listConsumerGroups().all().get()) {
                names.add(listing.groupId());
            }
            check(names.contains(name), "the group is not listed");
            ConsumerGroupDescription described =
                    admin.describeConsumerGroups(Collections.singleton(name)).all().get().get(name);
            int owned = 0;
            for (MemberDescription member : described.members()) {
                owned += member.assignment().topicPartitions().size();
            }
            check(described.members().size() == 2 && owned == 50, "the group is " + described);
            check(admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get().size() == 50, "offsets");
        }
    }

    private static void manyTopics(AdminClient admin, String name) throws Exception {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            names.add(name + i);
        }
        create(admin, 1, names);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", "unused-" + name)) {
            // It may ask another broker than the admin client, which hears of them a moment later.
            eventually("a consumer sees the topics", () -> consumer.listTopics().keySet().containsAll(names));
        }
        admin.deleteTopics(names).all().get(30, TimeUnit.SECONDS);
        eventually("the topics are gone", () -> Collections.disjoint(admin.listTopics().names().get(), names));
    }
}
