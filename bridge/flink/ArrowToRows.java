import org.apache.flink.api.python.shaded.org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.TimeStampNanoVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.TimeStampVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.ValueVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.complex.ListVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.complex.MapVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.complex.StructVector;
import org.apache.flink.api.python.shaded.org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.flink.table.data.columnar.vector.ColumnVector;
import org.apache.flink.table.data.columnar.vector.TimestampColumnVector;
import org.apache.flink.table.runtime.arrow.ArrowReader;
import org.apache.flink.table.runtime.arrow.vectors.ArrowArrayColumnVector;
import org.apache.flink.table.runtime.arrow.vectors.ArrowMapColumnVector;
import org.apache.flink.table.runtime.arrow.vectors.ArrowRowColumnVector;
import org.apache.flink.types.RowKind;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.SequenceInputStream;
import java.nio.channels.Channels;
import java.util.Vector;

/**
 * Turns ROW(kind, row kinds, Arrow), see RowsToArrow and elements.py, Arrow alone, or numbers of files in `folder`, into rows.
 *
 * <p>A large chunk arrives in pieces: all but the last have the kind PIECE. With `takesWatermarks`, watermarks arrive as
 * elements, and Flink's own are dropped, since rows may follow them: the last one leaves behind all rows. An idle stream that
 * goes on is one at once, before its rows have passed Python. With `ends`, an END has to follow all rows.
 */
public class ArrowToRows extends ChunkOperator {
  public boolean takesWatermarks;
  private long time = Long.MIN_VALUE;
  private boolean wakes = false; // idle elements of before are still on their way
  private Vector pieces = new Vector(); // of an unfinished chunk

  public ArrowToRows(
      Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService service)
      throws Exception {
    super(references, task, config, output, service);
  }

  public void open() throws Exception {
    super.open();
    openArrow();
  }

  public void processElement(StreamRecord element) throws Exception {
    Object value = element.getValue();
    if (!(value instanceof Row)) { // rows of the program itself
      boolean isFile = value instanceof Long;
      emit(isFile ? new FileInputStream(new File(folder, value.toString())) : new ByteArrayInputStream((byte[]) value), null);
      return;
    }
    Row chunk = (Row) value;
    int kind = (Integer) chunk.getField(0);
    byte[] arrow = (byte[]) chunk.getField(2);
    if (kind == WATERMARK || kind == IDLE) {
      setTime(ByteBuffer.wrap(arrow).getLong(), kind == IDLE);
    } else if (kind == END) {
      inputHasEnded = true;
    } else {
      pieces.add(new ByteArrayInputStream(arrow));
      if (kind != PIECE) {
        InputStream bytes = new SequenceInputStream(pieces.elements());
        pieces = new Vector();
        emit(bytes, (byte[]) chunk.getField(1));
      }
    }
  }

  private void emit(InputStream bytes, byte[] kinds) throws Exception {
    ArrowStreamReader stream = new ArrowStreamReader(Channels.newChannel(bytes), allocator); // the channel of a file copies less
    try {
      ArrowReader reader = new ArrowReader(columns(stream.getVectorSchemaRoot().getFieldVectors()));
      while (stream.loadNextBatch()) {
        int rows = stream.getVectorSchemaRoot().getRowCount();
        rowsDone.inc(rows);
        for (int i = 0; i < rows; i++) {
          RowData row = reader.read(i);
          if (kinds != null) {
            row.setRowKind(RowKind.fromByteValue(kinds[i]));
          }
          output.collect(out.replace(row));
        }
      }
    } finally {
      bytesDone.inc(stream.bytesRead());
      stream.close();
    }
  }

  public void processWatermark(Watermark mark) throws Exception {
    if (!takesWatermarks) {
      super.processWatermark(mark);
    }
  }

  public void processWatermarkStatus(WatermarkStatus status) throws Exception {
    if (!takesWatermarks || status.isActive()) { // at once, or watermarks of other members would overtake rows of this one
      wakes = takesWatermarks;
      super.processWatermarkStatus(status);
    }
  }

  public void endInput() throws Exception {
    super.endInput();
    if (takesWatermarks) {
      setTime(Long.MAX_VALUE, false);
    }
  }

  private void setTime(long watermark, boolean isIdle) throws Exception {
    super.processWatermarkStatus(WatermarkStatus.ACTIVE); // otherwise the watermark would not leave
    if (watermark > time) {
      time = watermark;
      super.processWatermark(new Watermark(watermark));
    }
    wakes &= isIdle;
    if (isIdle && !wakes) {
      super.processWatermarkStatus(WatermarkStatus.IDLE);
    }
  }

  private ColumnVector[] columns(List vectors) {
    ColumnVector[] columns = new ColumnVector[vectors.size()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = column((ValueVector) vectors.get(i), type.getTypeAt(i));
    }
    return columns;
  }

  /** Return the cells of a vector, like Flink's own function except for times. */
  private static ColumnVector column(ValueVector vector, LogicalType type) {
    List inner = type.getChildren();
    if (vector instanceof TimeStampMicroVector || vector instanceof TimeStampNanoVector) {
      return new Times((TimeStampVector) vector);
    } else if (vector instanceof MapVector) {
      StructVector entries = (StructVector) ((MapVector) vector).getDataVector();
      ColumnVector keys = column(entries.getChild(MapVector.KEY_NAME), (LogicalType) inner.get(0));
      ColumnVector values = column(entries.getChild(MapVector.VALUE_NAME), (LogicalType) inner.get(1));
      return new ArrowMapColumnVector((MapVector) vector, keys, values);
    } else if (vector instanceof ListVector) {
      ColumnVector elements = column(((ListVector) vector).getDataVector(), (LogicalType) inner.get(0));
      return new ArrowArrayColumnVector((ListVector) vector, elements);
    } else if (vector instanceof StructVector) {
      ColumnVector[] fields = new ColumnVector[inner.size()];
      for (int i = 0; i < fields.length; i++) {
        fields[i] = column(((StructVector) vector).getVectorById(i), (LogicalType) inner.get(i));
      }
      return new ArrowRowColumnVector((StructVector) vector, fields);
    }
    return ArrowUtils.createColumnVector(vector, type);
  }

  /** Timestamps with more than milliseconds; Flink's own reader fails at times before 1970. */
  private static class Times implements TimestampColumnVector {
    private final TimeStampVector vector;
    private final long inMilli;

    Times(TimeStampVector vector) {
      this.vector = vector;
      inMilli = vector instanceof TimeStampMicroVector ? 1000L : 1000000L;
    }

    public boolean isNullAt(int i) {
      return vector.isNull(i);
    }

    public TimestampData getTimestamp(int i, int precision) {
      long value = vector.get(i);
      long nanos = Math.floorMod(value, inMilli) * (1000000L / inMilli);
      return TimestampData.fromEpochMillis(Math.floorDiv(value, inMilli), (int) nanos);
    }
  }
}
