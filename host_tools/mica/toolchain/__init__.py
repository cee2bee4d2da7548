"""Firmware and native modules: sources, compilers and builds; `ports/` has a file for each port of MicroPython."""
