"""A stream of work over many boards: who gets which request, and what happens when nobody answers."""
