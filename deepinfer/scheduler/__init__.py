"""Who runs next. No torch, no sampling, no text."""
