"""Every figure of the pages: measured by `make figures`, recorded in `records/`, and written between markers.

A test renders the records again and compares: nobody types a figure.
"""
