"""Charts of a packed model, and the page that has them all."""
