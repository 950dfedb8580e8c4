import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.python.PythonOptions;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.factories.ModelProviderFactory;
import org.apache.flink.table.functions.AsyncPredictFunction;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.ml.AsyncPredictRuntimeProvider;
import org.apache.flink.table.ml.ModelProvider;
import org.apache.flink.table.runtime.arrow.serializers.ArrowSerializer;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeChecks;
import org.apache.flink.table.types.logical.utils.LogicalTypeUtils;
import org.apache.flink.table.utils.DateTimeUtils;
import org.apache.flink.util.IOUtils;
import java.io.IOException;
import java.io.OutputStream;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The provider 'akdl' of CREATE MODEL: rows of ML_PREDICT go through the pipes of a Python process, see ml_predict.py.
 *
 * <p>The tasks of a query in this JVM share the process. What it gets is a line of JSON and one Arrow stream, and it answers with
 * an Arrow stream: an empty batch once the model is loaded, then a batch for each one. Rows that arrive while it computes form
 * the next batch. It ends with its input, and so with this JVM.
 */
public class SqlModels implements ModelProviderFactory {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ConfigOption PATH = ConfigOptions.key("path").stringType().noDefaultValue();
  private static final ConfigOption PARAMS = ConfigOptions.key("params").stringType().defaultValue("{}");

  public String factoryIdentifier() {
    return "akdl";
  }

  public Set requiredOptions() {
    return Collections.singleton(PATH);
  }

  public Set optionalOptions() {
    return Collections.singleton(PARAMS);
  }

