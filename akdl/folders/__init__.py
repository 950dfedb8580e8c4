"""Private, locked and shared folders that are removed with their owner."""
