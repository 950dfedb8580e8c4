import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.operators.ProcessingTimeService.ProcessingTimeCallback;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.FieldVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.complex.ListVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.runtime.arrow.ArrowWriter;
import org.apache.flink.table.runtime.arrow.writers.ArrowFieldWriter;
import org.apache.flink.table.types.logical.LogicalTypeFamily;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.utils.LogicalTypeChecks;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.WritableByteChannel;
import java.util.ArrayList;
import java.util.Arrays;
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
 * <p>With `sendsAllOut`, and without keys, a chunk that leaves before a watermark, a barrier or the end, or by the timer unless
 * rows come in a rush, is ALL_OUT: the function may hold back what it makes of chunks until then. It has no rows if all have
 * left. END follows the last row. There the timer also ends the bundle of the function, whose answers would else wait for a timer
 * of Flink. Outside a rush, a row that comes more than `waitMs` after the last chunk waits for a millisecond only.
 */
public class RowsToArrow extends ChunkOperator implements ProcessingTimeCallback {
  private static final byte[] NOTHING = new byte[0];
  private static final int RUSH = 50; // rows in a millisecond, above which a chunk waits for all of `waitMs`
  private static final int MOST_FILES = 8; // of a subtask, that wait for the reader
  private static final long MOST_MILLIS = Long.MAX_VALUE / 1000000L; // that nanoseconds in 64 bits reach, from 1677 to 2262

  public long[] keys;
  public long[] members;
  public boolean sendsWatermarks;
  public boolean sendsMarks;
  public boolean sendsAllOut;
  public boolean dealsRows; // one by one, and not chunk by chunk
  public int input;
  public int mostRows;
  public int mostBytes;
  public int waitMs;
  private final String attempt = UUID.randomUUID().toString(); // a reader does not find the files of an earlier one
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(1 << 16);
  private Chunk[] chunks = new Chunk[0];
  private int next = 0;
  private int files = 0;
  private boolean timerIsSet = false;
  private boolean isAllOut = true; // no chunk has left since ALL_OUT
  private boolean wasFull = false; // a chunk was, since the timer was set
  private long due; // the latest time at which the first of the rows leaves
  private long flushed; // when the timer last sent rows
  private int gathered; // rows when the timer was set
  private long gatherMs; // from then to the timer
  private final StreamOperator follower; // whose bundles this operator ends, or null
  private boolean hasSentStart;
  private boolean hasEnded = false;
  private Counter waitedMs;
  private long waitedNs = 0;
  private long sent = Long.MIN_VALUE; // the last watermark

  public RowsToArrow(
      Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService service)
      throws Exception {
    super(references, task, config, output, service);
    follower = sendsAllOut ? operatorBehind(output) : null;
  }

  public void open() throws Exception {
    super.open();
    openArrow();
    chunks = new Chunk[dealsRows ? keys.length : 1];
    for (int i = 0; i < chunks.length; i++) {
      chunks[i] = new Chunk(type, allocator);
    }
    waitedMs = counter("waitedMs");
    hasSentStart = members == null && !sendsMarks;
    if (!hasSentStart) { // at once, but not before all operators are open
      setTimer(0);
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
      waitForMore();
    }
  }

  private void pass(Row chunk) throws Exception {
    int kind = (Integer) chunk.getField(0);
    if (kind != CHUNK && kind != PIECE) {
      inputHasEnded |= kind == END;
      return; // that, or the time of a script
    }
    byte[] arrow = (byte[]) chunk.getField(2);
    bytesDone.inc(arrow.length);
    if (kind == PIECE || bytes.size() > 0) {
      bytes.write(arrow);
    }
    if (kind == CHUNK) {
      if (bytes.size() > 0) {
        chunk = Row.of(CHUNK, null, bytes.toByteArray());
        bytes.reset();
      }
      sendStart();
      emit(chunk);
    }
  }

  private void waitForMore() {
    if (waitMs > 0 && !timerIsSet) {
      timerIsSet = true;
      due = now() + waitMs;
      gather(sendsAllOut ? Math.max(1, flushed + waitMs - now()) : waitMs);
    }
  }

