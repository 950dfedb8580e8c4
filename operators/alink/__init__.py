"""Formats, settings and names that exist for programs written for Alink."""
