"""The wire: OP_MSG as bytes, one connection, pools of them. Knows nothing of clusters."""
