"""The stand-in router: a process of its own, used only where no mongos is found. An imitation above the shards.

Start with `router.py` (the parts put together) and `dispatch.py` (which command is done by which part).
"""
