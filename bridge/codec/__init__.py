"""Rows between Arrow, the form of Flink's JVM, and the messages of the process line. Pure: no
Flink, no processes.
"""
