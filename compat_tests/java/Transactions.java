import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Reads a topic, writes what it has read to another one in transactions, and is fenced at last: `Transactions
 * HOST:PORT TOPIC`, with kafka-clients from 2.5 on.
 */
public class Transactions {
    private static final int RECORDS = 30, TOGETHER = 5;

    public static void main(String[] args) throws Exception {
        String address = args[0], source = args[1], sink = source + "-out";
        try (KafkaProducer<String, String> producer = producer(address, null)) {
            for (int i = 0; i < RECORDS; i++) {
                producer.send(new ProducerRecord<>(source, Integer.toString(i))).get();
            }
        }
        copy(address, source, sink);
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < RECORDS; i++) {
            wanted.add(Integer.toString(i));
        }
        check(read(address, sink, "read_committed", RECORDS), wanted);
        fence(address, sink);
        wanted.add("second");
        check(read(address, sink, "read_committed", RECORDS + 1), wanted);
        System.out.println(AppInfoParser.getVersion() + " is done");
    }

    /** Every other transaction is aborted first, and done again. */
    private static void copy(String address, String source, String sink) throws Exception {
        TopicPartition from = new TopicPartition(source, 0);
        try (KafkaConsumer<String, String> consumer = consumer(address, source, "read_committed");
                KafkaProducer<String, String> producer = producer(address, source)) {
            producer.initTransactions();
            consumer.subscribe(Collections.singletonList(source));
            int done = 0;
            boolean abort = true;
            while (done < RECORDS) {
                List<ConsumerRecord<String, String>> some = new ArrayList<>();
                consumer.poll(Duration.ofSeconds(1)).forEach(some::add);
                if (some.isEmpty()) {
                    continue;
                }
                if (some.get(0).offset() != done) {
                    throw new AssertionError(some.get(0).offset() + " is read, not " + done);
                }
                List<ConsumerRecord<String, String>> part = some.subList(0, Math.min(TOGETHER, some.size()));
                producer.beginTransaction();
                for (ConsumerRecord<String, String> one : part) {
                    producer.send(new ProducerRecord<>(sink, one.value()));
                }
                long next = part.get(part.size() - 1).offset() + 1;
                producer.sendOffsetsToTransaction(
                        Collections.singletonMap(from, new OffsetAndMetadata(next)), consumer.groupMetadata());
                if (abort) {
                    producer.flush();
                    producer.abortTransaction();
                    consumer.seek(from, done);
                } else {
                    producer.commitTransaction();
                    consumer.seek(from, next);
                    done += part.size();
                }
                abort = !abort;
            }
            OffsetAndMetadata committed = consumer.committed(Collections.singleton(from)).get(from);
            check(Collections.singletonList(Long.toString(committed.offset())),
                    Collections.singletonList(Integer.toString(RECORDS)));
        }
    }

    private static void fence(String address, String sink) {
        try (KafkaProducer<String, String> first = producer(address, sink);
                KafkaProducer<String, String> second = producer(address, sink)) {
            first.initTransactions();
            first.beginTransaction();
            first.send(new ProducerRecord<>(sink, "first"));
            first.flush();
            second.initTransactions();
            second.beginTransaction();
            second.send(new ProducerRecord<>(sink, "second"));
            second.commitTransaction();
            try {
                first.commitTransaction();
            } catch (ProducerFencedException fenced) {
                return;
            }
        }
        throw new AssertionError("the first producer was not fenced");
    }

    private static List<String> read(String address, String topic, String isolation, int count) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(address, topic + "-reader", isolation)) {
            TopicPartition from = new TopicPartition(topic, 0);
            consumer.assign(Collections.singletonList(from));
            consumer.seekToBeginning(Collections.singletonList(from));
            while (values.size() < count) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(one.value());
                }
            }
        }
        return values;
    }

    private static KafkaProducer<String, String> producer(String address, String transactionalId) {
        Properties settings = settings(address);
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
        }
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(settings);
    }

    private static KafkaConsumer<String, String> consumer(String address, String group, String isolation) {
        Properties settings = settings(address);
        settings.put("group.id", group);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return new KafkaConsumer<>(settings);
    }

    private static Properties settings(String address) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        return settings;
    }

    private static void check(List<String> found, List<String> wanted) {
        if (!found.equals(wanted)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }
}
