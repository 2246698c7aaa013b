"""Bearer tokens of OAUTHBEARER: judged for clients that log in, fetched to log in with.

Whatever imports PyJWT or cryptography is imported where a listener or a login asks for it.
"""
