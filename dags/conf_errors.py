"""Show broken conf files as a DAG import error of this file.

This file defines no DAG. Airflow shows either the import error of a file or its DAGs, never both. The files
that define DAGs therefore skip a broken pipeline, and this file reports its error and the fix.
"""

from __future__ import annotations

from tidemill_airflow.declared import raise_conf_errors
from tidemill_airflow.place import place_of

raise_conf_errors(place_of(__file__))
