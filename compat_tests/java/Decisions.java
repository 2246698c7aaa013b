import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;

/**
 * Asks an authorizer of Kafka: {@code Decisions CLASS SUPER_USERS ALLOW_EVERYONE ZOOKEEPER}. Lines on the standard
 * input, with tabs between the words, are rules ("R"), "go" to put all since the last "go" in force in place of others,
 * wishes about a resource ("Q") and about any of a type ("T"); each wish is answered with 1 or 0.
 */
public final class Decisions {
    private Decisions() {
    }

    public static void main(String[] args) throws Exception {
        Authorizer authorizer = (Authorizer) Class.forName(args[0]).getDeclaredConstructor().newInstance();
        Map<String, Object> settings = new HashMap<>();
        settings.put("super.users", args[1]);
        settings.put("allow.everyone.if.no.acl.found", args[2]);
        settings.put("zookeeper.connect", args[3]);
        settings.put("node.id", "1");
        settings.put("broker.id", "1");
        authorizer.configure(settings);
        boolean isStandard = args[0].contains("StandardAuthorizer");
        if (isStandard) {
            count(authorizer);
        }
        List<AclBinding> rules = new ArrayList<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            if (words[0].equals("R")) {
                rules.add(rule(words));
            } else if (words[0].equals("go")) {
                if (isStandard) {
                    load(authorizer, rules);
                } else {
                    authorizer.deleteAcls(new Asker("User:x", "127.0.0.1"), List.of(AclBindingFilter.ANY));
                    authorizer.createAcls(new Asker("User:x", "127.0.0.1"), rules);
                }
                rules = new ArrayList<>();
            } else {
                answers.append(asked(authorizer, words) == AuthorizationResult.ALLOWED ? '1' : '0');
            }
        }
        System.out.println(answers);
        System.exit(0);
    }

    private static AclBinding rule(String[] words) {
        return new AclBinding(
            new ResourcePattern(ResourceType.valueOf(words[1]), words[2], PatternType.valueOf(words[3])),
            new AccessControlEntry(
                words[4], words[5], AclOperation.valueOf(words[6]), AclPermissionType.valueOf(words[7])));
    }

    private static AuthorizationResult asked(Authorizer authorizer, String[] words) throws Exception {
        Asker asker = new Asker(words[1], words[2]);
        AclOperation operation = AclOperation.valueOf(words[3]);
        ResourceType type = ResourceType.valueOf(words[4]);
        if (words[0].equals("T")) {
            return authorizer.authorizeByResourceType(asker, operation, type);
        }
        ResourcePattern pattern = new ResourcePattern(type, words[5], PatternType.LITERAL);
        return authorizer.authorize(asker, List.of(new Action(operation, pattern, 1, false, false))).get(0);
    }

    private static void count(Authorizer authorizer) throws Exception {
        Object metrics = Class.forName("org.apache.kafka.common.metrics.internals.PluginMetricsImpl")
            .getConstructor(Metrics.class, Map.class).newInstance(new Metrics(), Map.of());
        Class<?> kind = Class.forName("org.apache.kafka.common.metrics.PluginMetrics");
        authorizer.getClass().getMethod("withPluginMetrics", kind).invoke(authorizer, metrics);
    }

    private static void load(Authorizer authorizer, List<AclBinding> rules) throws Exception {
        Class<?> kind = Class.forName("org.apache.kafka.metadata.authorizer.StandardAcl");
        Map<Uuid, Object> all = new HashMap<>();
        for (AclBinding each : rules) {
            all.put(Uuid.randomUuid(), kind.getMethod("fromAclBinding", AclBinding.class).invoke(null, each));
        }
        authorizer.getClass().getMethod("loadSnapshot", Map.class).invoke(authorizer, all);
        authorizer.getClass().getMethod("completeInitialLoad").invoke(authorizer);
    }
}
