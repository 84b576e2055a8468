"""Logits to token ids and log probabilities. Knows nothing of the cache, of requests or of text."""
