import java.lang.reflect.Field;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.flink.client.deployment.executors.LocalExecutor;
import org.apache.flink.client.deployment.executors.LocalExecutorFactory;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.DefaultExecutorServiceLoader;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.rpc.RpcSystem;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Reference;

/** The RPC system of all mini clusters of a program; see local_servers.py. */
public class OneRpcSystem extends DefaultExecutorServiceLoader
    implements PipelineExecutorFactory, Function, Supplier, Runnable {
    private RpcSystem system;

    /** Load the system meanwhile. */
    public void load() {
        Thread thread = new Thread(this, "akdl-rpc-system");
        thread.setDaemon(true);
        thread.start();
    }

    /** Let the local jobs of an environment use it, unless something else runs them. */
    public void share(StreamExecutionEnvironment environment) throws Exception {
        Field loader = StreamExecutionEnvironment.class.getDeclaredField("executorServiceLoader");
        loader.setAccessible(true);
        if (loader.get(environment).getClass() == DefaultExecutorServiceLoader.class) {
            loader.set(environment, this);
        }
    }

    /** Load it, and what its first actor system needs: half a second that the first job would wait. */
    public void run() {
        get();
        try {
            system.localServiceBuilder(new Configuration()).createAndStart().closeAsync();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    public PipelineExecutorFactory getExecutorFactory(Configuration configuration) {
        PipelineExecutorFactory found = super.getExecutorFactory(configuration);
        return found instanceof LocalExecutorFactory ? this : found;
    }

    public String getName() {
        return LocalExecutor.NAME;
    }

    public boolean isCompatibleWith(Configuration configuration) {
        return true;
    }

    public PipelineExecutor getExecutor(Configuration configuration) {
        return LocalExecutor.createWithFactory(configuration, this);
    }

    public Object apply(Object configuration) {
        return new MiniCluster((MiniClusterConfiguration) configuration, this);
    }

    /** Lend it: a mini cluster closes only what it owns. */
    public synchronized Object get() {
        try {
            if (system == null) {
                // By reflection, since Janino cannot call a static method of an interface.
                system = (RpcSystem) RpcSystem.class.getMethod("load", Configuration.class).invoke(null, new Configuration());
            }
            return Reference.borrowed(system);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
