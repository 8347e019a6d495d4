"""The command line: one file per command; a command returns data, one renderer prints."""
