"""Other server versions than the one at hand: which there are, where they lie, how they get there.

Every file is pinned by its hash. Knows nothing of clusters; nothing of the system is changed.
"""
