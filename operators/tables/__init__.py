"""Rows in memory, DataFrames and CSV text as Flink tables, and statistics of tables."""
