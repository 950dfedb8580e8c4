"""Preparation of a job: settings, files, environments and models are found, read and packed."""
