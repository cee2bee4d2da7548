"""Training: from labelled recordings, pictures and tables to a network that fits a board."""
