"""What users write: modules of scripts, config files and command lines."""
