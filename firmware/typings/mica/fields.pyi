KERNELS: str  # generated: see the module
