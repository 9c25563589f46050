FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

RUN useradd --create-home --uid 10001 asap && mkdir -p /app /data && chown asap:asap /app /data
WORKDIR /app

COPY requirements.txt .
RUN pip install -r requirements.txt

COPY --chown=asap:asap manage.py deploy/healthcheck.py ./
COPY --chown=asap:asap precompute precompute
COPY --chown=asap:asap ingest ingest
COPY --chown=asap:asap query query
COPY --chown=asap:asap asap_project asap_project

USER asap
# The cache is for the build machine's kind of CPU; on another kind the first start compiles once more.
RUN python manage.py compilekernels

ENV ASAP_DATA_DIR=/data ASAP_QUERY_ENGINE_HTTP_HOST=0.0.0.0 ASAP_CLUSTER_HEALTH_HOST=0.0.0.0
VOLUME /data
# 8088: the HTTP API. 8089: health and metrics of a cluster's workers and scheduler, whose check names that port.
EXPOSE 8088 8089
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "healthcheck.py"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "manage.py", "runasap"]
