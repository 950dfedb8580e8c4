"""Sources and sinks of tables, and functions of columns."""
