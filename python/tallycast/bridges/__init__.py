"""Bridges: streams from and to what a laboratory already runs.

Each is a command, ``python -m tallycast.bridges.NAME``:

- ``epics``: process variables in and out, by Channel Access and PV Access;
- ``mqtt``: topics in and out;
- ``files``: CSV and HDF5 (SWMR) files that grow;
- ``stdin``: sound and any other program, by ``tallycast pub``.

They have one rule in common: data that the peer does not deliver are a hole of stage ``source`` in the stream, reported once
and counted in the account that every bridge prints at its end. The decisions about samples, holes and epochs are in `_feed`,
without a clock and without a network; downsampling is in `_thinner`. Begin there.
"""
