import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** kafka-clients from before the message format of 0.11, compiled against each version: 0.8.2 to 0.10. */
public final class Old implements Serve.Calls {
    private final String bootstrap;
    private final Map<String, Consuming> members = new HashMap<>();

    private Old(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        Serve.serve(new Old(args[0]));
    }

    @Override
    public Object answer(String what, Map<String, Object> request) throws Exception {
        String topic = (String) request.get("topic");
        switch (what) {
            case "hello":
                return Serve.version();
            case "write":
                return write(topic, request);
            case "read":
                return Reading.read(bootstrap, topic, Serve.number(request, "start"), Serve.number(request, "count"));
            case "ends":
                return Reading.ends(bootstrap, topic);
            case "offset_at":
                return Reading.offsetAt(bootstrap, topic, Serve.number(request, "timestamp"));
            case "join":
                members.put((String) request.get("member"), new Consuming(bootstrap, (String) request.get("group"), topic));
                return null;
            case "seen":
                return members.get((String) request.get("member")).seenSoFar();
            case "leave":
                Consuming left = members.remove((String) request.get("member"));
                left.leaves = true;
                left.join();
                return left.seenSoFar();
            default:
                throw new IllegalArgumentException("the program knows no " + what);
        }
    }

    private Object write(String topic, Map<String, Object> request) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", request.get("codec"));
        settings.put("acks", String.valueOf(Serve.number(request, "acks")));
        settings.put("linger.ms", "5");
        settings.put("retries", "500");
        settings.put("request.timeout.ms", "60000"); // also the time that a record may wait for a broker
        settings.put("max.request.size", "2000000");
        settings.put("max.in.flight.requests.per.connection", "1");
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<byte[], byte[]>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        long pauseMs = Serve.number(request, "pause_ms");
        List<Future<RecordMetadata>> sent = new ArrayList<Future<RecordMetadata>>();
        for (Map<String, Object> one : Serve.maps(request.get("records"))) {
            sent.add(producer.send(record(topic, one)));
            if (pauseMs > 0) {
                sent.get(sent.size() - 1).get(Serve.PATIENCE_MS, TimeUnit.MILLISECONDS);
                Thread.sleep(pauseMs);
            }
        }
        for (Future<RecordMetadata> one : sent) {
            one.get(Serve.PATIENCE_MS, TimeUnit.MILLISECONDS);
        }
        producer.close();
        return null;
    }

    /** Records have a time since 0.10. */
    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(String topic, Map<String, Object> one) throws Exception {
        Integer partition = (int) Serve.number(one, "partition");
        byte[] key = Serve.bytes(one.get("key"));
        byte[] value = Serve.bytes(one.get("value"));
        try {
            return (ProducerRecord<byte[], byte[]>) ProducerRecord.class
                    .getConstructor(String.class, Integer.class, Long.class, Object.class, Object.class)
                    .newInstance(topic, partition, one.get("timestamp"), key, value);
        } catch (NoSuchMethodException older) {
            return new ProducerRecord<byte[], byte[]>(topic, partition, key, value);
        }
    }

    /** Apart, so that 0.8 need not load a consumer. */
    private static final class Reading {
        static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group, String reset) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", group);
            settings.put("auto.offset.reset", reset);
            settings.put("enable.auto.commit", "false");
            settings.put("heartbeat.interval.ms", "200");
            settings.put("session.timeout.ms", "10000");
            return new KafkaConsumer<byte[], byte[]>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        static Object read(String bootstrap, String topic, long start, long count) throws Exception {
            TopicPartition place = new TopicPartition(topic, 0);
            final List<Object> found = new ArrayList<Object>();
            final KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, "unused-" + topic, "none");
            try {
                consumer.assign(Arrays.asList(place));
                consumer.seek(place, start);
                Serve.eventually(count + " records", () -> {
                    for (ConsumerRecord<byte[], byte[]> one : consumer.poll(100)) {
                        found.add(Serve.pairs(
                                "partition", one.partition(), "key", Serve.text(one.key()), "value", Serve.text(one.value()),
                                "headers", new Object[0], "timestamp", time(one), "offset", one.offset()));
                    }
                    return found.size() >= count;
                });
            } finally {
                consumer.close();
            }
            return found.subList(0, (int) count);
        }

        private static Object time(ConsumerRecord<byte[], byte[]> one) throws Exception {
            try {
                return ConsumerRecord.class.getMethod("timestamp").invoke(one);
            } catch (NoSuchMethodException older) {
                return null;
            }
        }

        /** Methods of 0.10.1. */
        static Object ends(String bootstrap, String topic) throws Exception {
            TopicPartition place = new TopicPartition(topic, 0);
            KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, "unused-" + topic, "none");
            try {
                List<Object> found = new ArrayList<Object>();
                for (String method : Arrays.asList("beginningOffsets", "endOffsets")) {
                    Object offsets = KafkaConsumer.class.getMethod(method, java.util.Collection.class)
                            .invoke(consumer, Collections.singleton(place));
                    found.add(((Map<?, ?>) offsets).get(place));
                }
                return found;
            } finally {
                consumer.close();
            }
        }

        static Object offsetAt(String bootstrap, String topic, long timestamp) throws Exception {
            TopicPartition place = new TopicPartition(topic, 0);
            KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, "unused-" + topic, "none");
            try {
                Object offsets = KafkaConsumer.class.getMethod("offsetsForTimes", Map.class)
                        .invoke(consumer, Collections.singletonMap(place, timestamp));
                Object found = ((Map<?, ?>) offsets).get(place);
                return found == null ? -1 : found.getClass().getMethod("offset").invoke(found);
            } finally {
                consumer.close();
            }
        }
    }

    /** A member of a group. */
    private static final class Consuming extends Serve.Member {
        private final String bootstrap;
        private final String group;
        private final String topic;

        Consuming(String bootstrap, String group, String topic) {
            this.bootstrap = bootstrap;
            this.group = group;
            this.topic = topic;
            start();
        }

        @Override
        void consume() {
            KafkaConsumer<byte[], byte[]> consumer = Reading.consumer(bootstrap, group, "earliest");
            consumer.subscribe(Arrays.asList(topic));
            while (!leaves) {
                boolean any = false;
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(50)) {
                    seen.add(Serve.string(one.value()));
                    any = true;
                }
                try {
                    if (any) {
                        consumer.commitSync();
                    }
                } catch (org.apache.kafka.common.KafkaException rebalanced) {
                    // The next owner reads the records again.
                }
            }
            consumer.close();
        }
    }
}
