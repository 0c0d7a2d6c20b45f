"""`python -m harness`: the same as the console script `mongofault`."""

from harness.entry import main

main()
