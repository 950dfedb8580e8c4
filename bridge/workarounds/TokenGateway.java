import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.python.shaded.py4j.CallbackClient;
import org.apache.flink.api.python.shaded.py4j.Gateway;
import org.apache.flink.api.python.shaded.py4j.GatewayServer;
import org.apache.flink.client.python.PythonGatewayServer;

/** PyFlink's PythonGatewayServer with a token for its callers, which is a line of stdin; see gateway.py. */
public class TokenGateway {
    private static final int TRIES = 100; // of 0.1 s

    public static void main(String[] arguments) {
        try {
            run(new BufferedReader(new InputStreamReader(System.in, "UTF-8")).readLine());
        } catch (Throwable error) {
            error.printStackTrace();
        } finally {
            System.exit(1);
        }
    }

    private static void run(String token) throws Exception {
        Map entryPoint = new ConcurrentHashMap();
        CallbackClient callbacks =
            new CallbackClient(GatewayServer.DEFAULT_PYTHON_PORT, GatewayServer.defaultAddress(), token);
        GatewayServer server =
            new GatewayServer.GatewayServerBuilder()
                .gateway(new Gateway(entryPoint, callbacks))
                .javaPort(0)
                .authToken(token)
                .build();
        Method setGatewayServer =
            Class.forName("org.apache.flink.client.python.PythonEnvUtils")
                .getDeclaredMethod("setGatewayServer", GatewayServer.class);
        setGatewayServer.setAccessible(true);
        setGatewayServer.invoke(null, server);
        server.start(true);

        File wanted = new File(System.getenv("_PYFLINK_CONN_INFO_PATH"));
        File written = new File(wanted.getPath() + ".new");
        DataOutputStream port = new DataOutputStream(new FileOutputStream(written));
        port.writeInt(server.getListeningPort());
        port.close();
        if (!written.renameTo(wanted)) {
            throw new IllegalStateException("cannot write " + wanted);
        }

        for (int i = 0; i < TRIES && !entryPoint.containsKey("Watchdog"); i++) {
            Thread.sleep(100);
        }
        PythonGatewayServer.Watchdog watchdog = (PythonGatewayServer.Watchdog) entryPoint.get("Watchdog");
        while (watchdog.ping()) { // fails when the program has ended
            Thread.sleep(100);
        }
    }
}
