"""Prediction of a model's cost on a board, without the board: features of a step, and a table of measured costs."""
