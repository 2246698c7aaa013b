"""Questions and changes of the screens of a console, to any Kafka: async functions that return
plain values. Whatever a broker is too old to say, or does not let this user see, is named in the
answer.
"""
