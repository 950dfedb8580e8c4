import org.apache.flink.api.common.operators.ProcessingTimeService.ProcessingTimeCallback;
import org.apache.flink.api.python.shaded.org.apache.arrow.memory.BufferAllocator;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.FieldVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.complex.ListVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.complex.MapVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.streaming.runtime.tasks.StreamTask;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.arrow.ArrowUtils;
import org.apache.flink.table.runtime.arrow.ArrowWriter;
import org.apache.flink.table.runtime.arrow.writers.ArrowFieldWriter;
import org.apache.flink.table.runtime.operators.TableStreamOperator;
import org.apache.flink.table.types.logical.LocalZonedTimestampType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.types.Row;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.WritableByteChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;

/**
 * Gathers rows to chunks: Arrow streams of one batch each.
 *
 * <p>A chunk leaves when it is full, before a watermark or a checkpoint barrier passes, after `waitMs`, and at the end. With
 * keys it leaves as (key, ROW(CHUNK, input, rows, Arrow)), for the subtask that owns the key: rows are dealt one by one, or chunk
 * by chunk. Without keys it leaves as ROW(CHUNK, row kinds, Arrow), where the row kinds are null if all rows are new. See
 * elements.py.
 *
 * <p>With a `folder` the Arrow stays in a file there, and the name of the file leaves in its place. The reader removes the file;
 * a subtask waits while its reader is more than a few files behind.
 *
 * <p>Each of `members`, which are keys too, gets (key, ROW(START, its index, 0, no bytes)) whenever the task starts, also from a
 * checkpoint, so that functions need neither a state nor a timer to notice. With `sendsWatermarks` each of them gets watermarks
 * as elements too, behind the rows before them: Flink's watermarks would overtake rows in a Python function, and lack the number
 * of their subtask.
 *
 * <p>With `sendsMarks`, and without keys, elements tell the function behind which rows a checkpoint holds: ROW(START, null, the
 * restored checkpoint or -1) before all others, CHECKPOINT before each barrier, COMPLETE once a checkpoint has been completed,
 * and END after the last row.
 *
 * <p>The input may have chunks in place of rows: elements without keys, which pass as they are, whole where they
 * arrive in pieces. With `ends`, an END has to follow them.
 *
 * <p>With `sendsAllOut`, and without keys, a chunk that leaves before a watermark, a barrier or the end, or after `waitMs` unless
 * full chunks flow, is ALL_OUT: the function may hold back what it makes of chunks until then. It has no rows if all have left.
 * END follows the last row.
 */
