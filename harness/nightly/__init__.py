"""A night: cells of versions, scenarios, faults and drivers in turn, each a run in a process of its own.

`plan.py` what is asked for, `servers.py` which server a version means, `cells.py` what it comes to, `running.py` one
cell, `night.py` all of them, `results.py` and `comparison.py` what came of it, and what is not as it was last night.
"""
