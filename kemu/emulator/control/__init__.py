"""Control of a live run from outside: orders, waits, the present state, and a stream of events."""