  private void gather(long ms) {
    gathered = chunks[0].rows;
    gatherMs = ms;
    setTimer(ms);
  }

  private long now() {
    return getProcessingTimeService().getCurrentProcessingTime();
  }

  private void setTimer(long ms) {
    getProcessingTimeService().registerTimer(now() + ms - 1, this); // Flink waits for the end of that millisecond
  }

  public void onProcessingTime(long time) throws Exception {
    if (!hasSentStart) {
      sendStart();
      return;
    }
    boolean isRush = sendsAllOut && (wasFull || chunks[0].rows - gathered > RUSH * gatherMs);
    if (isRush && !wasFull && now() < due) {
      gather(1);
      return;
    }
    timerIsSet = false;
    flushed = now();
    if (isRush) { // more will come soon, so nothing has to wait for all answers
      wasFull = false;
      flush(0, CHUNK);
      waitForMore();
    } else {
      flushAll();
      if (follower != null) {
        follower.prepareSnapshotPreBarrier(0); // ends the bundle, whose own timer is up to 20 ms late
      }
    }
  }

  /** Return the operator behind an output, which Flink does not show. */
  private static StreamOperator operatorBehind(Output output) {
    try {
      Class chaining = Class.forName("org.apache.flink.streaming.runtime.tasks.ChainingOutput");
      Field input = chaining.getDeclaredField("input");
      input.setAccessible(true);
      return chaining.isInstance(output) ? (StreamOperator) input.get(output) : null;
    } catch (ReflectiveOperationException e) {
      return null; // Flink's timer ends the bundles
    }
  }

  public void processWatermark(Watermark mark) throws Exception {
    flushAll();
    if (sendsWatermarks && mark.getTimestamp() > sent) {
      sent = mark.getTimestamp();
      sendTime(WATERMARK);
    }
    super.processWatermark(mark);
    if (follower != null) {
      waitForMore(); // the function holds the watermark until its bundle ends
    }
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
    super.endInput();
    flushAll();
    if (sendsAllOut) {
      emit(Row.of(END, null, NOTHING));
    }
    sendMark(END, 0);
    hasEnded = true; // what follows in the final checkpoint finds no receiver
  }

  void release() {
    for (Chunk chunk : chunks) {
      if (chunk != null) {
        chunk.close();
      }
    }
  }

  private void sendStart() {
    if (hasSentStart) {
      return;
    }
    hasSentStart = true;
    sendMark(START, restored);
    for (int i = 0; members != null && i < members.length; i++) {
      emit(Row.of(members[i], Row.of(START, i, 0, NOTHING)));
    }
  }

  private void sendMark(int kind, long number) {
    if (sendsMarks && !hasEnded) {
      sendStart();
      emit(Row.of(kind, null, ByteBuffer.allocate(8).putLong(number).array()));
    }
  }

  private void sendTime(int kind) {
    byte[] time = kind == WATERMARK ? ByteBuffer.allocate(8).putLong(sent).array() : NOTHING;
    TaskInfo task = getRuntimeContext().getTaskInfo();
    for (long member : members) {
      emit(Row.of(member, Row.of(kind, task.getIndexOfThisSubtask(), task.getNumberOfParallelSubtasks(), time)));
    }
  }

  private void flushAll() throws Exception {
    sendStart(); // a short input ends before the timer
    for (int i = 0; i < chunks.length; i++) {
      flush(i, sendsAllOut ? ALL_OUT : CHUNK);
    }
    if (sendsAllOut && !isAllOut) {
      isAllOut = true;
      emit(Row.of(ALL_OUT, null, NOTHING));
    }
  }

  private void flush(int place, int kind) throws Exception {
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
    rowsDone.inc(rows);
    if (keys == null) {
      isAllOut = kind == ALL_OUT;
      emit(Row.of(kind, kinds, arrow));
      return;
    }
    emit(Row.of(keys[dealsRows ? place : turn()], Row.of(CHUNK, input, rows, arrow)));
  }

