"""Where every byte of every tensor lies at every step: decided here, once, on the host."""
