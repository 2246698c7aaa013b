import java.net.InetAddress;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/** Who asks an authorizer of Kafka, and from where. */
final class Asker implements AuthorizableRequestContext {
    private final KafkaPrincipal principal;
    private final InetAddress address;

    Asker(String principal, String host) throws Exception {
        String[] parts = principal.split(":", 2);
        this.principal = new KafkaPrincipal(parts[0], parts[1]);
        this.address = InetAddress.getByName(host);
    }

    @Override
    public String listenerName() {
        return "INSIDE";
    }

    @Override
    public SecurityProtocol securityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    @Override
    public KafkaPrincipal principal() {
        return principal;
    }

    @Override
    public InetAddress clientAddress() {
        return address;
    }

    @Override
    public int requestType() {
        return 3;
    }

    @Override
    public int requestVersion() {
        return 0;
    }

    @Override
    public String clientId() {
        return "";
    }

    @Override
    public int correlationId() {
        return 0;
    }
}
