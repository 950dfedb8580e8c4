"""Flink from the driver: environments, Java, slots, and rows of the program as tables."""
