"""Base classes of operators: tables that can be linked, shaped and run."""
