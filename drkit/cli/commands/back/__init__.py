"""The way back to the old primary, as commands: their words and options, without a client of Kafka.

Nothing is done here: see :mod:`drkit.cli.actions.back`.
"""
