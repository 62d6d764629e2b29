"""An incident: the events of logs and traces in order, their timeline, and questions that several causes ask.

* ``sources``: logs and traces become events; ``from_trace``: the events of a trace.
* ``timeline``: one row for each generation, with what the events state and nothing else.
* ``incident``: departures, rejoins, silences; ``words``: error codes in the words of logs.
"""
