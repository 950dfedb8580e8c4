"""Files of rows: reading them in parts, and writing them."""
