import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads what is new in topics of several brokers, again and again, until standard input ends.
 *
 * <p>A line asks: BOOTSTRAP TOPIC PARTITIONS. The answer: its length in four bytes, then 20 bytes of each record: partition, offset,
 * checksum of what it holds, and 1 where it could not be read. Times that brokers set are not part of the checksum.
 */
public final class Reader {
    private static final int MANY = 100_000;
    private static final Pattern PLACE = Pattern.compile("([\\w.]+[\\w.-]*)-(\\d+)\\b");

    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();
    private final Map<String, Map<TopicPartition, Long>> positions = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Reader reader = new Reader();
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        DataOutputStream answers = new DataOutputStream(System.out);
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] parts = line.split(" ");
            byte[] found = reader.read(parts[0], parts[1], Integer.parseInt(parts[2]));
            answers.writeInt(found.length);
            answers.write(found);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private byte[] read(String bootstrap, String topic, int partitions) throws Exception {
        Map<TopicPartition, Long> known = positions.computeIfAbsent(bootstrap + topic, name -> new HashMap<>());
        List<TopicPartition> all = new ArrayList<>();
        for (int number = 0; number < partitions; number++) all.add(new TopicPartition(topic, number));
        KafkaConsumer<byte[], byte[]> quick = consumers.computeIfAbsent(bootstrap, name -> consumer(name, MANY));
        Map<TopicPartition, Long> ends = quick.endOffsets(all);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        try {
            readAll(quick, all, known, ends, out);
        } catch (OutOfMemoryError error) {
            // A record that claims a gigabyte: nobody says which, and what was read with it is gone.
            KafkaConsumer<byte[], byte[]> careful = careful(bootstrap);
            for (TopicPartition partition : all) readAll(careful, List.of(partition), known, ends, out);
        }
        return bytes.toByteArray();
    }

    private KafkaConsumer<byte[], byte[]> careful(String bootstrap) {
        return consumers.computeIfAbsent(bootstrap + " carefully", name -> consumer(bootstrap, 1));
    }

    private static void readAll(
            KafkaConsumer<byte[], byte[]> consumer,
            List<TopicPartition> partitions,
            Map<TopicPartition, Long> known,
            Map<TopicPartition, Long> ends,
            DataOutputStream out)
            throws Exception {
        consumer.assign(partitions);
        for (TopicPartition partition : partitions) consumer.seek(partition, known.getOrDefault(partition, 0L));
        while (true) {
            List<TopicPartition> done = new ArrayList<>();
            for (TopicPartition partition : partitions) {
                if (consumer.position(partition) >= ends.get(partition)) done.add(partition);
            }
            if (done.size() == partitions.size()) break;
            consumer.pause(done);
            try {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    write(out, record.partition(), record.offset(), checksum(record), 0);
                    known.put(new TopicPartition(record.topic(), record.partition()), record.offset() + 1);
                }
            } catch (OutOfMemoryError error) {
                if (partitions.size() > 1) throw error;
                skip(consumer, partitions.get(0), known, out);
            } catch (KafkaException error) {
                Matcher place = PLACE.matcher(error.getMessage());
                if (!place.find()) throw error;
                TopicPartition partition = new TopicPartition(place.group(1), Integer.parseInt(place.group(2)));
                skip(consumer, partition, known, out);
            }
        }
        for (TopicPartition partition : partitions) known.put(partition, ends.get(partition));
    }

    private static void skip(
            KafkaConsumer<byte[], byte[]> consumer,
            TopicPartition partition,
            Map<TopicPartition, Long> known,
            DataOutputStream out)
            throws Exception {
        long at = consumer.position(partition);
        write(out, partition.partition(), at, 0, 1);
        consumer.seek(partition, at + 1);
        known.put(partition, at + 1);
    }

    private static void write(DataOutputStream out, int partition, long offset, int checksum, int unreadable) throws Exception {
        out.writeInt(partition);
        out.writeLong(offset);
        out.writeInt(checksum);
        out.writeInt(unreadable);
    }

    private static int checksum(ConsumerRecord<byte[], byte[]> record) {
        CRC32 crc = new CRC32();
        if (record.timestampType() == TimestampType.CREATE_TIME) {
            crc.update(ByteBuffer.allocate(8).putLong(0, record.timestamp()).array());
        }
        add(crc, record.key());
        add(crc, record.value());
        for (Header header : record.headers()) {
            add(crc, header.key().getBytes(StandardCharsets.UTF_8));
            add(crc, header.value());
        }
        return (int) crc.getValue();
    }

    private static void add(CRC32 crc, byte[] part) {
        crc.update(ByteBuffer.allocate(4).putInt(0, part == null ? -1 : part.length).array());
        if (part != null) crc.update(part);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, int records) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("auto.offset.reset", "none");
        settings.put("max.poll.records", records);
        settings.put("fetch.max.wait.ms", "20");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
