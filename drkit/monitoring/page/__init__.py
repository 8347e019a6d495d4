"""The HTTP server of metrics, health check and live page.

One static page, loaded from nowhere else, and JSON made from the board. It is read-only: no request changes
anything.
"""
