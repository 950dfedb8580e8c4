"""Error messages: missing jars, wrong cells of CSV files, uncaught exceptions, warnings at exit."""
