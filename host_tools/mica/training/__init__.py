"""From labelled recordings, pictures and tables to a packed model that fits a board. NumPy alone trains.

Examples, a split, a recipe of batches, candidates under a contract, training, an ONNX file, the ordinary compile.
"""
