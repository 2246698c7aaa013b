import java.util.List;
import java.util.Map;
import java.util.Random;
import kafka.security.authorizer.AclAuthorizer;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import scala.collection.mutable.HashSet;

/**
 * Times decisions of AclAuthorizer: {@code DecisionTimes ZOOKEEPER RESOURCES RULES DECISIONS WARM_UP PREFIXED}. Each
 * resource has so many rules, one for each user; who asks is another user and another resource each time. Prints
 * nanoseconds per decision, and how many were allowed.
 */
public final class DecisionTimes {
    private DecisionTimes() {
    }

    public static void main(String[] args) throws Exception {
        AclAuthorizer authorizer = new AclAuthorizer();
        authorizer.configure(Map.of("zookeeper.connect", args[0], "broker.id", "1"));
        int resources = Integer.parseInt(args[1]);
        int rules = Integer.parseInt(args[2]);
        int decisions = Integer.parseInt(args[3]);
        boolean isPrefixed = Boolean.parseBoolean(args[5]);
        for (int number = 0; number < resources; number++) {
            PatternType type = isPrefixed ? PatternType.PREFIXED : PatternType.LITERAL;
            authorizer.updateCache(pattern(number, type), new AclAuthorizer.VersionedAcls(acls(rules), 1));
        }
        Random random = new Random(1);
        Asker[] askers = new Asker[rules];
        for (int user = 0; user < rules; user++) {
            askers[user] = new Asker("User:user-" + user, "127.0.0.1");
        }
        time(authorizer, askers, random, resources, Integer.parseInt(args[4]));
        long before = System.nanoTime();
        int allowed = time(authorizer, askers, random, resources, decisions);
        System.out.println((System.nanoTime() - before) / decisions + " " + allowed);
        System.exit(0);
    }

    private static int time(AclAuthorizer authorizer, Asker[] askers, Random random, int resources, int decisions) {
        int allowed = 0;
        for (int number = 0; number < decisions; number++) {
            ResourcePattern asked = pattern(random.nextInt(resources), PatternType.LITERAL);
            Action action = new Action(AclOperation.WRITE, asked, 1, false, false);
            AuthorizationResult found =
                authorizer.authorize(askers[random.nextInt(askers.length)], List.of(action)).get(0);
            allowed += found == AuthorizationResult.ALLOWED ? 1 : 0;
        }
        return allowed;
    }

    private static ResourcePattern pattern(int number, PatternType type) {
        return new ResourcePattern(ResourceType.TOPIC, String.format("topic-%05d", number), type);
    }

    private static scala.collection.immutable.Set<AclEntry> acls(int rules) {
        HashSet<AclEntry> found = new HashSet<>();
        for (int user = 0; user < rules; user++) {
            AclOperation operation = user % 2 == 0 ? AclOperation.WRITE : AclOperation.READ;
            found.add(new AclEntry(
                new AccessControlEntry("User:user-" + user, "*", operation, AclPermissionType.ALLOW)));
        }
        return found.toSet();
    }
}
