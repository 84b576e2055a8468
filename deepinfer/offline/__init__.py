"""Running without a model: answers from files."""
