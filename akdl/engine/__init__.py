"""Tools for training scripts, with the names and config keys of Alink's documentation.

They leave eager execution on.
"""
