"""The task config that a user's `main` gets, and the writer of output rows."""
