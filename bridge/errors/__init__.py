"""Error messages of jobs: the cause of a failure, and its summary."""
