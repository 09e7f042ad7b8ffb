"""YAML files -> frozen models. No Spark, no Airflow, no network."""
