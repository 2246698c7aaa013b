"""The JSON API of the console: declared operations, from which routes and the OpenAPI document are
made. They ask the same questions as the screens.
"""
