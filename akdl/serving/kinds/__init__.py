"""Kinds of models that are one file."""
