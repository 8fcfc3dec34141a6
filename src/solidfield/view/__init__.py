"""A page on your own machine that shows maps and answers questions about them: `solid view`.

`shown.py` cuts pieces out of maps, `sensors.py` what was read, `try_sensors.py` draws anew with readings that are only
imagined; `server.py` hands all that to the page in `page/`, and `export.py` writes page and maps into one file.
"""
