"""Shows broken conf files where an operator looks: as a DAG import error of this file.

This file makes no DAG. Airflow shows the import error of a file or its DAGs, never both; the files that make
DAGs therefore pass over a broken pipeline, and this one says what is wrong with it and how to correct it.
"""

from __future__ import annotations

from tidemill_airflow.declared import raise_conf_errors
from tidemill_airflow.place import place_of

raise_conf_errors(place_of(__file__))
