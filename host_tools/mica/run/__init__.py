"""A packed model on any target, what it answers, and how good that is."""
