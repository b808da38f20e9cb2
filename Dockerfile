# One image for the three processes. The Deployments of config/manager run in it:
#   python -m admission webhook       HTTPS on 9443
#   python -m admission controller
#   python -m ungater
# each with /healthz, /readyz and /metrics on 8081. It needs no writable file but below /tmp, and no rights of its own.
# Built by `make image`; every package is pinned by requirements.lock with its hashes.

# The base by its digest: a tag alone may be another image tomorrow. Another base: make image BASE=python:3.12-slim@sha256:...
ARG BASE=python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
FROM ${BASE} AS build
ARG BASE
RUN case "${BASE}" in *@sha256:*) ;; *) echo "BASE=${BASE}: must name its digest (...@sha256:...)" >&2; exit 1 ;; esac
# Bytecode that is valid by its source's hash and not by its time, so that two builds have the same files.
ENV SOURCE_DATE_EPOCH=1577836800
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv /tools \
 && /tools/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY api api
COPY admission admission
COPY ungater ungater
COPY config config
COPY hack/__init__.py hack/runtime_lock.py hack/
RUN /tools/bin/python -m hatchling build -t wheel -d /wheel \
 && /tools/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-deps /wheel/*.whl \
 && /tools/bin/python -m hack.runtime_lock requirements.lock > runtime.lock
# A second environment with what the processes import and no more: no pip, no test tools.
RUN python -m venv --without-pip /opt/stowage \
 && /tools/bin/python -m pip --python /opt/stowage/bin/python install --no-cache-dir --disable-pip-version-check --require-hashes -r runtime.lock \
 && /tools/bin/python -m pip --python /opt/stowage/bin/python install --no-cache-dir --disable-pip-version-check --no-deps /wheel/*.whl

FROM ${BASE}
COPY --from=build /opt/stowage /opt/stowage
# One thread for the linear algebra behind numpy: the arrays are small, and the processes are asynchronous themselves.
ENV PATH=/opt/stowage/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OPENBLAS_NUM_THREADS=1
WORKDIR /tmp
USER 65532:65532
EXPOSE 9443 8081
ENTRYPOINT ["python", "-m"]
CMD ["admission", "controller"]
