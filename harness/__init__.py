"""What asks a cluster questions: drivers load it, watchers look on, checkers judge the history, a run wires them."""
