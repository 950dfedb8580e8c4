"""What runs inside Flink's jobs, and the graph that it is put into."""
