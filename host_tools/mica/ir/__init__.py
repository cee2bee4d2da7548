"""The compiler's intermediate representation: a graph of operators over named values."""
