import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Asks Kafka's assignors. Lines on the standard input, with tabs between the words: a topic ("T", id, partitions), a
 * member ("M", id, instance id or empty, rack or empty, topic ids, what it has), and "go" with an assignor, a kind of subscription
 * and the id of a member who is about to join, or empty. That is answered with a line of members, in the order in which
 * their targets are written; topics and members are forgotten then. What a member has is written "topic:0,1;topic:2", or
 * is "=" and the id of a member, for what that one got last.
 */
public final class Assignors implements SubscribedTopicDescriber {
    private final Map<Uuid, Integer> topics = new HashMap<>();
    private final Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
    private final Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
    private Map<String, Map<String, Set<Integer>>> last = Map.of();

    private Assignors() {
    }

    public static void main(String[] args) throws Exception {
        Assignors asked = new Assignors();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "T":
                    asked.topics.put(Uuid.fromString(words[1]), Integer.parseInt(words[2]));
                    break;
                case "M":
                    asked.member(words);
                    break;
                default:
                    answers.append(asked.assigned(words[1], SubscriptionType.valueOf(words[2]), words[3])).append('\n');
            }
        }
        System.out.print(answers);
    }

    private void member(String[] words) {
        Set<Uuid> subscribed = new LinkedHashSet<>();
        for (String each : listed(words[4], ",")) {
            subscribed.add(Uuid.fromString(each));
        }
        Map<String, Set<Integer>> had = words[5].startsWith("=")
            ? last.getOrDefault(words[5].substring(1), Map.of())
            : read(words[5]);
        Map<Uuid, Set<Integer>> assigned = new HashMap<>();
        had.forEach((topic, partitions) -> {
            Uuid id = Uuid.fromString(topic);
            assigned.put(id, new HashSet<>(new ArrayList<>(partitions)));
            for (int partition : partitions) {
                owners.computeIfAbsent(id, same -> new HashMap<>()).put(partition, words[1]);
            }
        });
        members.put(words[1], new MemberSubscriptionAndAssignmentImpl(
            given(words[3]), given(words[2]), subscribed, new Assignment(assigned)));
    }

    private String assigned(String assignor, SubscriptionType type, String joining) {
        Map<String, MemberSubscriptionAndAssignmentImpl> group =
            new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        MemberSubscriptionAndAssignmentImpl joins = members.remove(joining);
        group.putAll(members);
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        group.forEach(specs::put);
        if (joins != null) {
            specs.put(joining, joins);
        }
        ConsumerGroupPartitionAssignor asked =
            assignor.equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberAssignment> found =
            asked.assign(new GroupSpecImpl(Collections.unmodifiableMap(specs), type, owners), this).members();
        last = new HashMap<>();
        List<String> lines = new ArrayList<>();
        for (String member : specs.keySet()) {
            Map<String, Set<Integer>> its = sorted(found.get(member));
            last.put(member, its);
            List<String> topicsOfIt = new ArrayList<>();
            its.forEach((topic, partitions) -> topicsOfIt.add(topic + ":" + joined(partitions)));
            lines.add(member + "=" + String.join(";", topicsOfIt));
        }
        topics.clear();
        members.clear();
        owners.clear();
        return String.join("\t", lines);
    }

    /** Ids in the order of their bytes, so that nothing hangs on how a set came about. */
    private static Map<String, Set<Integer>> sorted(MemberAssignment assignment) {
        Map<String, Set<Integer>> sorted = new TreeMap<>((one, other) -> {
            Uuid first = Uuid.fromString(one);
            Uuid second = Uuid.fromString(other);
            int order = Long.compareUnsigned(first.getMostSignificantBits(), second.getMostSignificantBits());
            return order != 0 ? order
                : Long.compareUnsigned(first.getLeastSignificantBits(), second.getLeastSignificantBits());
        });
        if (assignment != null) {
            assignment.partitions().forEach((id, partitions) -> {
                if (!partitions.isEmpty()) {
                    sorted.put(id.toString(), new TreeSet<>(partitions));
                }
            });
        }
        return sorted;
    }

    private static Map<String, Set<Integer>> read(String text) {
        Map<String, Set<Integer>> found = new LinkedHashMap<>();
        for (String each : listed(text, ";")) {
            String[] parts = each.split(":");
            Set<Integer> partitions = new LinkedHashSet<>();
            for (String number : parts[1].split(",")) {
                partitions.add(Integer.parseInt(number));
            }
            found.put(parts[0], partitions);
        }
        return found;
    }

    private static String joined(Set<Integer> numbers) {
        List<String> texts = new ArrayList<>();
        numbers.forEach(number -> texts.add(number.toString()));
        return String.join(",", texts);
    }

    private static String[] listed(String text, String by) {
        return text.isEmpty() ? new String[0] : text.split(by);
    }

    private static Optional<String> given(String text) {
        return text.isEmpty() ? Optional.empty() : Optional.of(text);
    }

    @Override
    public int numPartitions(Uuid topicId) {
        return topics.getOrDefault(topicId, -1);
    }

    @Override
    public Set<String> racksForPartition(Uuid topicId, int partition) {
        return Set.of("r" + partition % 3);
    }
}
