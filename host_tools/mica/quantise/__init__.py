"""Float graph of core operators -> integer graph of kernels."""
