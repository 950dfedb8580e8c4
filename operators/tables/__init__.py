"""Rows of memory, data frames and CSV text as tables of Flink, and methods that shape tables."""
