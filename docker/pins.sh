#!/bin/sh
# Writes the pin files anew from docker/versions.env, pyproject.toml and docker/jars.xml (`make pins`).
# Keeps what is pinned already where that is allowed; UPGRADE=1 takes the newest of everything.
set -eu
cd "$(dirname "$0")/.."
. docker/versions.env

constraints=.cache/constraints.txt
mkdir -p .cache
cat > "$constraints" <<END
apache-airflow==$AIRFLOW_VERSION
confluent-kafka==$CONFLUENT_KAFKA_VERSION
delta-spark==$DELTA_SPARK_VERSION
deltalake==$DELTALAKE_VERSION
fastavro==$FASTAVRO_VERSION
obstore==$OBSTORE_VERSION
pyarrow==$PYARROW_VERSION
pydantic==$PYDANTIC_VERSION
pyspark==$PYSPARK_VERSION
uv==$UV_VERSION
END

# Universal: one file for every Python from PYTHON_VERSION on and every system.
# No registry address is written, so the files install from whatever registry a machine has.
compile() {
    output=$1
    shift
    .venv/bin/uv pip compile --quiet --universal --python-version "$PYTHON_VERSION" --generate-hashes \
        --no-emit-index-url --no-header ${UPGRADE:+--upgrade} -o "$output" "$@"
}
ours() {
    name=$1
    shift
    compile "docker/requirements-$name.txt" --constraints "$constraints" "$@"
}
ours dev --all-extras pyproject.toml
# Images get the versions that the tests ran with, also of what only another image holds back.
ours spark --constraints docker/requirements-dev.txt --extra spark pyproject.toml
ours airflow --constraints docker/requirements-dev.txt --extra airflow pyproject.toml
# What set-up needs before it can install the rest.
grep -E '^setuptools==' docker/requirements-dev.txt | cut -d ' ' -f 1 > .cache/requirements-setup.in
echo "uv==$UV_VERSION" >> .cache/requirements-setup.in
ours setup .cache/requirements-setup.in
# A server for tests, in an environment of its own, with the version of its client here.
sed -nE 's/^mlflow-skinny==([^ ]+).*/mlflow==\1/p' docker/requirements-dev.txt > .cache/requirements-mlflow.in
compile tests/support/mlflow/requirements.txt .cache/requirements-mlflow.in

docker/setup.sh --pin-jars
