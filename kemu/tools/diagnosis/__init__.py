"""From events of a log, or from facts of a trace, to a timeline, ranked causes, a scenario and advice.

* ``timeline``: one row for each generation, with what the log states and nothing else.
* ``case``: the events of all files in order, and questions that several causes ask.
* ``causes``: one file for each cause. A new cause needs only a new file.
* ``diagnose``: the ranked causes; "none" and "unknown" are answers.
* ``from_trace``: the events of a trace of kemu.
"""
