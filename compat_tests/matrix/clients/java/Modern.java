import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * kafka-clients from 0.11 on, compiled once against 2.0: what came or went since is reached where the class is there.
 */
public final class Modern implements Serve.Calls {
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";

    private final String bootstrap;
    private final AdminClient admin;
    private final Map<String, Consuming> members = new HashMap<>();

    private Modern(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = AdminClient.create(settings());
    }

    public static void main(String[] args) throws Exception {
        Serve.serve(new Modern(args[0]));
    }

    private Properties settings(String... pairs) {
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) {
            all.put(pairs[i], pairs[i + 1]);
        }
        return all;
    }

    @Override
    public Object answer(String what, Map<String, Object> request) throws Exception {
        String topic = (String) request.get("topic");
        switch (what) {
            case "hello":
                return Serve.version();
            case "write":
                return write(topic, request);
            case "transact":
                return transact(topic, request);
            case "read":
                return read(topic, request);
            case "ends":
            case "offset_at":
                return offsets(topic, what, request);
            case "join":
                members.put((String) request.get("member"), new Consuming(topic, request));
                return null;
            case "seen":
                return members.get((String) request.get("member")).seenSoFar();
            case "leave":
                Consuming left = members.remove((String) request.get("member"));
                left.leaves = true;
                left.join();
                return left.seenSoFar();
            default:
                return what.contains("group") || what.equals("committed")
                        ? Groups.answer(admin, what, request) : topics(what, topic, request);
        }
    }

    private Object topics(String what, String topic, Map<String, Object> request) throws Exception {
        switch (what) {
            case "create":
                List<NewTopic> topics = new ArrayList<>();
                for (String name : Serve.strings(request.get("topics"))) {
                    @SuppressWarnings("unchecked")
                    Map<String, String> config = (Map<String, String>) request.get("config");
                    topics.add(new NewTopic(name, (int) Serve.number(request, "partitions"), (short) 1).configs(config));
                }
                return get(admin.createTopics(topics).all());
            case "delete":
                return get(admin.deleteTopics(Serve.strings(request.get("topics"))).all());
            case "topics":
                return get(admin.listTopics().names());
            case "partitions":
                return described(topic).partitions().size();
            case "config":
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
                return get(admin.describeConfigs(Collections.singleton(resource)).all()).get(resource)
                        .get((String) request.get("name")).value();
            case "delete_records":
                return Deleting.before(admin, new TopicPartition(topic, 0), Serve.number(request, "before"));
            default:
                throw new IllegalArgumentException("the program knows no " + what);
        }
    }

    /** `all` became `allTopicNames` with 3.1. */
    @SuppressWarnings("unchecked")
    private TopicDescription described(String topic) throws Exception {
        DescribeTopicsResult result = admin.describeTopics(Collections.singleton(topic));
        Method all;
        try {
            all = DescribeTopicsResult.class.getMethod("all");
        } catch (NoSuchMethodException newer) {
            all = DescribeTopicsResult.class.getMethod("allTopicNames");
        }
        return get((Future<Map<String, TopicDescription>>) all.invoke(result)).get(topic);
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(Serve.PATIENCE_MS, TimeUnit.MILLISECONDS);
    }

    private KafkaProducer<byte[], byte[]> producer(String... pairs) {
        Properties settings = settings(pairs);
        settings.put("linger.ms", "5");
        settings.put("retries", "500");
        settings.put("request.timeout.ms", "60000"); // before 2.1 also the time that a record may wait for a broker
        settings.put("max.request.size", "2000000");
        settings.put("max.in.flight.requests.per.connection", "1");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private Object write(String topic, Map<String, Object> request) throws Exception {
        long pauseMs = Serve.number(request, "pause_ms");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(
                "compression.type", (String) request.get("codec"), "acks", String.valueOf(request.get("acks")),
                "enable.idempotence", String.valueOf(request.get("idempotent")))) {
            for (Map<String, Object> one : Serve.maps(request.get("records"))) {
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                        topic, (int) Serve.number(one, "partition"), (Long) one.get("timestamp"),
                        Serve.bytes(one.get("key")), Serve.bytes(one.get("value")));
                for (Object pair : (List<?>) one.get("headers")) {
                    record.headers().add((String) ((List<?>) pair).get(0), Serve.bytes(((List<?>) pair).get(1)));
                }
                sent.add(producer.send(record));
                if (pauseMs > 0) {
                    get(sent.get(sent.size() - 1));
                    Thread.sleep(pauseMs);
                }
            }
            for (Future<RecordMetadata> one : sent) {
                get(one);
            }
        }
        return null;
    }

    private Object transact(String topic, Map<String, Object> request) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", (String) request.get("name"))) {
            producer.initTransactions();
            for (Map<String, Object> transaction : Serve.maps(request.get("transactions"))) {
                producer.beginTransaction();
                for (String value : Serve.strings(transaction.get("values"))) {
                    get(producer.send(new ProducerRecord<>(topic, 0, null, value.getBytes("UTF-8"))));
                }
                if ((Boolean) transaction.get("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        return null;
    }

    private KafkaConsumer<byte[], byte[]> consumer(String... pairs) {
        Properties settings = settings(pairs);
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** The poll that this version of kafka-clients has. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try {
            return (ConsumerRecords<byte[], byte[]>)
                    KafkaConsumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(50));
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<byte[], byte[]>)
                    KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 50L);
        }
    }

    private Object read(String topic, Map<String, Object> request) throws Exception {
        int count = (int) Serve.number(request, "count");
        TopicPartition place = new TopicPartition(topic, 0);
        List<Object> found = new ArrayList<>();
        String isolation = (Boolean) request.get("committed") ? "read_committed" : "read_uncommitted";
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(
                "group.id", "unused", "auto.offset.reset", "none", "isolation.level", isolation)) {
            consumer.assign(Collections.singletonList(place));
            consumer.seek(place, Serve.number(request, "start"));
            Serve.eventually(count + " records", () -> {
                for (ConsumerRecord<byte[], byte[]> one : poll(consumer)) {
                    List<Object> headers = new ArrayList<>();
                    for (Header header : one.headers()) {
                        headers.add(new Object[] {header.key(), Serve.text(header.value())});
                    }
                    found.add(Serve.pairs(
                            "partition", one.partition(), "key", Serve.text(one.key()), "value", Serve.text(one.value()),
                            "headers", headers, "timestamp", one.timestamp(), "offset", one.offset()));
                }
                return found.size() >= count;
            });
        }
        return found.subList(0, count);
    }

    private Object offsets(String topic, String what, Map<String, Object> request) {
        TopicPartition place = new TopicPartition(topic, 0);
        Collection<TopicPartition> one = Collections.singleton(place);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", "unused")) {
            if (what.equals("ends")) {
                return new Object[] {consumer.beginningOffsets(one).get(place), consumer.endOffsets(one).get(place)};
            }
            OffsetAndTimestamp found =
                    consumer.offsetsForTimes(Collections.singletonMap(place, Serve.number(request, "timestamp"))).get(place);
            return found == null ? -1 : found.offset();
        }
    }

    /** A member of a group. */
    private final class Consuming extends Serve.Member {
        private final String topic;
        private final String group;
        private final String assignor;
        private final String instance;
        private final String pattern;

        Consuming(String topic, Map<String, Object> request) {
            this.topic = topic;
            this.group = (String) request.get("group");
            this.assignor = (String) request.get("assignor");
            this.instance = (String) request.get("instance");
            this.pattern = (String) request.get("pattern");
            start();
        }

        private KafkaConsumer<byte[], byte[]> member() {
            Properties settings = settings("group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false");
            if (assignor.equals("consumer")) {
                settings.put("group.protocol", "consumer");
            } else {
                settings.put("heartbeat.interval.ms", "200");
                settings.put("session.timeout.ms", "10000");
                settings.put("partition.assignment.strategy",
                        ASSIGNORS + (assignor.equals("eager") ? "RangeAssignor" : "CooperativeStickyAssignor"));
            }
            if (instance != null) {
                settings.put("group.instance.id", instance);
            }
            return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        /** Patterns that the broker applies came with 4.0. */
        private void subscribe(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
            if (pattern == null) {
                consumer.subscribe(Collections.singletonList(topic));
                return;
            }
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            KafkaConsumer.class.getMethod("subscribe", kind)
                    .invoke(consumer, kind.getConstructor(String.class).newInstance(pattern));
        }

        @Override
        void consume() throws Exception {
            try (KafkaConsumer<byte[], byte[]> consumer = member()) {
                subscribe(consumer);
                while (!leaves) {
                    ConsumerRecords<byte[], byte[]> polled = poll(consumer);
                    for (ConsumerRecord<byte[], byte[]> one : polled) {
                        seen.add(Serve.string(one.value()));
                    }
                    if (!polled.isEmpty()) {
                        commit(consumer);
                    }
                }
            }
        }

        private void commit(KafkaConsumer<byte[], byte[]> consumer) {
            try {
                consumer.commitSync();
            } catch (org.apache.kafka.common.KafkaException rebalanced) {
                // The next owner reads the records again.
            }
        }
    }

    /** Apart, so that older versions need not load what they lack. */
    private static final class Deleting {
        static Object before(AdminClient admin, TopicPartition place, long offset) throws Exception {
            return get(admin.deleteRecords(Collections.singletonMap(place, RecordsToDelete.beforeOffset(offset)))
                    .lowWatermarks().get(place)).lowWatermark();
        }
    }

    /** Apart as well. */
    private static final class Groups {
        static Object answer(AdminClient admin, String what, Map<String, Object> request) throws Exception {
            String group = (String) request.get("group");
            switch (what) {
                case "groups":
                    List<String> names = new ArrayList<>();
                    for (ConsumerGroupListing listing : get(admin.listConsumerGroups().all())) {
                        names.add(listing.groupId());
                    }
                    return names;
                case "describe_group":
                    ConsumerGroupDescription described =
                            get(admin.describeConsumerGroups(Collections.singleton(group)).all()).get(group);
                    Object state = ConsumerGroupDescription.class.getMethod(stateMethod()).invoke(described);
                    return Serve.pairs("state", state.toString(), "members", described.members().size());
                case "committed":
                    long sum = 0;
                    Map<TopicPartition, OffsetAndMetadata> offsets =
                            get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
                    for (OffsetAndMetadata one : offsets.values()) {
                        sum += one.offset();
                    }
                    return sum;
                default:
                    return get(admin.deleteConsumerGroups(Collections.singleton(group)).all());
            }
        }

        /** `state` is deprecated since 4.0. */
        private static String stateMethod() {
            try {
                ConsumerGroupDescription.class.getMethod("groupState");
                return "groupState";
            } catch (NoSuchMethodException older) {
                return "state";
            }
        }
    }
}
