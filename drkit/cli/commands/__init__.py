"""What each command is called and takes: names, options and help.

One file per command; what it does is loaded from :mod:`drkit.cli.actions` when it runs. Nothing that needs
Kafka or Spark is imported here.
"""
