"""Every operator in numpy: in floats, and in the integers that all kernels must give."""
