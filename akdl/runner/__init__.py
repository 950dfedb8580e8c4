"""What the runner hands to a user's `main`: the task config and the writer of output rows."""
