import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes records with the producer of kafka-clients 0.8.2 to 0.10, under each codec to a topic of its own, TOPIC-CODEC:
 * `OldProducer HOST:PORT TOPIC COUNT ACKS CODEC...`.
 */
public final class OldProducer {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[2]);
        for (int i = 4; i < args.length; i++) {
            write(args[0], args[1] + "-" + args[i], count, args[3], args[i]);
        }
        System.exit(0);
    }

    private static void write(String bootstrap, String topic, int count, String acks, String codec) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("compression.type", codec);
        settings.put("acks", acks);
        settings.put("linger.ms", "5");
        settings.put("retries", "50");
        settings.put("max.in.flight.requests.per.connection", "1");
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<byte[], byte[]>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        List<Future<RecordMetadata>> sent = new ArrayList<Future<RecordMetadata>>();
        for (int i = 0; i < count; i++) {
            byte[] key = i % 5 == 1 ? null : bytes("key" + i);
            byte[] value = i % 5 == 2 ? null : bytes(String.join("", Collections.nCopies(1 + i % 7 * 9, "value" + i)));
            sent.add(producer.send(new ProducerRecord<byte[], byte[]>(topic, 0, key, value)));
        }
        for (Future<RecordMetadata> one : sent) {
            one.get(30, TimeUnit.SECONDS);
        }
        producer.close();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
