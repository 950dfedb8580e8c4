/**
 * The log of Beam's DefaultJobBundleFactory, with the text of each operator.
 *
 * <p>When a task ends, its `close` takes back the references to a Python worker in two steps, and logs between them. A bundle
 * that ends meanwhile gives its reference back too, so the count falls below zero, which Flink takes as fatal: the TaskManager
 * ends, and a local job never gets another one.
 */
class BeamLog {
  static void silence() {
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      Class beam = Class.forName("org.apache.beam.runners.fnexecution.control.DefaultJobBundleFactory", true, loader);
      Class level = Class.forName("org.apache.logging.log4j.Level");
      Class[] types = new Class[] {Class.class};
      Object logger = Class.forName("org.apache.logging.log4j.LogManager").getMethod("getLogger", types).invoke(null, beam);
      logger.getClass().getMethod("setLevel", new Class[] {level}).invoke(logger, level.getField("ERROR").get(null));
    } catch (ReflectiveOperationException e) {
      // the log is not Flink's own: Beam still writes the line
    }
  }
}
