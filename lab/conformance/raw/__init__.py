"""Random short sequences of raw requests, put to a real broker and to the coordinator machine alike."""
