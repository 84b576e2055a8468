"""HTTP in front of an engine: three chat protocols through one handler. Never imports torch."""
