"""What a process has to do with the one that started it: the line, its end, and a look at its environment first."""
