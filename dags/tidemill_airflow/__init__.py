"""Airflow integration of Tidemill: operators and a trigger over `tidemill.control`. Never imports pyspark."""
