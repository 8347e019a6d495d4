"""What a flow keeps on its target: records by type, the topic they are in, and names of internal topics.

Only this room knows the keys of the state, the names of internal topics and transactional ids.
Records of older versions stay readable; what to do about a state is decided by the callers.
"""
