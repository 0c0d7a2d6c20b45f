"""The commands of the CLI, grouped by what they act on; each calls one function of the rooms and prints."""
