"""Django's backend of PostgreSQL, which gives up a server that is silent; see base.py."""
