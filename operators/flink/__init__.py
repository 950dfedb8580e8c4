"""Flink from the driver: environments, Java, slots and collected rows."""
