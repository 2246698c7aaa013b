import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer and a consumer for each rate that is named, as fast as they may: ten times a second a line for each, with
 * its name, the bytes so far, and the longest pause of late in milliseconds. It ends when its input does.
 */
public final class Rates {
    private static final int RECORD_BYTES = 1_000;

    private Rates() {
    }

    public static void main(String[] args) throws Exception {
        List<Client> clients = new ArrayList<>();
        for (int at = 1; at < args.length; at++) {
            clients.add(sender(args[0], args[at]));
            clients.add(reader(args[0], args[at]));
        }
        Thread ending = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException error) {
                System.err.println(error);
            }
            Runtime.getRuntime().halt(0);
        });
        ending.setDaemon(true);
        ending.start();
        for (Client client : clients) {
            client.thread.setDaemon(true);
            client.thread.start();
        }
        while (true) {
            for (Client client : clients) {
                System.out.println(client.name + " " + client.bytes.get() + " " + client.pause());
            }
            Thread.sleep(100);
        }
    }

    private static Properties settings(String bootstrap, String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        return settings;
    }

    private static Client sender(String bootstrap, String rate) {
        Properties settings = settings(bootstrap, "produce-" + rate);
        settings.put("linger.ms", "5");
        settings.put("acks", "1");
        settings.put("enable.idempotence", "false");
        settings.put("buffer.memory", "4000000");
        settings.put("max.block.ms", "600000");
        settings.put("delivery.timeout.ms", "600000");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        Client client = new Client("produce-" + rate, "produce-throttle-time-max", producer.metrics());
        byte[] value = new byte[RECORD_BYTES];
        client.thread = new Thread(() -> {
            while (true) {
                producer.send(new ProducerRecord<>("sent-" + rate, 0, null, value), (at, error) -> {
                    if (error == null) {
                        client.bytes.addAndGet(RECORD_BYTES);
                    }
                });
            }
        });
        return client;
    }

    private static Client reader(String bootstrap, String rate) {
        Properties settings = settings(bootstrap, "consume-" + rate);
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        Client client = new Client("consume-" + rate, "fetch-throttle-time-max", consumer.metrics());
        TopicPartition filled = new TopicPartition("filled", 0);
        client.thread = new Thread(() -> {
            consumer.assign(Collections.singletonList(filled));
            long end = consumer.endOffsets(Collections.singletonList(filled)).get(filled);
            consumer.seekToBeginning(Collections.singletonList(filled));
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    client.bytes.addAndGet(record.value().length);
                }
                if (consumer.position(filled) >= end) {
                    consumer.seekToBeginning(Collections.singletonList(filled));
                }
            }
        });
        return client;
    }

    private static final class Client {
        private final String name;
        private final String metric;
        private final Map<MetricName, ? extends Metric> metrics;
        private final AtomicLong bytes = new AtomicLong();
        private Thread thread;

        private Client(String name, String metric, Map<MetricName, ? extends Metric> metrics) {
            this.name = name;
            this.metric = metric;
            this.metrics = metrics;
        }

        private long pause() {
            double longest = 0;
            for (Map.Entry<MetricName, ? extends Metric> each : metrics.entrySet()) {
                if (each.getKey().name().equals(metric)) {
                    Object value = each.getValue().metricValue();
                    if (value instanceof Double && !((Double) value).isNaN()) {
                        longest = Math.max(longest, (Double) value);
                    }
                }
            }
            return Math.round(longest);
        }
    }
}
