"""How a run is shown: live while it goes on, as a table to paste when it is over."""
