import java.io.FileInputStream;
import java.io.InputStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Makes a topic, writes a record and reads it in a group, with the settings of each properties file that is named;
 * with those whose names begin with "wrong" it has to be refused.
 */
public final class Logins {
    private Logins() {
    }

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties settings = new Properties();
            try (InputStream input = new FileInputStream(file)) {
                settings.load(input);
            }
            String topic = settings.remove("topic").toString();
            settings.put("key.serializer", StringSerializer.class.getName());
            settings.put("value.serializer", StringSerializer.class.getName());
            settings.put("key.deserializer", StringDeserializer.class.getName());
            settings.put("value.deserializer", StringDeserializer.class.getName());
            settings.put("group.id", topic);
            settings.put("auto.offset.reset", "earliest");
            if (topic.startsWith("wrong")) {
                refused(settings, topic);
            } else {
                used(settings, topic);
            }
            System.out.println(topic);
        }
    }

    private static void used(Properties settings, String topic) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(Arrays.asList(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.send(new ProducerRecord<>(topic, "value")).get();
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(Collections.singletonList(topic));
            ConsumerRecords<String, String> records = ConsumerRecords.empty();
            for (long end = System.nanoTime() + 30_000_000_000L; records.isEmpty() && System.nanoTime() < end; ) {
                records = consumer.poll(Duration.ofSeconds(1));
            }
            if (records.count() != 1) {
                throw new AssertionError(topic + ": " + records.count() + " records");
            }
        }
    }

    private static void refused(Properties settings, String topic) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            admin.describeCluster().nodes().get();
        } catch (ExecutionException refused) {
            if (refused.getCause() instanceof SaslAuthenticationException) {
                return;
            }
            throw refused;
        }
        throw new AssertionError(topic + ": was let in");
    }
}
