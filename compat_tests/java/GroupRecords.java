import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

/**
 * Answers each line of JSON on the standard input with one: the bytes of a record ("kind", "key", "value") or of what a
 * member of a classic group sends or gets ("embedded", "version", "value"), the hash of a topic ("topic", "id",
 * "partitions", "racks"), or that of a group ("topics", a map of hashes).
 */
public final class GroupRecords {
    private GroupRecords() {
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode asked = (ObjectNode) json.readTree(line);
            if (asked.has("kind")) {
                record(asked);
            } else if (asked.has("embedded")) {
                asked.put("bytes", embedded(asked.get("embedded").asText(), asked));
            } else if (asked.has("topic")) {
                asked.put("hash", topicHash(asked));
            } else {
                Map<String, Long> hashes = new HashMap<>();
                asked.get("topics").fields().forEachRemaining(each -> hashes.put(each.getKey(), each.getValue().asLong()));
                asked.put("hash", Utils.computeGroupHash(hashes));
            }
            output.println(json.writeValueAsString(asked));
        }
    }

    private static void record(ObjectNode asked) {
        short kind = (short) asked.get("kind").asInt();
        ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(asked.get("key"), kind);
        asked.put("key_bytes", MessageUtil.toCoordinatorTypePrefixedBytes(key));
        ApiMessage value = CoordinatorRecordJsonConverters.readRecordValueFromJson(asked.get("value"), kind, (short) 0);
        asked.put("value_bytes", MessageUtil.toVersionPrefixedBytes((short) 0, value));
    }

    private static byte[] embedded(String name, JsonNode asked) {
        short version = (short) asked.get("version").asInt();
        JsonNode value = asked.get("value");
        ApiMessage message = name.endsWith("Subscription")
            ? ConsumerProtocolSubscriptionJsonConverter.read(value, version)
            : ConsumerProtocolAssignmentJsonConverter.read(value, version);
        return MessageUtil.toVersionPrefixedBytes(version, message);
    }

    private static long topicHash(JsonNode asked) {
        String name = asked.get("topic").asText();
        Uuid id = Uuid.fromString(asked.get("id").asText());
        int partitions = asked.get("partitions").asInt();
        CoordinatorMetadataImage.TopicMetadata topic = new CoordinatorMetadataImage.TopicMetadata() {
            @Override
            public String name() {
                return name;
            }

            @Override
            public Uuid id() {
                return id;
            }

            @Override
            public int partitionCount() {
                return partitions;
            }

            @Override
            public List<String> partitionRacks(int partition) {
                List<String> racks = new ArrayList<>();
                JsonNode all = asked.get("racks");
                if (all.has(partition)) {
                    all.get(partition).forEach(rack -> racks.add(rack.asText()));
                }
                return racks;
            }
        };
        CoordinatorMetadataImage image = (CoordinatorMetadataImage) Proxy.newProxyInstance(
            GroupRecords.class.getClassLoader(),
            new Class<?>[] {CoordinatorMetadataImage.class},
            (proxy, method, arguments) -> Optional.of(topic)
        );
        return Utils.computeTopicHash(name, image);
    }
}
