"""What runs inside Flink's jobs, and the graph of a script operator that it is put into."""
