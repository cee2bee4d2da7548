"""Boards at a port, emulated, or as a process of this computer: all are a `board.Link`."""
