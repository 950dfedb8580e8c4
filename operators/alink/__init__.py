"""Formats, settings and names for programs written for Alink."""
