"""Taking a flow over from MirrorMaker 2, with its topics as they are.

MirrorMaker 2's offsets are read and checked by content, and become the first records of the offset map.
What follows is an ordinary flow: nothing here runs once it copies.
"""
