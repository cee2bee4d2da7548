"""The commands of `mica fleet`, one a file."""
