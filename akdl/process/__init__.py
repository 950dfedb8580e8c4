"""Channel, lifetime and environment of a process that the Flink side starts."""
