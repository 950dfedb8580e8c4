"""Code and configuration of users: modules, config files, command lines, and errors of scripts."""
