import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic in transactions: `Copier HOST:PORT SOURCE SINK GROUP TRANSACTIONAL_ID TIMEOUT_MS RECORDS ABORTS SEED`.
 *
 * It reads what is committed, writes to the same partition of the sink, and has the offsets committed with the records;
 * of 100 transactions it aborts ABORTS. A line of JSON tells of each. It ends where its producer can do no more.
 */
public final class Copier {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final String sink;

    private Copier(String[] args) {
        sink = args[2];
        Properties reading = new Properties();
        reading.put("bootstrap.servers", args[0]);
        reading.put("group.id", args[3]);
        reading.put("isolation.level", "read_committed");
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("max.poll.records", args[6]);
        reading.put("session.timeout.ms", "6000");
        reading.put("heartbeat.interval.ms", "500");
        reading.put("reconnect.backoff.max.ms", "200");
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Properties writing = new Properties();
        writing.put("bootstrap.servers", args[0]);
        writing.put("transactional.id", args[4]);
        writing.put("transaction.timeout.ms", args[5]);
        writing.put("reconnect.backoff.max.ms", "200");
        producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer());
    }

    public static void main(String[] args) {
        Copier copier = new Copier(args);
        Random draw = new Random(Long.parseLong(args[8]));
        copier.begin(args[1]);
        while (true) {
            ConsumerRecords<byte[], byte[]> records = copier.consumer.poll(Duration.ofMillis(200));
            if (!records.isEmpty()) {
                copier.copy(records, draw.nextInt(100) < Integer.parseInt(args[7]));
            }
        }
    }

    private void begin(String source) {
        again(producer::initTransactions);
        consumer.subscribe(Collections.singletonList(source), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                System.out.println("{\"name\": \"assigned\", \"count\": " + assigned.size() + "}");
            }
        });
    }

    private void copy(ConsumerRecords<byte[], byte[]> records, boolean gives) {
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> one : records) {
                producer.send(new ProducerRecord<>(sink, one.partition(), one.key(), one.value()));
                offsets.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (gives) {
                abort("chance");
            } else {
                again(producer::commitTransaction);
                System.out.println("{\"name\": \"committed\", \"count\": " + records.count() + "}");
            }
        } catch (KafkaException failed) {
            abort(failed.toString());
        }
    }

    /** Where even that fails the program ends, and its next run begins with the same transactional id. */
    private void abort(String why) {
        again(producer::abortTransaction);
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata committed = consumer.committed(Collections.singleton(partition)).get(partition);
            if (committed == null) {
                consumer.seekToBeginning(Collections.singleton(partition));
            } else {
                consumer.seek(partition, committed.offset());
            }
        }
        System.out.println("{\"name\": \"aborted\", \"why\": \"" + why.replaceAll("[\"\\\\\\n]", " ") + "\"}");
    }

    /** What runs into max.block.ms goes on where it is called again. */
    private static void again(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException late) {
                System.out.println("{\"name\": \"late\"}");
            }
        }
    }
}
