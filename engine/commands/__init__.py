"""The command line's commands that are not a part of their own."""
