"""Images of a request: where they come from, what they are, and how many tokens of the prompt they take."""
