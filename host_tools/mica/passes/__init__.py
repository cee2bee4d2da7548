"""Rewrites of the graph, one a file. `pipeline.py` is their order, and the story of the compiler."""
