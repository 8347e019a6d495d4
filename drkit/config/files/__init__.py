"""A configuration as text: documents, lines of TOML, variables, and settings given beside the file.

Values keep the line that they come from, so that an error can name it. What a setting means is not known
here.
"""
