"""Arguments that commands take and check alike: addresses, names, times, settings, and their
refusals.
"""
