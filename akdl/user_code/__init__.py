"""Code and configuration of users: modules, config files and command lines."""
