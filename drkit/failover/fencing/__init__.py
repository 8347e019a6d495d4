"""Keeping writers off a cluster, and the proof that they are off.

Fences by ACLs or by the site's own stop command, canaries on each partition, open transactions, and drkit's
own writers on the target. A fence is put up and lifted only by its caller's order.
"""
