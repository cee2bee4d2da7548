"""The demo's trained model and data, and pictures of it in a terminal. What is here and where from: README.md."""
