"""The place of every byte of every tensor at every step, decided once, on the host."""
