"""ONNX file -> Graph. The only package that imports onnx."""

from mica.importer.onnx_file import import_onnx

__all__ = ["import_onnx"]
