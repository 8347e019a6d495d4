"""What each command does, loaded when it runs; one file per command.

An action reads the configuration, calls the room that does the work, and gives its answer to the renderer.
Options and help are not here, so that help loads no client of Kafka.
"""
