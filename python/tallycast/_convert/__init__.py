"""Excerpts as objects and files of other libraries, one file for each.

What they have in common: rows are stored samples and nothing else, so that no hole is bridged and none is filled; the gap map
goes along in whatever place a library has for it.
"""
