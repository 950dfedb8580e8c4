import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import GRPC.InternalGlobalInterceptors;
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
        List interceptors = new ArrayList();
        interceptors.add(this);
        // The public method for this fails once a server exists.
        set("serverInterceptors", interceptors);
        set("serverStreamTracerFactories", new ArrayList());
    }

    private static void set(String name, List value) throws Exception {
        String accessor = InternalGlobalInterceptors.class.getName();
        Field field = Class.forName(accessor.replace("Internal", "")).getDeclaredField(name);
        field.setAccessible(true);
        field.set(null, value);
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
}
