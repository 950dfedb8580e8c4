import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.flink.client.deployment.executors.LocalExecutor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.core.execution.DefaultExecutorServiceLoader;
import org.apache.flink.runtime.messages.webmonitor.ClusterOverview;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.RpcServiceSharing;
import org.apache.flink.streaming.api.environment.LocalStreamEnvironment;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Local jobs of one JVM run on the same mini cluster, where their settings are the usual ones; see mini_clusters.py. */
public class SharedMiniClusters {
    private static final String SLOTS_OF = "taskmanager.numberOfTaskSlots";
    private static final int SLOTS = 16;
    private static final int LARGEST_JOB = 4;
    private static final String[] OF_A_CLUSTER = {
        "execution.checkpointing.", "restart-strategy.", "jobmanager.", "taskmanager.", "rest.", "security.ssl.rest.", "pekko.", "cluster."
    };
    private static final String[] OF_A_JOB = {
        "$internal.", "__table.", "python.", "pipeline.", "table.", "execution.", "parallelism.default"
    };
    private static final Map clusters = new HashMap();
    private static final List replaced = new ArrayList(); // whose last jobs may still run
    private static Supplier ofProgram; // `rpcSystem` is a field of MiniCluster

    /** All mini clusters, those of one job too, borrow this RPC system. */
    public void borrow(Supplier system) {
        ofProgram = system;
    }

    /** Let an environment use them, where it runs local jobs. */
    public void share(StreamExecutionEnvironment environment) throws Exception {
        if (environment instanceof LocalStreamEnvironment) {
            Field executors = StreamExecutionEnvironment.class.getDeclaredField("executorServiceLoader");
            executors.setAccessible(true);
            executors.set(environment, new Executors());
        }
    }

    /** End all of them. */
    public void close() throws Exception {
        synchronized (SharedMiniClusters.class) {
            replaced.addAll(clusters.values());
            clusters.clear();
            for (Object each : replaced) {
                ((Shared) each).end();
            }
            replaced.clear();
        }
    }

    static synchronized MiniCluster clusterFor(MiniClusterConfiguration wanted) throws Exception {
        Configuration configuration = new Configuration((Configuration) wanted.getConfiguration());
        int slots = Integer.parseInt((String) configuration.toMap().get(SLOTS_OF));
        boolean isUsual = wanted.getNumTaskManagers() == 1 && slots <= LARGEST_JOB;
        String key = "";
        for (Object each : configuration.toMap().entrySet()) {
            Map.Entry entry = (Map.Entry) each;
            String name = (String) entry.getKey();
            if (isOneOf(name, OF_A_CLUSTER)) {
                key = key + (SLOTS_OF.equals(name) ? "" : entry + " ");
            } else if (!isOneOf(name, OF_A_JOB)) {
                isUsual = false;
            }
        }
        if (!isUsual) {
            return new MiniCluster(wanted, ofProgram);
        }
        Shared shared = (Shared) clusters.get(key);
        if (shared == null || shared.hasEnded()) {
            if (shared != null) {
                replaced.add(shared);
            }
            // A slot has the memory that one of a cluster with as many slots as its job needs would have.
            configuration.setString("taskmanager.memory.managed.size", 128 / LARGEST_JOB * SLOTS + "m");
            shared = new Shared(
                new MiniClusterConfiguration.Builder()
                    .setConfiguration(configuration)
                    .setNumTaskManagers(1)
                    .setNumSlotsPerTaskManager(SLOTS)
                    .setRpcServiceSharing(RpcServiceSharing.SHARED)
                    .build());
            clusters.put(key, shared);
        }
        return shared;
    }

    private static boolean isOneOf(String name, String[] prefixes) {
        for (String prefix : prefixes) {
            if (name.startsWith(prefix)) {
                return true;
            }
        }
        return false;
    }

    /** Runs jobs as Flink runs local ones, but for the cluster. */
    public static class Executors extends DefaultExecutorServiceLoader implements PipelineExecutorFactory, Function {
        public PipelineExecutorFactory getExecutorFactory(Configuration configuration) {
            return this;
        }

        public String getName() {
            return "local";
        }

        public boolean isCompatibleWith(Configuration configuration) {
            return true;
        }

        public PipelineExecutor getExecutor(Configuration configuration) {
            return LocalExecutor.createWithFactory(configuration, this);
        }

        public Object apply(Object wanted) {
            try {
                return clusterFor((MiniClusterConfiguration) wanted);
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }
    }

    /** A cluster that does not end with its job. */
    public static class Shared extends MiniCluster {
        private volatile boolean isStarted;

        public Shared(MiniClusterConfiguration configuration) {
            super(configuration, ofProgram);
        }

        public synchronized void start() throws Exception {
            if (!isRunning()) {
                super.start();
                isStarted = true;
            }
        }

        public CompletableFuture closeAsync() {
            return CompletableFuture.completedFuture(null);
        }

        /** Whether jobs would wait in vain: it has ended, a failure took its TaskManager, or an earlier job holds its slots. */
        boolean hasEnded() throws Exception {
            if (!isStarted) {
                return false;
            }
            if (!isRunning()) {
                return true;
            }
            ClusterOverview overview = (ClusterOverview) requestClusterOverview().get();
            return overview.getNumSlotsAvailable() < LARGEST_JOB;
        }

        void end() throws Exception {
            super.closeAsync().get();
        }
    }
}
