import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;

/**
 * HDFS and YARN in one JVM, until it is killed: {@code MiniYarn FILE NODE_MANAGERS KEY=VALUE...}
 * writes the configuration of clients to FILE, and again and again a line for each application to
 * FILE.applications. The ResourceManager's REST does not answer next to NodeManagers in one JVM.
 */
public class MiniYarn {
    public static void main(String[] arguments) {
        try {
            start(arguments);
        } catch (Throwable error) {
            // Threads of the servers would keep the JVM.
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void start(String[] arguments) throws Exception {
        Configuration configuration = new YarnConfiguration();
        for (String entry : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] parts = entry.split("=", 2);
            configuration.set(parts[0], parts[1]);
        }
        // It sets its address in the configuration.
        new MiniDFSCluster.Builder(configuration).build();
        MiniYARNCluster yarn = new MiniYARNCluster("yarn", Integer.parseInt(arguments[1]), 1, 1);
        yarn.init(configuration);
        yarn.start();
        yarn.waitForNodeManagersToConnect(600_000);
        // A class of HDFS for tests, which clients do not have.
        yarn.getConfig().unset("net.topology.node.switch.mapping.impl");
        Path written = Path.of(arguments[0] + ".new");
        try (OutputStream out = new FileOutputStream(written.toFile())) {
            yarn.getConfig().writeXml(out);
        }
        Files.move(written, Path.of(arguments[0]));
        while (true) {
            StringBuilder lines = new StringBuilder();
            for (RMApp each : yarn.getResourceManager().getRMContext().getRMApps().values()) {
                lines.append(each.getApplicationId() + " " + each.createApplicationState());
                lines.append(" " + each.getFinalApplicationStatus() + "\n");
            }
            Files.writeString(written, lines);
            Path applications = Path.of(arguments[0] + ".applications");
            Files.move(written, applications, StandardCopyOption.REPLACE_EXISTING);
            Thread.sleep(200);
        }
    }
}
