"""The console of a live run: its state, its story, and orders (``kemu console``)."""
