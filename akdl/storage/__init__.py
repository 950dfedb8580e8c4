"""Files at any address, archives, and archives that are models."""
