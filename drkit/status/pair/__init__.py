"""The protection of a pair: the flows between two clusters in both directions, topic by topic.

Facts of one look go in, a state comes out: :mod:`.judge` and :mod:`.delta` are pure. What is read from
clusters is in :mod:`.reading`. Looking changes nothing, and what does not answer stays unknown.
"""
