"""From an incident to ranked causes, a scenario that repeats the incident, and advice.

* ``causes``: one file for each cause. A new cause needs only a new file.
* ``diagnose``: the ranked causes; "none" and "unknown" are answers.
* ``advice``: the changes that would have helped.
"""
