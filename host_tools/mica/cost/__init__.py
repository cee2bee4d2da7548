"""What a model will cost on a board, before there is a board: features of a step, and a table of measured costs."""
