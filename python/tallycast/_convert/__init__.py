"""Excerpts as objects and files of other libraries, one file for each.

In common: rows are stored samples only, so that no hole is bridged and none is filled; the gap map is
attached wherever a library has a place for it.
"""
