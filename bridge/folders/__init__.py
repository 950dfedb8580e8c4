"""Folders on a host, and the removal of leftovers."""
