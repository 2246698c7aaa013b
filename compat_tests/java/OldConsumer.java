import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics with the consumer of kafka-clients 0.9 to 0.10 and prints topic, offset, time, key and value:
 * `OldConsumer HOST:PORT GROUP COUNT FROM TOPIC...`.
 *
 * With FROM -1 it is a member of the group and commits what it has read.
 */
public final class OldConsumer {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<byte[], byte[]>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        int wanted = Integer.parseInt(args[2]);
        long from = Long.parseLong(args[3]);
        List<String> topics = Arrays.asList(args).subList(4, args.length);
        if (from < 0) {
            consumer.subscribe(topics);
        } else {
            List<TopicPartition> partitions = new ArrayList<TopicPartition>();
            for (String topic : topics) {
                partitions.add(new TopicPartition(topic, 0));
            }
            consumer.assign(partitions);
            for (TopicPartition partition : partitions) {
                consumer.seek(partition, from);
            }
        }
        StringBuilder out = new StringBuilder();
        long deadline = System.nanoTime() + 30_000_000_000L;
        for (int seen = 0; seen < wanted; ) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(seen + " of " + wanted + " records after 30 s");
            }
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(100)) {
                seen++;
                out.append(record.topic()).append('\t').append(record.offset()).append('\t').append(time(record)).append('\t');
                out.append(shown(record.key())).append('\t').append(shown(record.value())).append('\n');
            }
        }
        if (from < 0) {
            consumer.commitSync();
        }
        consumer.close();
        System.out.print(out);
        System.exit(0);
    }

    /** Records have a time since 0.10. */
    private static Object time(ConsumerRecord<byte[], byte[]> record) throws Exception {
        try {
            return ConsumerRecord.class.getMethod("timestamp").invoke(record);
        } catch (NoSuchMethodException older) {
            return -1;
        }
    }

    private static String shown(byte[] part) {
        return part == null ? "null" : Base64.getEncoder().encodeToString(part);
    }
}