  public ModelProvider createModelProvider(ModelProviderFactory.Context context) {
    FactoryUtil.ModelProviderFactoryHelper helper = FactoryUtil.createModelProviderFactoryHelper(this, context);
    helper.validate();
    RowType inputs = (RowType) context.getCatalogModel().getResolvedInputSchema().toPhysicalRowDataType().getLogicalType();
    RowType outputs = (RowType) context.getCatalogModel().getResolvedOutputSchema().toPhysicalRowDataType().getLogicalType();
    Map settings = new HashMap();
    String params = (String) helper.getOptions().get(PARAMS);
    settings.put("id", UUID.randomUUID().toString()); // two queries share no process
    settings.put("path", helper.getOptions().get(PATH));
    settings.put("params", params);
    if (params.contains("modelStreamFilePath")) {
      settings.put("begun", Long.valueOf(System.currentTimeMillis() / 1000)); // models from then on are newer ones
    }
    settings.put("inputs", inputs.asSummaryString()); // the other form of TIMESTAMP_LTZ has four words
    settings.put("outputs", outputs.asSummaryString());
    try {
      String line = JSON.writeValueAsString(settings) + "\n";
      return new Function((String) context.getConfiguration().get(PythonOptions.PYTHON_EXECUTABLE), line, inputs, outputs);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  public static class Function extends AsyncPredictFunction implements AsyncPredictRuntimeProvider {
    final String python;
    final String settings;
    final RowType inputs;
    final RowType outputs;
    private transient Pipe pipe;
    private transient Class[] wanted; // of the cells for the model

    public Function(String python, String settings, RowType inputs, RowType outputs) {
      this.python = python;
      this.settings = settings;
      this.inputs = inputs;
      this.outputs = outputs;
    }

    public AsyncPredictFunction createAsyncPredictFunction(ModelProvider.Context context) {
      return this;
    }

    public ModelProvider copy() {
      return this;
    }

    public void open(FunctionContext context) throws Exception {
      wanted = new Class[inputs.getFieldCount()];
      for (int i = 0; i < wanted.length; i++) {
        wanted[i] = LogicalTypeUtils.toInternalConversionClass(inputs.getTypeAt(i));
      }
      pipe = Pipe.join(this);
      pipe.loaded.get(); // its own time limit is startTimeout
    }

    public void close() throws Exception {
      if (pipe != null) {
        pipe.leave();
        pipe = null;
      }
    }

    public CompletableFuture asyncPredict(RowData row) {
      GenericRowData cells = (GenericRowData) row;
      for (int i = 0; i < cells.getArity(); i++) {
        Object cell = cells.getField(i);
        // Decimals and points in time have one class for all precisions.
        Class to = wanted[i];
        if (cell != null && (!to.isInstance(cell) || to == DecimalData.class || to == TimestampData.class)) {
          cells.setField(i, cast(cell, i));
        }
      }
      Waiting waiting = new Waiting(cells);
      pipe.waiting.add(waiting);
      return waiting;
    }

    /** Return a cell in the type of the model: Flink permits columns of other types, and does not cast them here. */
    private Object cast(Object value, int column) {
      LogicalType type = inputs.getTypeAt(column);
      if (value instanceof TimestampData && wanted[column] == TimestampData.class
          && value.equals(DateTimeUtils.truncate((TimestampData) value, LogicalTypeChecks.getPrecision(type)))) {
        return value;
      }
      Object number = value instanceof DecimalData ? ((DecimalData) value).toBigDecimal() : value;
      if (number instanceof Number) {
        if (wanted[column] != DecimalData.class) {
          return JSON.convertValue(number, wanted[column]);
        }
        BigDecimal exact = new BigDecimal(number.toString());
        DecimalData found =
            DecimalData.fromBigDecimal(exact, LogicalTypeChecks.getPrecision(type), LogicalTypeChecks.getScale(type));
        if (found != null && found.toBigDecimal().compareTo(exact) == 0) {
          return found;
        }
      }
      throw new IllegalArgumentException(
          "ML_PREDICT: input '" + inputs.getFieldNames().get(column) + "': expected " + type + ", got " + value + ": CAST it");
    }
  }

  /** A row, and the future of its answer. */
  private static class Waiting extends CompletableFuture {
    final RowData row;

    Waiting(RowData row) {
      this.row = row;
    }
  }

  /** The process of a model, and the thread that writes to it and reads from it. */
  private static class Pipe implements Callable {
    private static final Map RUNNING = new HashMap();
    private static final Waiting END = new Waiting(null);
    private static final long END_S = 10;

    /** See the constant of this name in akdl/process/preflight.py: the current folder of the JVM may be that of anybody. */
    private static final String RUN_MODULE =
        "import sys; sys.path[:] = filter(None, sys.path); del sys.argv[0]; "
            + "import runpy; runpy.run_module(sys.argv[0], None, '__main__', True)";

    final CompletableFuture loaded = new CompletableFuture();
    final LinkedBlockingQueue waiting = new LinkedBlockingQueue();
    private final String settings;
    private final RowDataSerializer copier;
    private final ArrowSerializer rows;
    private final Process process;
    private final String python;
    private int users = 0; // under the lock of RUNNING

    private Pipe(Function function) throws IOException {
      settings = function.settings;
      copier = new RowDataSerializer(function.outputs);
      rows = new ArrowSerializer(function.inputs, function.outputs);
      python = function.python;
      process = new ProcessBuilder(python, "-c", RUN_MODULE, "operators.serve.ml_predict").start();
      Thread thread = new Thread(new FutureTask(this), "akdl-ml-predict");
      thread.setDaemon(true);
      thread.start();
    }

    static Pipe join(Function function) throws IOException {
      synchronized (RUNNING) {
        Pipe pipe = (Pipe) RUNNING.get(function.settings);
        if (pipe == null) {
          pipe = new Pipe(function);
          RUNNING.put(function.settings, pipe);
        }
        pipe.users++;
        return pipe;
      }
    }

    void leave() throws InterruptedException {
      synchronized (RUNNING) {
        if (--users > 0) {
          return;
        }
        RUNNING.remove(settings, this); // a failed one may have a successor
      }
      waiting.add(END);
      try {
        if (loaded.isDone()) { // else it does not read its input
          process.waitFor(END_S, TimeUnit.SECONDS);
        }
      } finally {
        process.destroyForcibly();
      }
    }

    /** Answer rows until the end; after a failure with its reason. */
    public Object call() throws Exception {
      Throwable failure = null;
      try {
        OutputStream out = process.getOutputStream();
        out.write(settings.getBytes("UTF-8"));
        rows.open(process.getInputStream(), out);
        out.flush();
        rows.load(); // the empty batch of a loaded model
        loaded.complete(null);
      } catch (Throwable error) {
        failure = reason(error);
        loaded.completeExceptionally(failure);
      }
      for (List batch = take(); batch.get(batch.size() - 1) != END; batch = take()) {
        try {
          if (failure == null) {
            predict(batch);
            continue;
          }
        } catch (Throwable error) {
          failure = reason(error);
        }
        for (Object row : batch) {
          ((Waiting) row).completeExceptionally(failure);
        }
      }
      endInput();
      return null;
    }

    /** Wait for rows, and return all that have come. */
    private List take() throws InterruptedException {
      List batch = new ArrayList();
      batch.add(waiting.take());
      waiting.drainTo(batch);
      return batch;
    }

    private void predict(List batch) throws Exception {
      for (Object row : batch) {
        rows.write(((Waiting) row).row);
      }
      rows.finishCurrentBatch();
      process.getOutputStream().flush();
      int answered = rows.load();
      if (answered != batch.size()) {
        throw new IOException("ML_PREDICT: expected " + batch.size() + " answers, got " + answered);
      }
      for (int i = 0; i < batch.size(); i++) {
        ((Waiting) batch.get(i)).complete(Collections.singletonList(copier.copy(rows.read(i))));
      }
    }

    /** Let the process end. */
    private void endInput() {
      try {
        rows.close();
      } catch (Exception error) {
        // it was not opened, or the process has ended
      }
      IOUtils.closeQuietly(process.getOutputStream());
    }

    /** What the process says about its end; the error itself where it ended well. */
    private Throwable reason(Throwable error) {
      synchronized (RUNNING) {
        RUNNING.remove(settings, this);
      }
      endInput();
      try {
        if (!process.waitFor(END_S, TimeUnit.SECONDS)) {
          process.destroyForcibly().waitFor(); // which closes its pipes
        }
        String told = new String(process.getErrorStream().readAllBytes(), "UTF-8").trim();
        if (!told.startsWith("bridge.") && process.exitValue() != 0) {
          String ended = "bridge.exceptions.TaskError: ML_PREDICT: the process that predicts ended with status ";
          told = ended + process.exitValue() + " in " + python + "\n" + told;
        }
        String[] parts = told.split("\0"); // the whole text, and a summary of it
        Throwable summary = parts.length < 2 ? null : new RuntimeException("\n" + parts[1]);
        return told.isEmpty() ? error : new RuntimeException("\n" + parts[0], summary); // what Arrow says of its pipe is no cause
      } catch (Exception other) {
        error.addSuppressed(other);
        return error;
      }
    }
  }
}
