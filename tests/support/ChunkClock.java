import java.io.ByteArrayOutputStream;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.operators.ProcessingTimeService.ProcessingTimeCallback;
import org.apache.flink.api.python.shaded.org.apache.arrow.memory.BufferAllocator;
import org.apache.flink.metrics.SimpleCounter;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.runtime.arrow.ArrowUtils;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.Row;

/** Runs RowsToArrow without a task and without Flink's clock: time is what a test says; see chunk_clock.py. */
public class ChunkClock implements InvocationHandler {
    private final List chunks = new ArrayList();
    private final SimpleCounter rowsDone = new SimpleCounter();
    private long rowsBefore;
    private long now;
    private long dueAt;
    private ProcessingTimeCallback due;

    /**
     * Give rows of one BIGINT, streams' way, at these milliseconds.
     *
     * @param operator the class RowsToArrow
     * @param keys null for a predictor's
     * @return for each chunk when it left, for whom or of which kind, and how many rows it has
     */
    public List run(Class operator, RowType type, long[] keys, int mostRows, int mostBytes, int waitMs, long[] arrivals)
            throws Exception {
        Object both = Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class[] {Output.class, ProcessingTimeService.class}, this);
        BufferAllocator allocator = ArrowUtils.getRootAllocator().newChildAllocator("akdl", 0, Long.MAX_VALUE);
        Field unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        // Its constructor and `open` ask a task for much that is of no account here.
        OneInputStreamOperator made = (OneInputStreamOperator)
            unsafe.getType().getMethod("allocateInstance", Class.class).invoke(unsafe.get(null), operator);
        Class kind = operator.getClassLoader().loadClass("RowsToArrow$Chunk");
        Constructor constructor = kind.getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        Object chunks = Array.newInstance(kind, 1);
        Array.set(chunks, 0, constructor.newInstance(type, allocator));
        Object[] values = new Object[] {
            "type", type, "keys", keys, "sendsAllOut", keys == null, "dealsRows", false, "mostRows", mostRows,
            "mostBytes", mostBytes, "waitMs", waitMs, "allocator", allocator, "chunks", chunks,
            "hasSentStart", true, "out", new StreamRecord(null), "rowsDone", rowsDone,
            "bytesDone", new SimpleCounter(), "bytes", new ByteArrayOutputStream(), "waitedMs", new SimpleCounter(), "output", both, "processingTimeService", both
        };
        for (int i = 0; i < values.length; i += 2) {
            field(operator, (String) values[i]).set(made, values[i + 1]);
        }
        try {
            long number = 0;
            for (long arrival : arrivals) {
                fireUntil(arrival);
                made.processElement(new StreamRecord(GenericRowData.of(number++)));
            }
            fireUntil(Long.MAX_VALUE);
        } finally {
            Method close = kind.getDeclaredMethod("close");
            close.setAccessible(true);
            close.invoke(Array.get(chunks, 0));
            allocator.close();
        }
        return this.chunks;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (method.getName().equals("getCurrentProcessingTime")) {
            return now;
        }
        if (method.getName().equals("registerTimer")) {
            if (due != null) {
                throw new IllegalStateException("a second timer");
            }
            dueAt = (Long) arguments[0];
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

    private static Field field(Class operator, String name) throws Exception {
        for (Class each = operator; each != null; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field;
                }
            }
        }
        throw new NoSuchFieldException(name);
    }
}
