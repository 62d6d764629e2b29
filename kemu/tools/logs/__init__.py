"""Logs of brokers and clients: wrappers give records, dialects give events, events give facts of a trace."""
