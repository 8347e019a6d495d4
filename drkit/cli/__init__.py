"""The command line: finds a command, loads it when it runs, and prints answers and errors.

Common options, the session of one call, and the one renderer of tables and JSON. click and rich are
imported in this room only; no decision about clusters is made here.
"""
