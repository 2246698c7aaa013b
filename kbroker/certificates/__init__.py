"""Certificates: what stands in one, and an authority of one's own that signs them for a broker and
its clients.
"""
