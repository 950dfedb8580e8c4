"""Files and folders of this host and at any address, archives, and archives that are models."""
