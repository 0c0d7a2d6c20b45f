"""The proxy: one process through which all connections of a cluster go, for faults in the network and exact counts.

`rules` what a fault is, `source` who connects, `frames` and `flow` one direction of a connection, `pair` the two
sockets of one, `link` one listening address, `book` the rules in force, `tap` counts, `control` the address that
commands come to, `client` how others send them. It knows bytes and messages, nothing of clusters.

A fault in the network is imitated at the level of TCP streams, so three things differ from a real one: the kernel of
this side acknowledges what is sent (a blackhole shows no retransmissions), a connection is accepted before anybody
knows whether its target is there (a target that is gone resets it), and who connects is known only after its first
message.
"""
