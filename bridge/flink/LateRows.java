import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.streaming.runtime.tasks.StreamTask;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.operators.TableStreamOperator;

/**
 * Counts rows whose event time is before the watermark that has passed, as windows that have closed leave them out.
 *
 * <p>The number is a metric while the job runs, and an accumulator in the job's result.
 */
public class LateRows extends TableStreamOperator implements OneInputStreamOperator {
  private final int place;
  private final int precision;
  private final String name;
  private final LongCounter late = new LongCounter();
  private Counter metric;

  public LateRows(
      Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService service)
      throws Exception {
    place = (Integer) references[0];
    precision = (Integer) references[1];
    name = (String) references[2];
    setup(task, config, output);
    setProcessingTimeService(service);
  }

  public void open() throws Exception {
    super.open();
    getRuntimeContext().addAccumulator(name, late);
    metric = getMetricGroup().addGroup("akdl").counter("lateRows");
  }

  public void processElement(StreamRecord element) throws Exception {
    RowData row = (RowData) element.getValue();
    if (!row.isNullAt(place) && row.getTimestamp(place, precision).getMillisecond() < currentWatermark) {
      late.add(1L);
      metric.inc();
    }
    output.collect(element);
  }
}
