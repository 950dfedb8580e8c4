"""Error messages of programs: missing jars, cells of CSV files, uncaught exceptions, warnings at exit."""
