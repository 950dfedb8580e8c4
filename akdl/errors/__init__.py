"""Exceptions of scripts as data, and advice for them."""
