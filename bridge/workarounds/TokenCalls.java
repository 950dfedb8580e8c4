import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.concurrent.ConcurrentSkipListMap;
import GRPC.InternalChannelz;
import GRPC.Metadata;
import GRPC.ServerCall;
import GRPC.ServerCallHandler;
import GRPC.ServerInterceptor;
import GRPC.Status;

/** Lets Beam's servers in this JVM answer only calls with a token; local_servers.py puts the package of its gRPC for GRPC. */
public class TokenCalls implements ServerInterceptor {
    private static final Metadata.Key HEADER = Metadata.Key.of("akdl-token", Metadata.ASCII_STRING_MARSHALLER);
    private byte[] token;

    /** Ask for a token at servers that are made from now on. */
    public void ask(String token) throws Exception {
        this.token = token.getBytes(StandardCharsets.US_ASCII);
        // Servers of the gRPC of Flink 1.20 have no global interceptors. Those of each release enter themselves in this map
        // at the end of their constructor, and Beam gives interceptors to its services, never to a server.
        set(InternalChannelz.instance(), "servers", new Servers(this));
    }

    private static void set(Object object, String name, Object value) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
        String given = (String) headers.get(HEADER);
        if (given == null || !MessageDigest.isEqual(given.getBytes(StandardCharsets.US_ASCII), token)) {
            call.close(Status.UNAUTHENTICATED.withDescription("the token is missing"), new Metadata());
            return new Refused();
        }
        return next.startCall(call, headers);
    }

    private static class Refused extends ServerCall.Listener {}

    /** The list of servers that gRPC keeps for its own diagnosis; a server that enters it asks for the token. */
    private static class Servers extends ConcurrentSkipListMap {
        private final ServerInterceptor asks;

        Servers(ServerInterceptor asks) {
            this.asks = asks;
        }

        public Object put(Object id, Object server) {
            try {
                set(server, "interceptors", new ServerInterceptor[] {asks});
            } catch (Exception error) {
                // A server without the token must not start.
                throw new IllegalStateException(error);
            }
            return super.put(id, server);
        }
    }
}
