"""The graph of a script operator, and the functions that run in Flink's jobs."""
