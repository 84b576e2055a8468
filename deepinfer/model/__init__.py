"""The network: a plain forward over a ragged batch. Knows nothing of requests, scheduling or sampling."""
