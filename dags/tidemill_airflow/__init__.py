"""Tidemill inside Airflow: operators and a trigger over `tidemill.control`. Never imports pyspark."""
