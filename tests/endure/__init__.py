"""Months in minutes: what comes and goes must leave nothing behind. Run by ``make endure``."""
