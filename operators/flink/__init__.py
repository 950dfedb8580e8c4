"""Flink as the driver sees it: environments, Java, slots, and rows that come back."""
