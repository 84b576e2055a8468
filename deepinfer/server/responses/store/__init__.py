"""Where responses are kept: in memory, in a SQLite file or in PostgreSQL. Knows nothing of HTTP."""