public class RowsToArrow extends TableStreamOperator
    implements OneInputStreamOperator, BoundedOneInput, ProcessingTimeCallback, Gauge {
  private static final Integer CHUNK = Integer.valueOf(0); // kinds of elements, see elements.py
  private static final Integer START = Integer.valueOf(1);
  private static final Integer WATERMARK = Integer.valueOf(4);
  private static final Integer IDLE = Integer.valueOf(5);
  private static final Integer PIECE = Integer.valueOf(6);
  private static final Integer CHECKPOINT = Integer.valueOf(7);
  private static final Integer COMPLETE = Integer.valueOf(8);
  private static final Integer END = Integer.valueOf(9);
  private static final Integer ALL_OUT = Integer.valueOf(10);
  private static final Integer NONE = Integer.valueOf(0);
  private static final byte[] NOTHING = new byte[0];
  private static final int MOST_FILES = 8; // of a subtask, that wait for the reader
  private static final long MOST_MILLIS = Long.MAX_VALUE / 1000000L; // that nanoseconds in 64 bits reach, from 1677 to 2262

  private final RowType type;
  private final long[] keys;
  private final long[] members;
  private final boolean sendsWatermarks;
  private final boolean sendsMarks;
  private final boolean sendsAllOut;
  private final boolean ends;
  private final String folder;
  private final String attempt = UUID.randomUUID().toString(); // a reader does not find the files of an earlier one
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(1 << 16);
  private final boolean dealsRows; // one by one, and not chunk by chunk
  private final int input;
  private final int mostRows;
  private final int mostBytes;
  private final int waitMs;
  private BufferAllocator allocator;
  private Chunk[] chunks;
  private int next = 0;
  private int files = 0;
  private boolean timerIsSet = false;
  private boolean isAllOut = true; // no chunk has left since ALL_OUT
  private boolean wasFull = false; // a chunk was, since the timer was set
  private boolean hasSentStart;
  private boolean hasEnded = false;
  private boolean outputHasEnded = false;
  private long restored = -1; // the checkpoint that the job continues from
  private StreamRecord out;
  private Counter rowsOut;
  private Counter bytesOut;
  private Counter waitedMs;
  private long waitedNs = 0;
  private long sent = Long.MIN_VALUE; // the last watermark

  public RowsToArrow(
      Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService service)
      throws Exception {
    type = (RowType) references[0];
    mostRows = ((Integer) references[1]).intValue();
    mostBytes = ((Integer) references[2]).intValue();
    waitMs = ((Integer) references[3]).intValue();
    dealsRows = ((Boolean) references[4]).booleanValue();
    keys = (long[]) references[5];
    input = ((Integer) references[6]).intValue();
    members = (long[]) references[7];
    sendsWatermarks = ((Boolean) references[8]).booleanValue();
    sendsMarks = ((Boolean) references[9]).booleanValue();
    sendsAllOut = ((Boolean) references[10]).booleanValue();
    ends = ((Boolean) references[11]).booleanValue();
    folder = (String) references[12];
    setup(task, config, output);
    setProcessingTimeService(service);
  }

  public void initializeState(StateInitializationContext context) throws Exception {
    super.initializeState(context);
    restored = context.getRestoredCheckpointId().orElse(-1L);
  }

  public void open() throws Exception {
    super.open();
    BeamLog.silence();
    out = new StreamRecord(null);
    ArrowUtils.checkArrowUsable(); // sets a property for all users of Arrow in this JVM, if it is the first one
    allocator = ArrowUtils.getRootAllocator().newChildAllocator("akdl", 0, Long.MAX_VALUE);
    chunks = new Chunk[dealsRows ? keys.length : 1];
    for (int i = 0; i < chunks.length; i++) {
      chunks[i] = new Chunk(type, allocator);
    }
    getMetricGroup().gauge("arrowBytes", this);
    MetricGroup own = getMetricGroup().addGroup("akdl");
    rowsOut = own.counter("rows");
    bytesOut = own.counter("bytes");
    waitedMs = own.counter("waitedMs");
    hasSentStart = members == null && !sendsMarks;
    if (!hasSentStart) { // at once, but not before all operators are open
      getProcessingTimeService().registerTimer(getProcessingTimeService().getCurrentProcessingTime(), this);
    }
  }

  public void processElement(StreamRecord element) throws Exception {
    if (element.getValue() instanceof Row) {
      pass((Row) element.getValue());
      return;
    }
    int place = dealsRows ? turn() : 0;
    Chunk chunk = chunks[place];
    chunk.add((RowData) element.getValue());
    boolean isFull = chunk.rows >= mostRows || chunk.size() >= mostBytes;
    if (isFull) {
      flush(place, CHUNK);
    }
    wasFull |= isFull && timerIsSet;
    if (!isFull || sendsAllOut) {
      setTimer();
    }
  }

  private void pass(Row chunk) throws Exception {
    boolean isWhole = CHUNK.equals(chunk.getField(0));
    if (!isWhole && !PIECE.equals(chunk.getField(0))) {
      outputHasEnded |= END.equals(chunk.getField(0));
      return; // that, or the time of a script
    }
    byte[] arrow = (byte[]) chunk.getField(2);
    bytesOut.inc(arrow.length);
    if (!isWhole || bytes.size() > 0) {
      bytes.write(arrow);
    }
    if (isWhole && bytes.size() > 0) {
      chunk = Row.of(new Object[] {CHUNK, null, bytes.toByteArray()});
      bytes.reset();
    }
    if (isWhole) {
      sendStart();
      emit(chunk);
    }
  }

  private void setTimer() {
    if (waitMs > 0 && !timerIsSet) {
      timerIsSet = true;
      getProcessingTimeService().registerTimer(getProcessingTimeService().getCurrentProcessingTime() + waitMs, this);
    }
  }

  public void onProcessingTime(long time) throws Exception {
    if (!hasSentStart) {
      sendStart();
      return;
    }
    timerIsSet = false;
    if (sendsAllOut && wasFull) { // more will come soon, so nothing has to wait for all answers
      wasFull = false;
      flush(0, CHUNK);
      setTimer();
    } else {
      flushAll();
    }
  }

  public void processWatermark(Watermark mark) throws Exception {
    flushAll();
    if (sendsWatermarks && mark.getTimestamp() > sent) {
      sent = mark.getTimestamp();
      sendTime(WATERMARK);
    }
    super.processWatermark(mark);
  }

  public void processWatermarkStatus(WatermarkStatus status) throws Exception {
    if (sendsWatermarks) {
      flushAll();
      sendTime(status.isIdle() ? IDLE : WATERMARK); // the last watermark holds again
    }
    super.processWatermarkStatus(status);
  }

  public void prepareSnapshotPreBarrier(long checkpoint) throws Exception {
    flushAll();
    sendMark(CHECKPOINT, checkpoint);
    super.prepareSnapshotPreBarrier(checkpoint);
  }

  public void notifyCheckpointComplete(long checkpoint) throws Exception {
    super.notifyCheckpointComplete(checkpoint);
    sendMark(COMPLETE, checkpoint);
  }

  public void endInput() throws Exception {
    if (ends && !outputHasEnded && restored < 0) { // before a restored checkpoint it may have come already
      throw new IllegalStateException("the last results of an operator did not arrive, so rows are missing. Run the job again");
    }
    flushAll();
    if (sendsAllOut) {
      emit(Row.of(new Object[] {END, null, NOTHING}));
    }
    sendMark(END, 0);
    hasEnded = true; // what follows in the final checkpoint finds no receiver
  }

  public void close() throws Exception {
    try {
      super.close();
    } finally {
      if (chunks != null) {
        for (int i = 0; i < chunks.length; i++) {
          if (chunks[i] != null) {
            chunks[i].close();
          }
        }
      }
      if (allocator != null) {
        allocator.close(); // fails when memory has not been released
      }
    }
  }

  /** Off-heap memory in use, a metric. */
  public Object getValue() {
    return Long.valueOf(allocator.getAllocatedMemory());
  }

  private void sendStart() {
    if (hasSentStart) {
      return;
    }
    hasSentStart = true;
    sendMark(START, restored);
    for (int i = 0; members != null && i < members.length; i++) {
      Row start = Row.of(new Object[] {START, Integer.valueOf(i), NONE, NOTHING});
      emit(Row.of(new Object[] {Long.valueOf(members[i]), start}));
    }
  }

  private void sendMark(Integer kind, long number) {
    if (sendsMarks && !hasEnded) {
      sendStart();
      emit(Row.of(new Object[] {kind, null, ByteBuffer.allocate(8).putLong(number).array()}));
    }
  }

  private void sendTime(Integer kind) {
    byte[] time = kind == WATERMARK ? ByteBuffer.allocate(8).putLong(sent).array() : NOTHING;
    Integer subtask = Integer.valueOf(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
    Integer of = Integer.valueOf(getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks());
    for (int i = 0; i < members.length; i++) {
      Row element = Row.of(new Object[] {kind, subtask, of, time});
      emit(Row.of(new Object[] {Long.valueOf(members[i]), element}));
    }
  }

  private void flushAll() throws Exception {
    sendStart(); // a short input ends before the timer
    for (int i = 0; i < chunks.length; i++) {
      flush(i, sendsAllOut ? ALL_OUT : CHUNK);
    }
    if (sendsAllOut && !isAllOut) {
      isAllOut = true;
      emit(Row.of(new Object[] {ALL_OUT, null, NOTHING}));
    }
  }

  private void flush(int place, Integer kind) throws Exception {
    Chunk chunk = chunks[place];
    if (chunk.rows == 0) {
      return;
    }
    if (sendsMarks) {
      sendStart();
    }
    int rows = chunk.rows;
    byte[] kinds = chunk.takeKinds();
    byte[] arrow = folder == null ? inMemory(chunk) : inFile(chunk);
    rowsOut.inc(rows);
    if (keys == null) {
      isAllOut = kind == ALL_OUT;
      emit(Row.of(new Object[] {kind, kinds, arrow}));
      return;
    }
    Row value = Row.of(new Object[] {CHUNK, Integer.valueOf(input), Integer.valueOf(rows), arrow});
    int owner = dealsRows ? place : turn();
    emit(Row.of(new Object[] {Long.valueOf(keys[owner]), value}));
  }

  private byte[] inMemory(Chunk chunk) throws Exception {
    bytesOut.inc(chunk.take(Channels.newChannel(bytes), mostBytes));
    byte[] arrow = bytes.toByteArray();
    bytes.reset();
    return arrow;
  }

  /** Write a chunk into a file, and return its name. */
  private byte[] inFile(Chunk chunk) throws Exception {
    File early = new File(folder, attempt + "." + (files - MOST_FILES));
    while (early.exists()) {
      Thread.sleep(1);
    }
    String name = attempt + "." + files++;
    FileOutputStream file = new FileOutputStream(new File(folder, name));
    try {
      bytesOut.inc(chunk.take(file.getChannel(), mostBytes));
    } finally {
      file.close();
    }
    return name.getBytes("UTF-8");
  }

  /** Return the index of the next key. */
  private int turn() {
    int owner = next;
    next = next + 1 == keys.length ? 0 : next + 1;
    return owner;
  }

  /** Send an element; this blocks while the receivers are too slow. */
  private void emit(Row row) {
    long begun = System.nanoTime();
    output.collect(out.replace(row));
    waitedNs += System.nanoTime() - begun;
    waitedMs.inc(waitedNs / 1000000L);
    waitedNs %= 1000000L;
  }

  /** Rows that leave together. */
  private static class Chunk {
    private final RowType type;
    private final BufferAllocator allocator;
    private VectorSchemaRoot root;
    private ArrowWriter writer;
    private Numbers[] numbers;
    private ArrowFieldWriter[] others; // of the columns without Numbers, with null in other places
    private List varying; // vectors whose rows differ in size
    private int rowBytes; // of the other vectors, for one row
    private boolean hasMaps = false;
    private final int[] inNanos; // columns that hold times in nanoseconds
    private byte[] kinds;
    int rows = 0;

    Chunk(RowType type, BufferAllocator allocator) {
      this.type = type;
      this.allocator = allocator;
      int count = 0;
      int[] found = new int[type.getFieldCount()];
      for (int i = 0; i < found.length; i++) {
        if (holdsNanos(type.getTypeAt(i))) {
          found[count++] = i;
        }
      }
      inNanos = Arrays.copyOf(found, count);
      allocate();
    }

    private void allocate() {
      root = VectorSchemaRoot.create(ArrowUtils.toArrowSchema(type), allocator);
      writer = ArrowUtils.createRowDataArrowWriter(root, type);
      numbers = new Numbers[type.getFieldCount()];
      others = (ArrowFieldWriter[]) writer.getFieldWriters().clone();
      varying = new ArrayList();
      rowBytes = 0;
      for (int i = 0; i < root.getFieldVectors().size(); i++) {
        FieldVector vector = (FieldVector) root.getFieldVectors().get(i);
        int kind = Numbers.kind(type.getTypeAt(i));
        if (kind != Numbers.NONE) {
          numbers[i] = new Numbers((BaseFixedWidthVector) vector, kind, i);
          others[i] = null;
        }
        if (vector instanceof BaseFixedWidthVector) {
          rowBytes += Math.max(1, ((BaseFixedWidthVector) vector).getTypeWidth());
        } else {
          varying.add(vector);
          hasMaps |= hasMaps(vector);
        }
      }
    }

    void add(RowData row) {
      byte kind = row.getRowKind().toByteValue();
      if (kind != 0 || kinds != null) {
        keepKind(kind);
      }
      for (int i = 0; i < inNanos.length; i++) {
        LogicalType column = type.getTypeAt(inNanos[i]);
        checkNanos(column, value(column, row, inNanos[i]), inNanos[i]);
      }
      for (int i = 0; i < others.length; i++) {
        if (others[i] == null) {
          numbers[i].add(row, rows);
        } else {
          others[i].write(row, i);
        }
      }
      rows++;
    }

    private static boolean holdsNanos(LogicalType type) {
      boolean holds = type instanceof TimestampType && ((TimestampType) type).getPrecision() > 6;
      holds |= type instanceof LocalZonedTimestampType && ((LocalZonedTimestampType) type).getPrecision() > 6;
      for (int i = 0; i < type.getChildren().size(); i++) {
        holds |= holdsNanos((LogicalType) type.getChildren().get(i));
      }
      return holds;
    }

    /** Refuse a time that Flink's writer would change silently: its nanoseconds since 1970 overflow 64 bits. */
    private void checkNanos(LogicalType type, Object value, int place) {
      if (value instanceof TimestampData) {
        if (Math.abs(((TimestampData) value).getMillisecond()) >= MOST_MILLIS) {
          throw new IllegalArgumentException(
              "the column '" + this.type.getFieldNames().get(place) + "' (" + this.type.getTypeAt(place)
                  + ") has the time " + value + "; expected one from 1677-09-22 to 2262-04-11, the range of nanoseconds."
                  + " CAST it to TIMESTAMP(6)");
        }
      } else if (value instanceof RowData) {
        for (int i = 0; i < type.getChildren().size(); i++) {
          LogicalType field = (LogicalType) type.getChildren().get(i);
          checkNanos(field, value(field, (RowData) value, i), place);
        }
      } else if (value instanceof MapData) {
        checkElements((LogicalType) type.getChildren().get(0), ((MapData) value).keyArray(), place);
        checkElements((LogicalType) type.getChildren().get(1), ((MapData) value).valueArray(), place);
      } else if (value != null) {
        checkElements((LogicalType) type.getChildren().get(0), (ArrayData) value, place);
      }
    }

    private void checkElements(LogicalType type, ArrayData elements, int place) {
      for (int i = 0; i < elements.size(); i++) {
        checkNanos(type, value(type, elements, i), place);
      }
    }

    /** Return a time, or a value that may hold times; else null. Twice, since Janino cannot compile calls of Flink's getters. */
    private static Object value(LogicalType type, RowData row, int i) {
      if (row.isNullAt(i) || !holdsNanos(type)) {
        return null;
      }
      switch (type.getTypeRoot()) {
        case ROW:
          return row.getRow(i, type.getChildren().size());
        case ARRAY:
          return row.getArray(i);
        case MAP:
          return row.getMap(i);
        default:
          return row.getTimestamp(i, 9);
      }
    }

    private static Object value(LogicalType type, ArrayData array, int i) {
      if (array.isNullAt(i) || !holdsNanos(type)) {
        return null;
      }
      switch (type.getTypeRoot()) {
        case ROW:
          return array.getRow(i, type.getChildren().size());
        case ARRAY:
          return array.getArray(i);
        case MAP:
          return array.getMap(i);
        default:
          return array.getTimestamp(i, 9);
      }
    }

    private void keepKind(byte kind) {
      if (kinds == null || rows >= kinds.length) { // what is added are zeros, the kind of new rows
        kinds = Arrays.copyOf(kinds == null ? NOTHING : kinds, Math.max(64, 2 * rows));
      }
      kinds[rows] = kind;
    }

    int size() {
      long size = (long) rowBytes * rows;
      for (int i = 0; i < varying.size(); i++) {
        size += size((FieldVector) varying.get(i), rows);
      }
      return (int) Math.min(size, Integer.MAX_VALUE);
    }

    /** Return the bytes of a number of values. The vector's own method fails after nulls at its end. */
    private static long size(FieldVector vector, int values) {
      if (vector instanceof BaseVariableWidthVector) {
        int last = ((BaseVariableWidthVector) vector).getLastSet();
        return 4L * values + (last < 0 ? 0 : vector.getOffsetBuffer().getInt(4L * (last + 1)));
      }
      if (vector instanceof ListVector) { // or a map
        int last = ((ListVector) vector).getLastSet();
        int elements = last < 0 ? 0 : vector.getOffsetBuffer().getInt(4L * (last + 1));
        return 4L * values + size(((ListVector) vector).getDataVector(), elements);
      }
      if (vector instanceof BaseFixedWidthVector) {
        return (long) values * Math.max(1, ((BaseFixedWidthVector) vector).getTypeWidth());
      }
      long size = 0;
      for (int i = 0; i < vector.getChildrenFromFields().size(); i++) {
        size += size((FieldVector) vector.getChildrenFromFields().get(i), values);
      }
      return size;
    }

    byte[] takeKinds() {
      if (kinds == null) {
        return null;
      }
      byte[] taken = Arrays.copyOf(kinds, rows);
      kinds = null;
      return taken;
    }

    /** Write the rows to a channel, and return the number of bytes. */
    long take(WritableByteChannel target, int mostBytes) throws Exception {
      for (int i = 0; i < others.length; i++) {
        if (others[i] == null) {
          numbers[i].finish(rows);
        } else {
          others[i].finish();
        }
      }
      root.setRowCount(rows);
      ArrowStreamWriter stream = new ArrowStreamWriter(root, null, target);
      stream.writeBatch(); // with the schema before it
      stream.end();
      long taken = stream.bytesWritten();
      rows = 0;
      // Flink's writer of maps cannot be reused, and the next rows do not need the memory of a large one.
      if (hasMaps || taken > 2L * mostBytes) {
        close();
        allocate();
      } else {
        writer.reset();
      }
      return taken;
    }

    private static boolean hasMaps(FieldVector vector) {
      boolean found = vector instanceof MapVector;
      for (int i = 0; i < vector.getChildrenFromFields().size(); i++) {
        found |= hasMaps((FieldVector) vector.getChildrenFromFields().get(i));
      }
      return found;
    }

    void close() {
      root.close();
    }
  }

  /** A column of numbers on the heap, copied to its vector as a whole: Flink's writer and Arrow's checks take half a row's time. */
  private static class Numbers {
    static final int NONE = 0;
    private static final int INT = 1;
    private static final int BIGINT = 2;
    private static final int FLOAT = 3;
    private static final int DOUBLE = 4;
    private final BaseFixedWidthVector vector;
    private final int kind;
    private final int place;
    private final int width;
    private ByteBuffer values;
    private byte[] valid; // bits, if there are nulls

    Numbers(BaseFixedWidthVector vector, int kind, int place) {
      this.vector = vector;
      this.kind = kind;
      this.place = place;
      width = vector.getTypeWidth();
      values = ByteBuffer.allocate(64 * width).order(ByteOrder.LITTLE_ENDIAN);
    }

    static int kind(LogicalType type) {
      switch (type.getTypeRoot()) {
        case INTEGER:
          return INT;
        case BIGINT:
          return BIGINT;
        case FLOAT:
          return FLOAT;
        case DOUBLE:
          return DOUBLE;
        default:
          return NONE;
      }
    }

    void add(RowData row, int at) {
      int start = at * width;
      if (start == values.capacity()) {
        values = ByteBuffer.wrap(Arrays.copyOf(values.array(), 2 * start)).order(ByteOrder.LITTLE_ENDIAN);
      }
      if (row.isNullAt(place)) {
        addNull(at);
      } else if (kind == FLOAT) {
        values.putFloat(start, row.getFloat(place));
      } else if (kind == DOUBLE) {
        values.putDouble(start, row.getDouble(place));
      } else if (kind == BIGINT) {
        values.putLong(start, row.getLong(place));
      } else {
        values.putInt(start, row.getInt(place));
      }
    }

    private void addNull(int at) {
      Arrays.fill(values.array(), at * width, (at + 1) * width, (byte) 0);
      int bytes = values.capacity() / width / 8;
      int known = valid == null ? 0 : valid.length;
      if (known < bytes) {
        valid = known == 0 ? new byte[bytes] : Arrays.copyOf(valid, bytes);
        Arrays.fill(valid, known, bytes, (byte) -1);
      }
      valid[at >> 3] &= ~(1 << (at & 7));
    }

    void finish(int rows) {
      vector.setValueCount(rows); // with memory for them
      vector.getDataBuffer().setBytes(0L, values.array(), 0, (long) rows * width);
      int bytes = (rows + 7) / 8;
      if (valid == null) {
        vector.getValidityBuffer().setOne(0L, (long) bytes);
      } else {
        int known = Math.min(bytes, valid.length);
        vector.getValidityBuffer().setBytes(0L, valid, 0, (long) known);
        vector.getValidityBuffer().setOne((long) known, (long) (bytes - known));
        valid = null;
      }
    }
  }
}
