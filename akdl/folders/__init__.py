"""Private, locked and shared folders, which disappear with their owner."""
