"""One host: processes, their folders, variables, interpreters and GPUs."""
