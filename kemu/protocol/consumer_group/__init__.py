"""The consumer protocol (KIP-848): target assignments and the steps of members towards them, as pure functions."""
