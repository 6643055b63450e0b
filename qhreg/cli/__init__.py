"""The command line: ``qhreg`` or ``python -m qhreg``.

`parser` says which commands and options there are, `commands` carries them out, `files` reads data.
Errors are one line on the error stream, and exit code 2.
"""
