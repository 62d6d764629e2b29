"""Whether a run is the same again.

A sample of every sweep is made once more in another process, with another hash seed.
"""
