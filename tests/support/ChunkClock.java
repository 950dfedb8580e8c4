import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.operators.ProcessingTimeService.ProcessingTimeCallback;
import org.apache.flink.metrics.SimpleCounter;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.types.Row;

/** The output and the clock of an operator without a task: time is what a test says; see chunk_clock.py. */
public class ChunkClock implements InvocationHandler {
    private final List chunks = new ArrayList();
    private final SimpleCounter rowsDone = new SimpleCounter();
    private long rowsBefore;
    private long now;
    private long dueAt;
    private ProcessingTimeCallback due;

    /** Counts the rows that have left. */
    public SimpleCounter rowsDone() {
        return rowsDone;
    }

    public Object proxy() {
        return Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class[] {Output.class, ProcessingTimeService.class}, this);
    }

    /**
     * Give rows of one BIGINT at these milliseconds.
     *
     * @return for each chunk when it left, for whom or of which kind, and how many rows it has
     */
    public List run(OneInputStreamOperator operator, long[] arrivals) throws Exception {
        long number = 0;
        for (long arrival : arrivals) {
            fireUntil(arrival);
            operator.processElement(new StreamRecord(GenericRowData.of(number++)));
        }
        fireUntil(Long.MAX_VALUE);
        return chunks;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) {
        if (method.getName().equals("getCurrentProcessingTime")) {
            return now;
        }
        if (method.getName().equals("registerTimer")) {
            if (due != null) {
                throw new IllegalStateException("a second timer");
            }
            dueAt = (Long) arguments[0] + 1; // as in SystemProcessingTimeService: that millisecond has to be over
            due = (ProcessingTimeCallback) arguments[1];
        } else if (method.getName().equals("collect")) {
            Row element = (Row) ((StreamRecord) arguments[0]).getValue();
            chunks.add(new long[] {now, ((Number) element.getField(0)).longValue(), rowsDone.getCount() - rowsBefore});
            rowsBefore = rowsDone.getCount();
        }
        return null;
    }

    /** Fire what is due before a time, at its own time, and set the clock. */
    private void fireUntil(long time) throws Exception {
        while (due != null && dueAt <= time) {
            ProcessingTimeCallback callback = due;
            due = null;
            now = dueAt;
            callback.onProcessingTime(dueAt);
        }
        now = time;
    }
}
