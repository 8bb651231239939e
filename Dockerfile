# Two images: `mlflow` (server with drivers for Postgres and S3) and `api` (the gradassay service).
FROM python:3.12-slim AS base
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN useradd --create-home --uid 10001 gradassay

FROM base AS mlflow
ARG MLFLOW_VERSION=3.17.2
RUN pip install "mlflow==${MLFLOW_VERSION}" "psycopg[binary]>=3.2,<4" "boto3>=1.35,<2"
USER gradassay
EXPOSE 5000

FROM base AS api
COPY . /source
RUN pip install "/source[server]" && rm -rf /source
USER gradassay
EXPOSE 8321
CMD ["gradassay", "serve", "--host=0.0.0.0", "--port=8321"]
