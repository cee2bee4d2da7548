"""Sound and motion from a board's sensors, and the events that a model finds in them."""
