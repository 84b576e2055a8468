"""Answers that match a grammar. Knows ids and the bytes behind them; nothing of tensors, protocols or JSON."""
