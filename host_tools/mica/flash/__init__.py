"""Firmware onto a real board, without the loss of its files."""
