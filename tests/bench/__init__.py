"""The benchmark: drkit and MirrorMaker 2 on the same brokers in the same run (``make bench``)."""
