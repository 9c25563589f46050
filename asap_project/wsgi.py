"""Django as a WSGI application; `runasap` serves it after the core has started."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "asap_project.settings")

application = get_wsgi_application()
