"""Workarounds for defects of PyFlink, py4j and Beam, and for servers that they leave open."""
