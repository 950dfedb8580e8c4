"""Ready-made TensorFlow models for scripts."""
