"""The console in a browser, and its JSON API: screens and operations over the questions of
`kbroker.console`, as one ASGI application.
"""
