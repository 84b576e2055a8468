"""Files to try the server with."""
