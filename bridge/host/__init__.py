"""One host: processes, interpreters and GPUs."""
