"""Operators of ONNX that are written as several simpler ones before the graph is built."""
