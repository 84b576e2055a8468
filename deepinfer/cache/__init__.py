"""Memory of the sequences' keys and values: which blocks are free, and the tensors behind them."""
