"""`python -m harness`: the same as the console script `mongofault`."""

from harness.cli import main

main()
