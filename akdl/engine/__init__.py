"""Tools for training scripts, with the names and config keys of Alink's documentation; they leave eager execution on."""
