"""MirrorMaker 2's settings file, read into the tables of drkit.toml.

Java's properties format, the table of all keys with what becomes of each, and client overrides. No key is
dropped silently; nothing here knows how drkit's own file is read.
"""
