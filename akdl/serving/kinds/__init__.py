"""Kinds of models that are one file, and functions of users."""
