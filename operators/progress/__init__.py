"""What jobs do while they run, shown to whoever has started them."""
