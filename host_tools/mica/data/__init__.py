"""Samples in files: arrays, tables, sounds and pictures."""
