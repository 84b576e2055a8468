"""Text completion, OpenAI's older protocol: texts or token ids go on, without a chat around them."""
