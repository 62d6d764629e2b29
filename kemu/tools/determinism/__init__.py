"""The check of determinism: each sweep repeats a sample of runs in another process with another hash seed."""
