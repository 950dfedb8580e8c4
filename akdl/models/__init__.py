"""Ready-made models for scripts."""
