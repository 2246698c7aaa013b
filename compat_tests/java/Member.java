import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group that says what it does, a line each, until standard input ends: BOOTSTRAP TOPIC GROUP PROTOCOL
 * NAME ASSIGNOR, where the assignor is "range" or "cooperative-sticky" and counts in the classic protocol.
 *
 * <p>Lines: milliseconds, "here" when it begins, "got", "gave" (up) or "lost" with partitions, or "read" with a
 * partition and its first and last offset.
 */
public final class Member implements ConsumerRebalanceListener {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private volatile boolean ends;

    private Member(String bootstrap, String group, String protocol, String name, String assignor) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", name);
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.interval.ms", "20000");
        settings.put("default.api.timeout.ms", "10000");
        if (protocol.equals("classic")) {
            settings.put("heartbeat.interval.ms", "500");
            settings.put("session.timeout.ms", "10000");
            Class<?> assigning = assignor.equals("range") ? RangeAssignor.class : CooperativeStickyAssignor.class;
            settings.put("partition.assignment.strategy", assigning.getName());
        }
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] args) throws Exception {
        Member member = new Member(args[0], args[2], args[3], args[4], args[5]);
        Thread watching = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (java.io.IOException closed) {
                // It is to end as well.
            }
            member.ends = true;
        });
        watching.setDaemon(true);
        watching.start();
        member.run(args[1]);
    }

    private void run(String topic) {
        say("here");
        consumer.subscribe(Collections.singletonList(topic), this);
        while (!ends) {
            try {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(200));
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (TopicPartition place : found.partitions()) {
                    List<ConsumerRecord<byte[], byte[]>> records = found.records(place);
                    long last = records.get(records.size() - 1).offset();
                    say("read " + place.partition() + " " + records.get(0).offset() + " " + last);
                    next.put(place, new OffsetAndMetadata(last + 1));
                }
                if (!next.isEmpty()) consumer.commitSync(next);
            } catch (KafkaException refused) {
                System.err.println(refused);
            }
        }
        consumer.close(Duration.ofSeconds(5));
    }

    private static void say(String line) {
        System.out.println(System.currentTimeMillis() + " " + line);
    }

    private static String numbers(Collection<TopicPartition> places) {
        return places.stream().map(place -> String.valueOf(place.partition())).collect(Collectors.joining(","));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        say("got " + numbers(places));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {
        say("gave " + numbers(places));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> places) {
        say("lost " + numbers(places));
    }
}
