"""An operator in the JVM that passes rows on slowly until it fails, when a test wants it to."""

from __future__ import annotations

import pathlib

from pyflink.table import Table

from bridge.flink.arrow_operators import _translated, with_operator

_TEXT = """
import java.io.File;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.streaming.runtime.tasks.StreamTask;
import org.apache.flink.table.runtime.operators.TableStreamOperator;

public class SlowRows extends TableStreamOperator implements OneInputStreamOperator {
  private final int perSecond;
  private final File fails;
  private final File failed;
  private final boolean isSlow;
  private long rows;

  public SlowRows(Object[] references, StreamTask task, StreamConfig config, Output output, ProcessingTimeService service)
      throws Exception {
    perSecond = ((Integer) references[0]).intValue();
    fails = new File((String) references[1]);
    failed = new File(references[1] + ".failed");
    isSlow = !failed.exists();
    setup(task, config, output);
    setProcessingTimeService(service);
  }

  public void processElement(StreamRecord element) throws Exception {
    if (isSlow && ++rows % Math.max(perSecond / 50, 1) == 0) {
      Thread.sleep(Math.max(20, 1000 / perSecond));
      if (fails.delete()) {
        failed.createNewFile();
        throw new RuntimeException("on purpose");
      }
    }
    output.collect(element);
  }
}
"""


def slow_rows(table: Table, per_second: int, fails: pathlib.Path) -> Table:
    """Pass so many rows per second and subtask; the subtask that finds the file `fails` removes it
    and fails. After that, none is slow.
    """
    j_tenv = table._t_env._j_tenv
    stream = _translated(table._t_env, table)
    slow = with_operator(stream, "SlowRows", _TEXT, [per_second, str(fails)], stream.getType())
    return Table(j_tenv.fromDataStream(slow), table._t_env)
