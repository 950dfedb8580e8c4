"""Formats of files: their names, their options, and how their cells are read and written."""
