"""Folders on a host: where they are made, and how leftovers are removed."""
