import org.apache.flink.api.python.shaded.org.apache.arrow.memory.BufferAllocator;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.streaming.runtime.tasks.StreamTask;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.arrow.ArrowUtils;
import org.apache.flink.table.runtime.operators.TableStreamOperator;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.Row;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;

/**
 * What RowsToArrow, ArrowToRows and LateRows have in common: settings, Arrow's memory, metrics, and the END of the input.
 *
 * <p>Their texts are compiled together with this one, whose imports are theirs too. A setting is a public field, which the
 * constructor fills from a map of names, so a setting that nobody gives has Java's default.
 */
abstract class ChunkOperator extends TableStreamOperator implements OneInputStreamOperator, BoundedOneInput, Gauge {
  static final int CHUNK = 0; // kinds of elements, see elements.py
  static final int START = 1;
  static final int WATERMARK = 4;
  static final int IDLE = 5;
  static final int PIECE = 6;
  static final int CHECKPOINT = 7;
  static final int COMPLETE = 8;
  static final int END = 9;
  static final int ALL_OUT = 10;

  public RowType type;
  public String folder;
  public boolean ends; // END has to be the last element of the input
  BufferAllocator allocator;
  StreamRecord out;
  Counter rowsDone;
  Counter bytesDone;
  boolean inputHasEnded;
  long restored; // the checkpoint that the job continues from, or -1

  ChunkOperator(Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService service)
      throws Exception {
    Map settings = (Map) references[0];
    for (Object name : settings.keySet()) {
      Field field = getClass().getField((String) name);
      field.set(this, settings.get(name));
    }
    setup(task, config, output);
    setProcessingTimeService(service);
  }

  public void initializeState(StateInitializationContext context) throws Exception {
    super.initializeState(context);
    restored = context.getRestoredCheckpointId().orElse(-1L);
  }

  void openArrow() throws Exception {
    silenceBeam();
    out = new StreamRecord(null);
    ArrowUtils.checkArrowUsable(); // sets a property for all users of Arrow in this JVM, if it is the first one
    allocator = ArrowUtils.getRootAllocator().newChildAllocator("akdl", 0, Long.MAX_VALUE);
    getMetricGroup().gauge("arrowBytes", this);
    rowsDone = counter("rows");
    bytesDone = counter("bytes");
  }

  Counter counter(String name) {
    return getMetricGroup().addGroup("akdl").counter(name);
  }

  public void endInput() throws Exception {
    if (ends && !inputHasEnded && restored < 0) { // before a restored checkpoint it may have come already
      throw new IllegalStateException("the last results of an operator did not arrive, so rows are missing. Run the job again");
    }
  }

  public void close() throws Exception {
    try {
      super.close();
    } finally {
      release();
      if (allocator != null) {
        allocator.close(); // fails when memory has not been released
      }
    }
  }

  /** Give Arrow's memory back. */
  void release() {}

  /** Off-heap memory in use, a metric. */
  public Object getValue() {
    return allocator.getAllocatedMemory();
  }

  /**
   * Silence the log of Beam's DefaultJobBundleFactory, with the text of each operator.
   *
   * <p>When a task ends, its `close` takes back the references to a Python worker in two steps, and logs between them. A bundle
   * that ends meanwhile gives its reference back too, so the count falls below zero, which Flink takes as fatal: the
   * TaskManager ends, and a local job never gets another one.
   */
  private static void silenceBeam() {
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      Class beam = Class.forName("org.apache.beam.runners.fnexecution.control.DefaultJobBundleFactory", true, loader);
      Class level = Class.forName("org.apache.logging.log4j.Level");
      Object logger = Class.forName("org.apache.logging.log4j.LogManager").getMethod("getLogger", Class.class).invoke(null, beam);
      logger.getClass().getMethod("setLevel", level).invoke(logger, level.getField("ERROR").get(null));
    } catch (ReflectiveOperationException e) {
      // the log is not Flink's own: Beam still writes the line
    }
  }
}
