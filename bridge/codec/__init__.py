"""Rows between Arrow, as Flink's JVM has them, and the messages of the process line. Pure: no Flink, no processes."""
