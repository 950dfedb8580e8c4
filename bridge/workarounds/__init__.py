"""Workarounds for defects of PyFlink, py4j and Beam, and for servers that they leave open.

Each names the upstream ticket that it waits for. No ticket is known where it names only a place
upstream.
"""
