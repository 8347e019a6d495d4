"""The tables of drkit.toml as typed, frozen models, and the rules between them.

Each table has its own file; `settings` puts them together. A model refuses what cannot be true of it; it
reads no file, and knows no cluster but by its settings.
"""
