"""Send random short sequences of raw requests both to a real broker and to the coordinator machine."""
