"""Tables of runs.

* ``columns``: a table's columns, for Arrow and Spark. ``schemas``: every table's columns.
* ``derived`` lists the tables that follow from the recorded ones, with the functions that make them.
* ``groups``, ``replication``, ``streams``: these functions, DataFrame to DataFrame, each with its contract.
"""