  private byte[] inMemory(Chunk chunk) throws Exception {
    bytesDone.inc(chunk.take(Channels.newChannel(bytes), mostBytes));
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
      bytesDone.inc(chunk.take(file.getChannel(), mostBytes));
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
    private final boolean hasMaps;
    private final int[] inNanos; // columns that hold times in nanoseconds
    private byte[] kinds;
    int rows = 0;

    Chunk(RowType type, BufferAllocator allocator) {
      this.type = type;
      this.allocator = allocator;
      int count = 0;
      int[] found = new int[type.getFieldCount()];
      for (int i = 0; i < found.length; i++) {
        if (holds(type.getTypeAt(i), false)) {
          found[count++] = i;
        }
      }
      inNanos = Arrays.copyOf(found, count);
      hasMaps = holds(type, true);
      allocate();
    }

    private void allocate() {
      root = VectorSchemaRoot.create(ArrowUtils.toArrowSchema(type), allocator);
      writer = ArrowUtils.createRowDataArrowWriter(root, type);
      numbers = new Numbers[type.getFieldCount()];
      others = (ArrowFieldWriter[]) writer.getFieldWriters().clone();
      varying = new ArrayList();
      rowBytes = 0;
      for (int i = 0; i < others.length; i++) {
        FieldVector vector = root.getVector(i);
        LogicalTypeRoot kind = type.getTypeAt(i).getTypeRoot();
        if (Numbers.KINDS.contains(kind)) {
          numbers[i] = new Numbers((BaseFixedWidthVector) vector, kind, i);
          others[i] = null;
        }
        if (vector instanceof BaseFixedWidthVector) {
          rowBytes += Math.max(1, ((BaseFixedWidthVector) vector).getTypeWidth());
        } else {
          varying.add(vector);
        }
      }
    }

    void add(RowData row) {
      byte kind = row.getRowKind().toByteValue();
      if (kind != 0 || kinds != null) {
        keepKind(kind);
      }
      for (int column : inNanos) {
        checkNanos(type.getTypeAt(column), value(type.getTypeAt(column), row, column), column);
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

    /** True if a type is or has a map, or else a time in nanoseconds. */
    private static boolean holds(LogicalType type, boolean map) {
      boolean holds =
          map
              ? type.is(LogicalTypeRoot.MAP)
              : type.is(LogicalTypeFamily.TIMESTAMP) && LogicalTypeChecks.getPrecision(type) > 6;
      for (Object child : type.getChildren()) {
        holds |= holds((LogicalType) child, map);
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
      if (row.isNullAt(i) || !holds(type, false)) {
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
      if (array.isNullAt(i) || !holds(type, false)) {
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
      for (Object vector : varying) {
        size += size((FieldVector) vector, rows);
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
      for (Object child : vector.getChildrenFromFields()) {
        size += size((FieldVector) child, values);
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

    void close() {
      root.close();
    }
  }

  /** A column of numbers on the heap, copied to its vector as a whole: Flink's writer and Arrow's checks take half a row's time. */
  private static class Numbers {
    static final List KINDS =
        Arrays.asList(LogicalTypeRoot.INTEGER, LogicalTypeRoot.BIGINT, LogicalTypeRoot.FLOAT, LogicalTypeRoot.DOUBLE);
    private final BaseFixedWidthVector vector;
    private final LogicalTypeRoot kind;
    private final int place;
    private final int width;
    private ByteBuffer values;
    private byte[] valid; // bits, if there are nulls

    Numbers(BaseFixedWidthVector vector, LogicalTypeRoot kind, int place) {
      this.vector = vector;
      this.kind = kind;
      this.place = place;
      width = vector.getTypeWidth();
      values = ByteBuffer.allocate(64 * width).order(ByteOrder.LITTLE_ENDIAN);
    }

    void add(RowData row, int at) {
      int start = at * width;
      if (start == values.capacity()) {
        values = ByteBuffer.wrap(Arrays.copyOf(values.array(), 2 * start)).order(ByteOrder.LITTLE_ENDIAN);
      }
      if (row.isNullAt(place)) {
        addNull(at);
      } else if (kind == LogicalTypeRoot.FLOAT) {
        values.putFloat(start, row.getFloat(place));
      } else if (kind == LogicalTypeRoot.DOUBLE) {
        values.putDouble(start, row.getDouble(place));
      } else if (kind == LogicalTypeRoot.BIGINT) {
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
