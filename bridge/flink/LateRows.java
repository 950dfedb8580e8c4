import org.apache.flink.api.common.accumulators.LongCounter;

/**
 * Counts rows whose event time is before the watermark that has passed, as windows that have closed leave them out.
 *
 * <p>The number is a metric while the job runs, and an accumulator in the job's result.
 */
public class LateRows extends ChunkOperator {
  public int place;
  public int precision;
  public String name;
  private final LongCounter late = new LongCounter();
  private Counter metric;

  public LateRows(
      Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService service)
      throws Exception {
    super(references, task, config, output, service);
  }

  public void open() throws Exception {
    super.open();
    getRuntimeContext().addAccumulator(name, late);
    metric = counter("lateRows");
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
