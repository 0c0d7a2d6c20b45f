"""The proxy: one process through which all connections of a cluster go, for faults in the network and exact counts.

A fault as data is in `rules`, who connects in `source`, the rules in force in `book`, what they mean for a connection
in `effects`. A connection is a `pair` of `side`s; a `flow` is one direction, `requests` or `replies`, and `exchange`
puts the two together where messages are read. `link` is one listening address, `tap` the counts, `control` the address
that commands come to, `client` how others send them. It knows bytes and messages, nothing of clusters.

A fault in the network is imitated at the level of TCP streams, so three things differ from a real one: the kernel of
this side acknowledges what is sent (a blackhole shows no retransmissions), a connection is accepted before anybody
knows whether its target is there (a target that is gone resets it), and who connects is known only after its first
message.
"""
