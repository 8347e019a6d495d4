"""The lease of a flow: one run copies it, others wait.

Taking, renewing and giving back the lease, who holds it, and who waits for it. What a holder does with it,
and how a standby prepares, is not known here.
"""
